//! The loop of a site: what happens to ticks, messages and calls, and in which order. This is the only
//! code near the consensus, and its order is what safety depends on:
//!
//! 1. messages of a leader may go at once;
//! 2. entries, terms and votes of all groups are written and fsynced, in one write;
//! 3. only then the other messages go, and committed entries are handed over.
//!
//! A failed write ends the driver: what it has not acknowledged by then it never will.
//!
//! A driver has no thread, clock, socket or file: its owner calls it from one thread, with a `Disk`
//! below it and an `Outside` around it. So the simulator and a site drive the same code.

use std::collections::{BTreeMap, BTreeSet};

use protobuf::Message as _;
use raft::eraftpb::{ConfChangeV2, ConfState, Entry, EntryType, Message, MessageType};
use raft::{Config, GetEntriesContext, ProgressState, RawNode, Ready, SnapshotStatus, StateRole, Storage};

use crate::error::{LogError, Result};
use crate::log::{gather, Disk, GroupLog, GroupWrite, Log};
#[cfg(test)]
use crate::outside::Fault;
use crate::outside::{Options, Outside, Role};
use crate::state::Manifest;
use crate::waiting::{Answer, Waiting};

const AGAIN_BYTES: u64 = 16 << 20; // of entries that a client gets again, in one turn

/// One group, as the driver has it.
pub(crate) struct Group<D: Disk> {
    pub(crate) raw: RawNode<GroupLog<D>>,
    pub(crate) applied: u64, // by the client
    handed: u64,             // by the engine
    given: u64,              // to the client; behind `handed` while it gets entries again
    is_damaged: bool,        // the client has lost what it had, so it gets nothing
    flushed: u64,            // by the client
    known: (Role, u64, u64), // to the outside: role, term, leader
    pub(crate) waiting: Waiting,
    fetching: Option<Message>,
    takes_snapshot: bool,
    snapshots: BTreeMap<u64, u64>, // to which replicas one is under way, and since which tick
}

/// Drives all groups of a site. Owned by the thread of the site, which alone may call it.
pub struct Driver<D: Disk> {
    pub(crate) options: Options,
    log: Log<D>,
    pub(crate) groups: BTreeMap<u64, Group<D>>,
    now: u64,
    questions: u64,
    answers: Vec<(u64, Answer)>, // to calls for groups that are not here
    excluded: BTreeSet<u64>,     // replicas that are members no more
    stopped: Option<LogError>,
}

impl<D: Disk> Driver<D> {
    pub fn new(log: Log<D>, options: Options) -> Self {
        Self {
            options,
            log,
            groups: BTreeMap::new(),
            now: 0,
            questions: 0,
            answers: Vec::new(),
            excluded: BTreeSet::new(),
            stopped: None,
        }
    }

    pub fn now(&self) -> u64 {
        self.now
    }

    #[cfg(test)]
    fn has(&self, fault: Fault) -> bool {
        self.options.fault == Some(fault)
    }

    pub(crate) fn config(&self, applied: u64) -> Config {
        #[allow(unused_mut)]
        let mut config = Config {
            id: self.log.identity().replica,
            election_tick: self.options.election_ticks,
            heartbeat_tick: self.options.heartbeat_ticks,
            applied,
            max_size_per_msg: 4 << 20,
            max_inflight_msgs: 256,
            max_committed_size_per_ready: 16 << 20,
            check_quorum: true,
            pre_vote: true,
            ..Config::default()
        };
        #[cfg(test)]
        if let Some(ticks) = self.options.exact_election_ticks {
            (config.min_election_tick, config.max_election_tick) = (ticks, ticks + 1);
        }
        config
    }

    /// Makes a group with these first voters, each of which makes it the same way, or without any: a
    /// replica that joins, which waits for a snapshot. The client has applied entry 1, or 0 if it joins.
    pub fn create(&mut self, group: u64, voters: &[u64]) -> Result<()> {
        self.check()?;
        let conf = ConfState::from((voters.to_vec(), vec![]));
        let index = u64::from(!voters.is_empty());
        let made = self.log.create(group, index, conf)?;
        self.open(made, index)
    }

    /// Begins to take part in a group, whose client has applied entries up to `applied`.
    pub fn open(&mut self, mut log: GroupLog<D>, applied: u64) -> Result<()> {
        self.check()?;
        log.start(applied)?;
        self.join(log, applied, Some(applied))
    }

    /// The same for a client that has lost what it had applied. It votes and takes entries, since the
    /// log has lost nothing. `refilled` says what the client has got from elsewhere.
    pub fn open_damaged(&mut self, mut log: GroupLog<D>) -> Result<()> {
        self.check()?;
        let known = log.start_damaged();
        self.join(log, known, None)
    }

    /// `known` are the entries that the engine need not hand over, `applied` those that the client has.
    fn join(&mut self, mut log: GroupLog<D>, known: u64, applied: Option<u64>) -> Result<()> {
        let writes = log.take_write();
        self.write(writes.as_slice())?;
        let group = log.id();
        let is_alone = log.conf().0.voters == [self.log.identity().replica];
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let refused = |error: raft::Error| LogError::Refused(format!("group {group}: {error}"));
        let mut raw = RawNode::new(&self.config(known), log, &logger).map_err(refused)?;
        if is_alone {
            raw.campaign().map_err(refused)?;
        }
        let made = Group {
            raw,
            applied: applied.unwrap_or(0),
            handed: known,
            given: applied.unwrap_or(0),
            is_damaged: applied.is_none(),
            flushed: applied.unwrap_or(0),
            known: (Role::Follower, 0, 0),
            waiting: Waiting::default(),
            fetching: None,
            takes_snapshot: false,
            snapshots: BTreeMap::new(),
        };
        self.groups.insert(group, made);
        Ok(())
    }

    /// Forgets a group and its log. Who waits for it gets an answer.
    pub fn remove(&mut self, group: u64) -> Result<()> {
        self.check()?;
        if let Some(mut found) = self.groups.remove(&group) {
            found.waiting.expire(u64::MAX);
            self.answers.append(&mut found.waiting.answers);
        }
        let removed = self.log.remove(group);
        self.note(removed)
    }

    /// Returns a name for a question to the leader.
    pub(crate) fn question(&mut self) -> Vec<u8> {
        name_question(self.options.run, &mut self.questions)
    }

    /// Answers a call for a group that is not here.
    pub(crate) fn missing(&mut self, group: u64, token: u64) {
        let text = format!("group {group} is not at this site: ask a site that has it");
        self.answers.push((token, Answer::Refused(text)));
    }

    /// Returns the error that ended the driver, if one has.
    pub(crate) fn check(&self) -> Result<()> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.stopped.get_or_insert_with(|| error.clone());
        }
        result
    }

    fn write(&mut self, writes: &[GroupWrite]) -> Result<()> {
        let written = self.log.write(writes);
        self.note(written)
    }

    // What moves time and messages.

    pub fn tick(&mut self) -> Result<()> {
        self.check()?;
        self.now += 1;
        for group in self.groups.values_mut() {
            group.raw.tick();
            group.waiting.expire(self.now);
            let (run, questions) = (self.options.run, &mut self.questions);
            let patience = self.options.election_ticks as u64;
            let again = group.waiting.ask_again(self.now, patience, || name_question(run, questions));
            for asked in again {
                group.raw.read_index(asked);
            }
            let late = self.now.saturating_sub(self.options.snapshot_ticks);
            let raw = &mut group.raw;
            group.snapshots.retain(|peer, since| {
                if *since <= late {
                    raw.report_snapshot(*peer, SnapshotStatus::Failure);
                }
                *since > late
            });
        }
        if self.now.is_multiple_of(self.options.fence_ticks) {
            let written = self.log.write_fence();
            self.note(written)?;
        }
        Ok(())
    }

    /// Takes no more messages from a replica, which is a member no more: it may not know that, and those
    /// that left with it may be a majority of what it knows.
    pub fn exclude(&mut self, replica: u64) {
        self.excluded.insert(replica);
    }

    /// Takes a message of a peer. Proposals of peers are dropped: who forwards one cannot know what
    /// became of it.
    pub fn receive(&mut self, group: u64, message: Message, out: &mut impl Outside) -> Result<()> {
        self.check()?;
        if message.get_msg_type() == MessageType::MsgPropose && self.drops_proposals() {
            return Ok(());
        }
        let is_for_us = message.to == self.log.identity().replica && !self.excluded.contains(&message.from);
        let Some(found) = self.groups.get_mut(&group).filter(|_| is_for_us) else {
            return Ok(());
        };
        if message.get_msg_type() == MessageType::MsgSnapshot {
            let raft = &found.raw.raft;
            let snapshot = message.get_snapshot();
            let Some(manifest) = Manifest::from_snapshot(snapshot) else {
                return Ok(());
            };
            let is_wanted = message.term >= raft.term && manifest.index > raft.raft_log.committed;
            if is_wanted && !out.fetch_snapshot(group, &manifest) {
                found.fetching = Some(message);
                return Ok(());
            }
        }
        self.step(group, message)
    }

    fn step(&mut self, group: u64, message: Message) -> Result<()> {
        let Some(found) = self.groups.get_mut(&group) else {
            return Ok(());
        };
        match found.raw.step(message) {
            Err(raft::Error::Store(error)) => {
                let stopped = LogError::Disk(format!("group {group}: {error}"));
                self.note(Err(stopped))
            }
            _ => Ok(()), // the engine refuses messages that are late, say
        }
    }

    /// The data of the newest snapshot that was asked for is here, or will not come.
    pub fn snapshot_fetched(&mut self, group: u64, is_here: bool) -> Result<()> {
        self.check()?;
        let message = self.groups.get_mut(&group).and_then(|found| found.fetching.take());
        match message {
            Some(message) if is_here => self.step(group, message),
            _ => Ok(()), // the leader sends it again
        }
    }

    /// The peer could not be reached: the leader sends it less until it answers.
    pub fn unreachable(&mut self, replica: u64) {
        for group in self.groups.values_mut() {
            group.raw.report_unreachable(replica);
        }
    }

    // What the client says.

    pub fn applied(&mut self, group: u64, index: u64) -> Result<()> {
        self.check()?;
        if let Some(found) = self.groups.get_mut(&group) {
            let index = index.min(found.given);
            if index > found.applied {
                found.applied = index;
                if index > found.raw.raft.raft_log.applied {
                    found.raw.advance_apply_to(index);
                }
                found.waiting.applied(index);
            }
        }
        Ok(())
    }

    /// The client has lost what it had, and has everything up to `index` again, on disk, from elsewhere.
    /// It gets the entries behind that, also those that it has had before. Does nothing if the log has
    /// forgotten some of these: then a snapshot has come meanwhile, which is newer.
    pub fn refilled(&mut self, group: u64, index: u64) -> Result<()> {
        self.check()?;
        if let Some(found) = self.groups.get_mut(&group) {
            if index >= found.raw.store().cut() {
                (found.applied, found.flushed, found.given) = (index, index, index);
                found.is_damaged = false;
                found.waiting.applied(index);
            }
        }
        Ok(())
    }

    /// The client has everything up to `index` on disk: the log may forget it, as far as no living
    /// replica needs it.
    pub fn flushed(&mut self, group: u64, index: u64) -> Result<()> {
        self.check()?;
        let Some(found) = self.groups.get_mut(&group) else {
            return Ok(());
        };
        found.flushed = found.flushed.max(index.min(found.applied));
        let raft = &found.raw.raft;
        let slowest = match raft.state {
            StateRole::Leader => {
                raft.prs().iter().filter(|(_, p)| p.recent_active).map(|(_, p)| p.matched).min()
            }
            _ => None,
        };
        let keep = match found.snapshots.is_empty() {
            true => self.options.keep_bytes,
            false => self.options.keep_bytes_snapshot,
        };
        let bound = found.raw.store().index_behind(keep).saturating_sub(1);
        let cut = found.flushed.min(slowest.unwrap_or(0).max(bound));
        found.raw.mut_store().cut_to(cut);
        let writes = found.raw.mut_store().take_write();
        self.write(writes.as_slice())
    }

    /// Takes what `Outside::take_snapshot` asked for: the last entry that it has, and its data. `None`
    /// says that there is none; it is asked for again when a replica needs it.
    pub fn snapshot_taken(&mut self, group: u64, taken: Option<(u64, Vec<u8>)>) -> Result<()> {
        self.check()?;
        let Some(found) = self.groups.get_mut(&group) else {
            return Ok(());
        };
        found.takes_snapshot = false;
        let store = found.raw.mut_store();
        if let Some((index, data)) = taken {
            if let Some(term) = store.term_at(index) {
                let (conf, conf_index) = store.conf();
                let manifest = Manifest { index, term, conf: conf.clone(), conf_index, data: data.into() };
                store.set_snapshot(manifest.to_snapshot());
            }
        }
        Ok(())
    }
    // One turn.

    /// Does what there is to do, for all groups together, and says whether there was something. Its
    /// owner calls it until there is nothing, after each of the calls above.
    pub fn turn(&mut self, out: &mut impl Outside) -> Result<bool> {
        self.check()?;
        let mut readies = Vec::new();
        for (id, group) in &mut self.groups {
            if group.raw.has_ready() {
                readies.push((*id, group.raw.ready()));
            }
        }
        for (id, ready) in &mut readies {
            #[allow(unused_mut)]
            let mut messages = ready.take_messages();
            #[cfg(test)]
            if self.has(Fault::SendBeforeSync) {
                messages.append(&mut ready.take_persisted_messages());
            }
            self.send(*id, messages, out);
        }
        self.persist(&mut readies, out)?;
        let was_busy = !readies.is_empty();
        for (id, ready) in readies {
            self.advance(id, ready, out)?;
        }
        let gave_again = self.give_again(out)?;
        self.tell(out);
        Ok(was_busy || gave_again)
    }

    /// Gives entries again to clients that have lost what they had, some of them in each turn.
    fn give_again(&mut self, out: &mut impl Outside) -> Result<bool> {
        let is_behind = |group: &Group<D>| group.given < group.handed && !group.is_damaged;
        let behind = self.groups.iter().filter(|(_, group)| is_behind(group));
        let behind: Vec<u64> = behind.map(|(id, _)| *id).collect();
        for id in &behind {
            let Some(group) = self.groups.get_mut(id) else { continue };
            let (low, high) = (group.given + 1, group.handed + 1);
            let context = GetEntriesContext::empty(false);
            let read = group.raw.store().entries(low, high, AGAIN_BYTES, context);
            let failed = |error| LogError::Disk(format!("group {id}: {error}"));
            let entries = self.note(read.map_err(failed))?;
            if let (Some(group), Some(last)) = (self.groups.get_mut(id), entries.last()) {
                group.given = last.index;
                out.committed(*id, entries);
            }
        }
        Ok(!behind.is_empty())
    }

    /// Writes what is ready. A snapshot is noted first and installed then, so that a crash in between is
    /// put right when the group is opened.
    fn persist(&mut self, readies: &mut [(u64, Ready)], out: &mut impl Outside) -> Result<()> {
        let mut installs = Vec::new();
        for (id, ready) in readies.iter() {
            let Some(group) = self.groups.get_mut(id) else { continue };
            if let Some(manifest) = Manifest::from_snapshot(ready.snapshot()).filter(|m| m.index > 0) {
                group.raw.mut_store().begin_install(&manifest);
                installs.push((*id, manifest));
            }
        }
        if !installs.is_empty() {
            self.write_groups()?;
        }
        for (id, manifest) in &installs {
            let installed = out.install_snapshot(*id, manifest);
            let failed = |text| LogError::Disk(format!("group {id}: cannot install the snapshot: {text}"));
            self.note(installed.map_err(failed))?;
            if let Some(group) = self.groups.get_mut(id) {
                group.raw.mut_store().reset(manifest);
                group.waiting.skipped(manifest.index);
            }
        }
        #[cfg(test)]
        let forgets_vote = self.has(Fault::VoteNotPersisted);
        for (id, ready) in readies.iter_mut() {
            let Some(group) = self.groups.get_mut(id) else { continue };
            let entries = ready.take_entries();
            group.raw.mut_store().append(entries);
            if let Some(hard) = ready.hs() {
                #[allow(unused_mut)]
                let mut hard = hard.clone();
                #[cfg(test)]
                if forgets_vote {
                    hard.vote = 0;
                }
                group.raw.mut_store().set_hard_state(hard);
            }
        }
        self.write_groups()
    }

    fn write_groups(&mut self) -> Result<()> {
        let writes = gather(self.groups.values_mut().map(|group| group.raw.mut_store()));
        self.write(&writes)
    }

    /// Everything of this ready is durable: the rest of its messages go, and its committed entries.
    fn advance(&mut self, id: u64, mut ready: Ready, out: &mut impl Outside) -> Result<()> {
        let mut messages = ready.take_persisted_messages();
        let mut entries = ready.take_committed_entries();
        let reads = ready.take_read_states();
        let snapshot = ready.snapshot().get_metadata().index;
        let Some(group) = self.groups.get_mut(&id) else {
            return Ok(());
        };
        let mut light = group.raw.advance_append(ready);
        if let Some(commit) = light.commit_index() {
            group.raw.mut_store().set_commit(commit);
        }
        if snapshot > 0 {
            group.raw.advance_apply_to(snapshot);
            (group.applied, group.handed, group.given) = (snapshot, snapshot, snapshot);
            group.is_damaged = false;
            group.waiting.applied(snapshot);
        }
        for read in reads {
            group.waiting.read_state(&read.request_ctx, read.index, group.applied);
        }
        entries.append(&mut light.take_committed_entries());
        messages.append(&mut light.take_messages());
        self.send(id, messages, out);
        self.hand_over(id, entries, out)
    }

    /// Hands committed entries to the client. Changes of members among them take effect here, and are
    /// durable before the client sees them.
    fn hand_over(&mut self, id: u64, entries: Vec<Entry>, out: &mut impl Outside) -> Result<()> {
        let Some(group) = self.groups.get_mut(&id) else {
            return Ok(());
        };
        for entry in &entries {
            let is_new = entry.index > group.raw.store().conf().1;
            if is_new && entry.get_entry_type() != EntryType::EntryNormal {
                if let Ok(change) = ConfChangeV2::parse_from_bytes(&entry.data) {
                    // An impossible change is refused by every replica in the same way.
                    if let Ok(conf) = group.raw.apply_conf_change(&change) {
                        group.raw.mut_store().set_conf(conf, entry.index);
                    }
                }
            }
            let is_joint = !group.raw.store().conf().0.voters_outgoing.is_empty();
            group.waiting.committed(entry, is_joint);
            if !is_joint {
                group.waiting.left_joint();
            }
        }
        // The engine has a leader lead on that is no member any more, and takes nothing from it.
        let replica = self.log.identity().replica;
        let conf = group.raw.store().conf().0;
        let is_out = !conf.voters.contains(&replica) && conf.voters_outgoing.is_empty();
        if is_out && group.raw.raft.state == StateRole::Leader {
            let term = group.raw.raft.term;
            group.raw.raft.become_follower(term, 0);
        }
        let writes = group.raw.mut_store().take_write();
        // A client that gets entries again has these later, and one that has more already, not at all.
        let given = group.given;
        let goes_on = given >= group.handed && !group.is_damaged;
        if let Some(last) = entries.last() {
            group.handed = last.index;
            group.given = if goes_on { given.max(last.index) } else { given };
        }
        self.write(writes.as_slice())?;
        let new: Vec<Entry> = entries.into_iter().filter(|e| goes_on && e.index > given).collect();
        if !new.is_empty() {
            out.committed(id, new);
        }
        Ok(())
    }

    /// Notes how far the log is before its owner ends. What was written after the fence would be in
    /// doubt if it were damaged.
    pub fn close(&mut self) {
        if self.check().is_ok() {
            let _ = self.log.write_fence(); // without it, no more is in doubt than after a crash
        }
    }

    fn send(&mut self, id: u64, messages: Vec<Message>, out: &mut impl Outside) {
        let drops_proposals = self.drops_proposals();
        for message in messages {
            if message.get_msg_type() == MessageType::MsgPropose && drops_proposals {
                continue;
            }
            if message.get_msg_type() == MessageType::MsgSnapshot {
                if let Some(group) = self.groups.get_mut(&id) {
                    group.snapshots.insert(message.to, self.now);
                }
            }
            out.send(id, message);
        }
    }

    pub(crate) fn drops_proposals(&self) -> bool {
        #[cfg(test)]
        return !self.has(Fault::ForwardedProposal);
        #[cfg(not(test))]
        true
    }

    /// Tells the outside what has changed, and gives the answers that there are.
    fn tell(&mut self, out: &mut impl Outside) {
        for (token, answer) in std::mem::take(&mut self.answers) {
            out.answer(token, answer);
        }
        for (id, group) in &mut self.groups {
            let raft = &group.raw.raft;
            let known = (raft.state.into(), raft.term, raft.leader_id);
            if known != group.known {
                group.known = known;
                out.role_changed(*id, known.0, known.1, known.2);
            }
            group.waiting.leader_is(raft.leader_id);
            let progress = |peer: &u64| raft.prs().get(*peer).map(|p| p.state);
            group.snapshots.retain(|peer, _| progress(peer) == Some(ProgressState::Snapshot));
            if group.raw.store().took_snapshot_wish() && !group.takes_snapshot {
                group.takes_snapshot = true;
                out.take_snapshot(*id);
            }
            for (token, answer) in std::mem::take(&mut group.waiting.answers) {
                out.answer(token, answer);
            }
        }
    }
}

fn name_question(run: u64, questions: &mut u64) -> Vec<u8> {
    *questions += 1;
    [run.to_le_bytes(), questions.to_le_bytes()].concat()
}
