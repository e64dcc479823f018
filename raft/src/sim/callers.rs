//! The callers of a simulated run: what they ask, and what they may be told.

use super::check::{part, Checked};
use super::world::{Call, Event, World};
use crate::outside::Role;
use crate::waiting::Answer;

impl World {
    pub(super) fn call(&mut self) -> Checked {
        let delay = if self.is_calm { 300 } else { self.random.between(1, self.plan.call_every) };
        self.at(delay, Event::Call);
        let group = self.random.between(1, self.plan.groups);
        let leader = self.leader(group);
        let any = self.random.below(self.sites.len() as u64) as usize;
        let slot = if self.random.chance(800) || self.is_calm { leader.unwrap_or(any) } else { any };
        let (kind, patience) = (self.random.below(100), self.random.between(5, 60));
        let Some(deadline) = self.sites[slot].driver.as_ref().map(|driver| driver.now() + patience) else {
            return Ok(());
        };
        self.tokens += 1;
        let token = self.tokens;
        if kind < 80 || self.is_calm {
            let parts = if self.random.chance(150) { 3 } else { 1 };
            self.calls.insert(token, Call::Propose { group, parts });
            let size = self.random.below(120) as usize;
            let entry = |number| [&part(token, number).to_le_bytes()[..], &vec![7; size]].concat();
            let entries = (0..parts).map(entry).collect();
            return self.drive(slot, |driver, _| driver.propose(group, token, entries, deadline));
        }
        if kind < 95 || !self.plan.transfers {
            self.calls.insert(token, Call::Read { group, site: slot });
            self.checker.barrier_begins(group, token);
            return self.drive(slot, |driver, _| driver.read_barrier(group, token, deadline));
        }
        self.calls.insert(token, Call::Transfer);
        let to = self.random.between(1, self.replicas);
        self.drive(slot, |driver, _| driver.transfer(group, token, to, deadline))
    }

    pub(super) fn answered(&mut self, slot: usize, token: u64, answer: Answer) -> Checked {
        let Some(call) = self.calls.remove(&token) else {
            return Err(format!("call {token} was answered twice: {answer:?}"));
        };
        self.note(token);
        match (call, answer) {
            (Call::Propose { group, parts }, Answer::Committed { index, term }) => {
                self.stats.acknowledged += 1;
                self.checker.acknowledged(group, token, parts, index, term)?;
                self.check_durable(slot, group, index, term)
            }
            (Call::Propose { group, parts }, Answer::NotLeader { .. }) => {
                self.stats.refused += 1;
                self.checker.refused(group, token, parts)
            }
            (Call::Propose { .. }, Answer::Unknown { .. }) => {
                self.stats.unknown += 1;
                Ok(())
            }
            (Call::Read { group, site }, Answer::Read { index }) => {
                self.stats.reads += 1;
                let applied = self.sites[site].clients[&group].applied.index;
                self.checker.barrier_ends(token, index, applied)
            }
            (Call::Change, Answer::Done) => {
                self.stats.changes += 1;
                Ok(())
            }
            (Call::Transfer, Answer::Done) => {
                self.stats.transfers += 1;
                Ok(())
            }
            (Call::Propose { .. }, answer) => Err(format!("a proposal was answered with {answer:?}")),
            _ => Ok(()),
        }
    }

    /// What is acknowledged is on the disks of a majority, unless voters have changed since.
    pub(super) fn check_durable(&mut self, slot: usize, group: u64, index: u64, term: u64) -> Checked {
        let Some(status) = self.status(slot, group).filter(|_| self.plan.keeps_voters()) else {
            return Ok(());
        };
        let voters = status.conf.voters.iter().filter_map(|replica| self.slots.get(replica));
        let count = voters.filter(|voter| self.sites[**voter].disk.has(group, index, term)).count();
        if count <= status.conf.voters.len() / 2 {
            return Err(format!("entry {index} was acknowledged, and only {count} voters have it on disk"));
        }
        Ok(())
    }

    /// Returns the site that leads, as far as the sites know: that of the highest term.
    pub(super) fn leader(&self, group: u64) -> Option<usize> {
        let leads =
            |slot: &usize| self.status(*slot, group).filter(|s| s.role == Role::Leader).map(|s| s.term);
        (0..self.sites.len()).filter(|slot| leads(slot).is_some()).max_by_key(|slot| leads(slot))
    }
}
