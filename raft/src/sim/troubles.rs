//! The troubles of a simulated run, and the operator who changes members and replaces lost replicas.

use std::collections::BTreeSet;

use super::check::Checked;
use super::site::Site;
use super::world::{Call, Event, World};
use crate::outside::Status;

impl World {
    pub(super) fn trouble(&mut self) -> Checked {
        if self.is_calm {
            return Ok(());
        }
        let delay = self.random.between(1, 2 * self.plan.trouble_every);
        self.at(delay, Event::Trouble);
        let any = self.random.below(self.sites.len() as u64) as usize;
        if self.plan.crashes && self.random.chance(400) {
            self.crash(any);
        }
        if self.plan.crashes_of_leader && self.random.chance(400) {
            if let Some(slot) = self.leader(1) {
                self.crash(slot);
            }
        }
        if self.plan.crashes && self.random.chance(30) {
            (0..self.sites.len()).for_each(|slot| self.crash(slot));
        }
        if self.plan.pauses && self.random.chance(300) {
            self.sites[any].paused_to = self.now + self.random.between(100, 3000);
        }
        if self.plan.cuts && self.random.chance(500) {
            self.cut_links(any);
        }
        Ok(())
    }

    /// Cuts a link, one way or both, or a site from all others, for a time.
    pub(super) fn cut_links(&mut self, slot: usize) {
        let time = self.random.between(100, 4000);
        let other = self.random.below(self.sites.len() as u64) as usize;
        let (is_whole, is_one_way) = (self.random.chance(500), self.random.chance(400));
        for peer in 0..self.sites.len() {
            if peer != slot && (is_whole || peer == other) {
                self.cut.insert((slot, peer));
                self.at(time, Event::Calm(slot, peer));
                if !is_one_way {
                    self.cut.insert((peer, slot));
                    self.at(time, Event::Calm(peer, slot));
                }
            }
        }
    }

    /// Changes members, one step at a time: new replicas learn first, then all change at once.
    pub(super) fn operate(&mut self) -> Checked {
        let delay = self.random.between(100, 600);
        self.at(delay, Event::Operate);
        self.replace_refused();
        for group in 1..=self.plan.groups {
            let Some(slot) = self.leader(group) else { continue };
            let Some(status) = self.status(slot, group) else { continue };
            let wanted = self.wanted[&group].clone();
            let conf = &status.conf;
            let is_done =
                conf.voters.iter().copied().collect::<BTreeSet<_>>() == wanted && conf.learners.is_empty();
            if is_done {
                if self.plan.members && !self.is_calm && self.random.chance(200) {
                    self.want_others(group);
                }
                continue;
            }
            let (voters, learners) = next_members(&status, &wanted);
            self.tokens += 1;
            let (token, deadline) =
                (self.tokens, self.sites[slot].driver.as_ref().map_or(0, |d| d.now() + 40));
            self.calls.insert(token, Call::Change);
            self.drive(slot, |driver, _| driver.change(group, token, &voters, &learners, deadline))?;
        }
        Ok(())
    }

    /// Gives sites whose log was refused, or which left all groups, a new replica with an empty disk.
    pub(super) fn replace_refused(&mut self) {
        for slot in 0..self.sites.len() {
            if !self.sites[slot].is_refused {
                continue;
            }
            let old = self.sites[slot].replica();
            let incarnation = self.sites[slot].identity.incarnation + 1;
            let boots = self.sites[slot].boots;
            self.slots.remove(&old);
            self.sites[slot] = self.new_site(slot, incarnation);
            self.sites[slot].boots = boots; // so that what was on its way to the old one does not come
            let new = self.sites[slot].replica();
            for wanted in self.wanted.values_mut() {
                if wanted.remove(&old) {
                    wanted.insert(new);
                }
            }
            if self.begin_site(slot, &[]).is_err() {
                self.sites[slot].is_refused = true;
            }
        }
    }

    /// Adds a spare replica, takes one away, or swaps two.
    pub(super) fn want_others(&mut self, group: u64) {
        let used: BTreeSet<u64> = self.wanted.values().flatten().copied().collect();
        let spares: Vec<u64> = self.sites.iter().map(Site::replica).filter(|r| !used.contains(r)).collect();
        let wanted: Vec<u64> = self.wanted[&group].iter().copied().collect();
        let (adds, removes) = (self.random.chance(600), self.random.chance(500));
        let new = self.random.pick(&spares).copied().filter(|_| adds);
        let old = self.random.pick(&wanted).copied().filter(|_| removes && wanted.len() > 1);
        if let Some(wanted) = self.wanted.get_mut(&group) {
            wanted.extend(new);
            if let Some(old) = old {
                wanted.remove(&old);
            }
        }
    }
}

/// Returns the members of the next step towards the voters that are wanted.
fn next_members(status: &Status, wanted: &BTreeSet<u64>) -> (Vec<u64>, Vec<u64>) {
    let conf = &status.conf;
    let missing: Vec<u64> = wanted.iter().copied().filter(|r| !conf.voters.contains(r)).collect();
    let is_near = |replica: &u64| {
        status.peers.iter().any(|peer| peer.replica == *replica && peer.matched + 5 >= status.commit)
    };
    if missing.iter().all(is_near) {
        (wanted.iter().copied().collect(), Vec::new())
    } else {
        (conf.voters.clone(), missing)
    }
}
