//! What callers want of a driver. Each call has a token, with which its answer comes, and a deadline in
//! ticks, as `Driver::now` counts them.

use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};
use raft::{ProgressState, StateRole};

use crate::driver::{Driver, Group};
use crate::error::Result;
use crate::log::Disk;
#[cfg(test)]
use crate::log::GroupLog;
use crate::outside::{Peer, Status, ENTRY_BYTES_MAX};
use crate::waiting::Answer;

impl<D: Disk> Driver<D> {
    /// Proposes entries, which get indexes one behind the other; the answer is that of the last.
    pub fn propose(&mut self, group: u64, token: u64, entries: Vec<Vec<u8>>, deadline: u64) -> Result<()> {
        self.check()?;
        let drops = self.drops_proposals();
        let Some(found) = self.groups.get_mut(&group) else {
            self.missing(group, token);
            return Ok(());
        };
        let raft = &found.raw.raft;
        let leader = if raft.state == StateRole::Leader { 0 } else { raft.leader_id };
        if raft.state != StateRole::Leader && drops {
            found.waiting.answer(token, Answer::NotLeader { leader });
            return Ok(());
        }
        if entries.is_empty() || entries.iter().any(|e| e.is_empty() || e.len() > ENTRY_BYTES_MAX) {
            let text = format!("an entry has 1 to {ENTRY_BYTES_MAX} bytes: divide larger batches");
            found.waiting.answer(token, Answer::Refused(text));
            return Ok(());
        }
        let before = found.raw.raft.raft_log.last_index();
        for entry in entries {
            if found.raw.propose(Vec::new(), entry).is_err() {
                // While it hands leadership over, a leader takes nothing.
                let at = (found.raw.raft.raft_log.last_index(), found.raw.raft.term);
                let answer = match at.0 == before {
                    true => Answer::NotLeader { leader },
                    false => Answer::Unknown { index: at.0, term: at.1 },
                };
                found.waiting.answer(token, answer);
                return Ok(());
            }
        }
        let mut at = (found.raw.raft.raft_log.last_index(), found.raw.raft.term);
        at.0 += u64::from(at.0 == before); // a planted fault forwarded it: the next one, it is to be hoped
        found.waiting.propose(token, at, deadline, false);
        Ok(())
    }

    /// Proposes that these be the members. Several changes at once go by joint consensus.
    pub fn change(
        &mut self,
        group: u64,
        token: u64,
        voters: &[u64],
        learners: &[u64],
        deadline: u64,
    ) -> Result<()> {
        let Some(found) = self.leading(group, token)? else {
            return Ok(());
        };
        let changes = match changes_to(found.raw.store().conf().0, voters, learners) {
            Ok(changes) if changes.is_empty() => {
                found.waiting.answer(token, Answer::Done);
                return Ok(());
            }
            Ok(changes) => changes,
            Err(text) => {
                found.waiting.answer(token, Answer::Refused(text.to_owned()));
                return Ok(());
            }
        };
        let mut change = ConfChangeV2::default();
        change.set_changes(changes.into());
        if found.raw.propose_conf_change(Vec::new(), change).is_err() {
            found.waiting.answer(token, Answer::NotLeader { leader: 0 });
            return Ok(());
        }
        let at = (found.raw.raft.raft_log.last_index(), found.raw.raft.term);
        found.waiting.propose(token, at, deadline, true);
        Ok(())
    }

    /// Waits until everything that was acknowledged before is applied here. Any replica may ask.
    pub fn read_barrier(&mut self, group: u64, token: u64, deadline: u64) -> Result<()> {
        self.check()?;
        let (asked, now) = (self.question(), self.now());
        let Some(found) = self.groups.get_mut(&group) else {
            self.missing(group, token);
            return Ok(());
        };
        found.waiting.barrier(token, deadline, asked.clone(), now);
        found.raw.read_index(asked);
        Ok(())
    }

    /// Hands leadership over to another voter.
    pub fn transfer(&mut self, group: u64, token: u64, to: u64, deadline: u64) -> Result<()> {
        let Some(found) = self.leading(group, token)? else {
            return Ok(());
        };
        if !found.raw.store().conf().0.voters.contains(&to) {
            let text = format!("replica {to} is no voter of group {group}: name one of its voters");
            found.waiting.answer(token, Answer::Refused(text));
        } else {
            found.waiting.transfer(token, to, deadline);
            found.raw.transfer_leader(to);
        }
        Ok(())
    }

    /// Returns the group of a call that only a leader takes. Answers the call if there is none.
    fn leading(&mut self, group: u64, token: u64) -> Result<Option<&mut Group<D>>> {
        self.check()?;
        if !self.groups.contains_key(&group) {
            self.missing(group, token);
        }
        let Some(found) = self.groups.get_mut(&group) else {
            return Ok(None);
        };
        let raft = &found.raw.raft;
        if raft.state != StateRole::Leader {
            found.waiting.answer(token, Answer::NotLeader { leader: raft.leader_id });
            return Ok(None);
        }
        Ok(Some(found))
    }

    pub fn status(&self, group: u64) -> Option<Status> {
        let found = self.groups.get(&group)?;
        let (raft, store) = (&found.raw.raft, found.raw.store());
        let peer = |(replica, progress): (&u64, &raft::Progress)| Peer {
            replica: *replica,
            matched: progress.matched,
            next: progress.next_idx,
            is_active: progress.recent_active,
            gets_snapshot: progress.state == ProgressState::Snapshot,
        };
        let is_leader = raft.state == StateRole::Leader;
        Some(Status {
            role: raft.state.into(),
            leader: raft.leader_id,
            term: raft.term,
            commit: raft.raft_log.committed,
            applied: found.applied,
            first: store.cut() + 1,
            last: raft.raft_log.last_index(),
            conf: store.conf().0.clone(),
            peers: raft.prs().iter().filter(|_| is_leader).map(peer).collect(),
        })
    }

    /// Counts replicas to which this leader would send what they have (raft-rs issue 557).
    #[cfg(test)]
    pub fn count_next_behind(&self, group: u64) -> u64 {
        let Some(raft) = self.groups.get(&group).map(|found| &found.raw.raft) else {
            return 0;
        };
        let is_leader = raft.state == StateRole::Leader;
        raft.prs().iter().filter(|(_, p)| is_leader && p.next_idx <= p.matched).count() as u64
    }

    #[cfg(test)]
    pub fn store(&self, group: u64) -> Option<&GroupLog<D>> {
        self.groups.get(&group).map(|found| found.raw.store())
    }
}

/// Returns the changes from one configuration to another, or why there are none.
fn changes_to(
    conf: &ConfState,
    voters: &[u64],
    learners: &[u64],
) -> std::result::Result<Vec<ConfChangeSingle>, &'static str> {
    if voters.is_empty() {
        return Err("a group needs at least one voter");
    }
    if voters.iter().any(|v| learners.contains(v)) || voters.contains(&0) || learners.contains(&0) {
        return Err("a replica is either a voter or a learner, and its id is not 0");
    }
    if !conf.voters_outgoing.is_empty() {
        return Err("another change of members is under way: try again when it is done");
    }
    let mut changes = Vec::new();
    let mut add = |replica: u64, kind: ConfChangeType| {
        let mut change = ConfChangeSingle { node_id: replica, ..ConfChangeSingle::default() };
        change.set_change_type(kind);
        changes.push(change);
    };
    for voter in voters.iter().filter(|v| !conf.voters.contains(v)) {
        add(*voter, ConfChangeType::AddNode);
    }
    for learner in learners.iter().filter(|l| !conf.learners.contains(l)) {
        add(*learner, ConfChangeType::AddLearnerNode);
    }
    for old in conf.voters.iter().chain(&conf.learners) {
        if !voters.contains(old) && !learners.contains(old) {
            add(*old, ConfChangeType::RemoveNode);
        }
    }
    Ok(changes)
}
