//! One simulated run: sites, the network between them, callers, and the troubles of its plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use raft::eraftpb::{ConfState, Message, MessageType};

use super::check::{Checked, Checker};
use super::plan::Plan;
use super::random::{mix, Random};
use super::site::{encode, Client, Data, Did, Effects, Site};
use super::stats::Stats;
use crate::driver::Driver;
use crate::error::{LogError, Result};
use crate::log::LogOptions;
use crate::outside::{Fault, Options, Role, Status};
use crate::sim::disk::SimDisk;

const TICK: u64 = 50;
const RECOVERY: u64 = 60_000; // after all troubles are over, everything is well within this time

#[derive(Debug)]
pub(super) enum Event {
    Tick(usize),
    Deliver { from: usize, to: u64, group: u64, message: Box<Message> },
    Apply { site: usize, boot: u64, group: u64 },
    Flush(usize),
    Fetched { site: usize, boot: u64, group: u64 },
    Taken { site: usize, boot: u64, group: u64 },
    Boot(usize),
    Call,
    Trouble,
    Calm(usize, usize), // a link works again
    Operate,
}

#[derive(Clone, Copy)]
pub(super) enum Call {
    Propose { group: u64, parts: u64 },
    Read { group: u64, site: usize },
    Change,
    Transfer,
}

/// The whole of a run. Owned by `run`.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) fault: Option<Fault>,
    pub(super) now: u64,
    pub(super) sequence: u64,
    pub(super) events: BTreeMap<(u64, u64), Event>,
    pub(super) sites: Vec<Site>,
    pub(super) slots: HashMap<u64, usize>, // replica → its site
    pub(super) replicas: u64,
    pub(super) cut: BTreeSet<(usize, usize)>, // links that lose everything, one way
    pub(super) wanted: BTreeMap<u64, BTreeSet<u64>>, // the voters that each group shall have
    pub(super) crashed_confs: BTreeMap<u64, (ConfState, u64)>, // the newest that a site had as it crashed
    pub(super) checker: Checker,
    pub(super) calls: HashMap<u64, Call>,
    pub(super) tokens: u64,
    pub(super) is_calm: bool,
    pub(super) stats: Stats,
}

/// Runs a seed. An error says which rule was broken, and when.
pub fn run(seed: u64, fault: Option<Fault>) -> std::result::Result<Stats, String> {
    let mut random = Random::new(mix(seed ^ 0x5eed));
    let plan = Plan::new(&mut random);
    let mut world = World::new(plan, random, fault);
    let result = world.run();
    result.map(|()| world.stats.clone()).map_err(|text| format!("at {} ms: {text}", world.now))
}

impl World {
    pub(super) fn new(plan: Plan, random: Random, fault: Option<Fault>) -> Self {
        Self {
            plan,
            random,
            fault,
            now: 0,
            sequence: 0,
            events: BTreeMap::new(),
            sites: Vec::new(),
            slots: HashMap::new(),
            replicas: 0,
            cut: BTreeSet::new(),
            wanted: BTreeMap::new(),
            crashed_confs: BTreeMap::new(),
            checker: Checker::default(),
            calls: HashMap::new(),
            tokens: 0,
            is_calm: false,
            stats: Stats::default(),
        }
    }

    pub(super) fn run(&mut self) -> Checked {
        self.begin()?;
        while let Some(((time, _), event)) = self.events.pop_first() {
            self.now = time;
            self.stats.events += 1;
            if !self.is_calm && time > self.plan.length {
                self.calm();
            }
            if self.is_calm && matches!(event, Event::Tick(_)) && self.is_well() {
                return self.finish();
            }
            if time > self.plan.length + RECOVERY {
                return Err(format!(
                    "no recovery {RECOVERY} ms after all troubles are over: {}",
                    self.describe()
                ));
            }
            self.handle(event)?;
        }
        Err("nothing happens any more".to_owned())
    }

    pub(super) fn begin(&mut self) -> Checked {
        let voters: Vec<u64> = (1..=self.plan.voters).collect();
        for slot in 0..(self.plan.voters + self.plan.spares) as usize {
            let site = self.new_site(slot, 1);
            self.sites.push(site);
        }
        for slot in 0..self.sites.len() {
            let is_voter = slot < voters.len();
            self.begin_site(slot, if is_voter { &voters } else { &[] }).map_err(|e| e.to_string())?;
            self.at(self.random_to(TICK), Event::Tick(slot));
            self.at(500, Event::Flush(slot));
        }
        for group in 1..=self.plan.groups {
            self.wanted.insert(group, voters.iter().copied().collect());
        }
        self.at(self.plan.trouble_every, Event::Trouble);
        self.at(100, Event::Call);
        self.at(500, Event::Operate);
        Ok(())
    }

    pub(super) fn random_to(&self, bound: u64) -> u64 {
        mix(self.sequence ^ self.tokens) % bound
    }

    pub(super) fn new_site(&mut self, slot: usize, incarnation: u64) -> Site {
        self.replicas += 1;
        self.slots.insert(self.replicas, slot);
        let site = Site::new(slot as u64, incarnation, self.replicas, self.random.next());
        site.disk.set_fails(if self.is_calm { 0 } else { self.plan.fails });
        site
    }

    /// Boots a site for the first time, and makes its groups, until that succeeds.
    pub(super) fn begin_site(&mut self, slot: usize, voters: &[u64]) -> Result<()> {
        let (options, log_options) = self.options(slot);
        let groups = 1..=self.plan.groups;
        let site = &mut self.sites[slot];
        let disk = site.disk.clone();
        disk.set_fails(0);
        site.boot(options, &log_options)?;
        for group in groups {
            site.clients.insert(group, Client::new(u64::from(!voters.is_empty())));
            if let Some(driver) = &mut site.driver {
                driver.create(group, voters)?;
            }
        }
        disk.set_fails(if self.is_calm { 0 } else { self.plan.fails });
        Ok(())
    }

    pub(super) fn options(&mut self, slot: usize) -> (Options, LogOptions) {
        let run = self.random.next();
        let ticks = 10 + (slot as u64 * 3 + self.random.below(3)) % self.plan.election_spread;
        let options = Options {
            run,
            fence_ticks: 5,
            snapshot_ticks: 20,
            keep_bytes: if self.plan.snapshots { 0 } else { 1 << 20 },
            keep_bytes_snapshot: if self.plan.snapshots { 0 } else { 1 << 20 },
            fault: self.fault,
            exact_election_ticks: Some(ticks as usize),
            ..Options::default()
        };
        let ignores_fence = self.fault == Some(Fault::NoFence);
        (options, LogOptions { cache_bytes: 2000, ignores_fence })
    }

    pub(super) fn at(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }

    pub(super) fn note(&mut self, what: u64) {
        self.stats.trace = mix(self.stats.trace ^ what ^ self.now.rotate_left(32));
    }

    pub(super) fn handle(&mut self, event: Event) -> Checked {
        let site = match &event {
            Event::Tick(site) | Event::Flush(site) => Some(*site),
            Event::Apply { site, .. } | Event::Fetched { site, .. } | Event::Taken { site, .. } => {
                Some(*site)
            }
            Event::Deliver { to, .. } => self.slots.get(to).copied(),
            _ => None,
        };
        if let Some(until) = site.map(|slot| self.sites[slot].paused_to).filter(|until| *until > self.now) {
            self.at(until - self.now, event);
            return Ok(());
        }
        match event {
            Event::Tick(slot) => {
                self.at(TICK - 5 + slot as u64 % 3 * 5, Event::Tick(slot));
                self.drive(slot, |driver, _| driver.tick())
            }
            Event::Deliver { from, to, group, message } => self.deliver(from, to, group, message),
            Event::Apply { site, boot, group } => self.apply(site, boot, group),
            Event::Flush(slot) => self.flush(slot),
            Event::Fetched { site, boot, group } if self.sites[site].boots == boot => {
                let is_here = self.random.chance(800);
                self.drive(site, |driver, _| driver.snapshot_fetched(group, is_here))
            }
            Event::Taken { site, boot, group } if self.sites[site].boots == boot => self.taken(site, group),
            Event::Fetched { .. } | Event::Taken { .. } => Ok(()),
            Event::Boot(slot) => self.boot(slot),
            Event::Call => self.call(),
            Event::Trouble => self.trouble(),
            Event::Calm(from, to) => {
                self.cut.remove(&(from, to));
                Ok(())
            }
            Event::Operate => self.operate(),
        }
    }

    // What a site does.

    /// Calls a driver, lets it do what there is to do, and sees to what it did.
    pub(super) fn drive(
        &mut self,
        slot: usize,
        act: impl FnOnce(&mut Driver<SimDisk>, &mut Effects) -> Result<()>,
    ) -> Checked {
        let site = &mut self.sites[slot];
        let Some(driver) = &mut site.driver else {
            return Ok(());
        };
        let mut effects =
            Effects { clients: &mut site.clients, random: &mut self.random, did: Did::default() };
        let mut result = act(driver, &mut effects).map(|()| true);
        while let Ok(true) = result {
            result = driver.turn(&mut effects);
        }
        let did = effects.did;
        let dies = self.dies_after(&did);
        self.settle(slot, did)?;
        match result {
            Ok(_) if dies => {
                self.crash(slot);
                Ok(())
            }
            Ok(_) => self.watch(slot),
            Err(_) => self.fail(slot),
        }
    }

    /// Some sites die when they have just promised something.
    pub(super) fn dies_after(&mut self, did: &Did) -> bool {
        let promises = |message: &Message| match message.get_msg_type() {
            MessageType::MsgRequestVoteResponse => 10,
            MessageType::MsgAppendResponse | MessageType::MsgRequestVote => 1,
            _ => 0,
        };
        let weight: u64 = did.sent.iter().map(|(_, message)| promises(message)).sum();
        !self.is_calm && self.random.chance(weight * self.plan.dies_after_promise)
    }

    pub(super) fn settle(&mut self, slot: usize, did: Did) -> Checked {
        for (group, data) in did.installed {
            self.stats.snapshots += 1;
            self.note(data.digest);
            self.checker.installed(group, data.index, data.digest)?;
        }
        for (group, entries) in did.committed {
            self.committed(slot, group, entries)?;
        }
        for (group, role, term) in did.roles {
            self.note(term ^ (role as u64) << 40);
            if role == Role::Leader {
                self.leads(slot, group, term)?;
            }
        }
        for (group, message) in did.sent {
            self.send(slot, group, message);
        }
        for (token, answer) in did.answers {
            self.answered(slot, token, answer)?;
        }
        let boot = self.sites[slot].boots;
        for group in did.takes {
            let delay = self.random.between(0, 100);
            self.at(delay, Event::Taken { site: slot, boot, group });
        }
        for group in did.fetches {
            let delay = self.random.between(0, 300);
            self.at(delay, Event::Fetched { site: slot, boot, group });
        }
        Ok(())
    }

    pub(super) fn committed(
        &mut self,
        slot: usize,
        group: u64,
        entries: Vec<raft::eraftpb::Entry>,
    ) -> Checked {
        let replica = self.sites[slot].replica();
        let Some(status) = self.status(slot, group) else {
            return Ok(());
        };
        for entry in &entries {
            let Some(client) = self.sites[slot].clients.get_mut(&group) else {
                return Ok(());
            };
            if entry.index != client.handed.index + 1 {
                return Err(format!("{replica} got entry {} after {}", entry.index, client.handed.index));
            }
            let digest = self.checker.committed(group, replica, status.term, entry, client.handed.digest)?;
            client.handed = Data { index: entry.index, digest };
            client.queue.push_back(client.handed);
        }
        let boot = self.sites[slot].boots;
        let slow = self.random.chance(self.plan.slow_apply);
        let delay = if slow { self.random.between(1, 800) } else { 0 };
        self.at(delay, Event::Apply { site: slot, boot, group });
        Ok(())
    }

    pub(super) fn leads(&mut self, slot: usize, group: u64, term: u64) -> Checked {
        self.stats.elections += 1;
        let replica = self.sites[slot].replica();
        let Some(store) = self.sites[slot].driver.as_ref().and_then(|driver| driver.store(group)) else {
            return Ok(());
        };
        self.checker.leads(group, replica, term, store.cut(), |index| store.term_at(index))
    }

    /// Looks at what only the inside of a driver shows.
    pub(super) fn watch(&mut self, slot: usize) -> Checked {
        let site = &mut self.sites[slot];
        let Some(driver) = &site.driver else {
            return Ok(());
        };
        for group in 1..=self.plan.groups {
            self.stats.next_behind += driver.count_next_behind(group);
            if let Some((conf, index)) = driver.store(group).map(|store| store.conf()) {
                let seen = site.members_seen.insert(group, index);
                if index > 0 && seen != Some(index) {
                    self.checker.members(group, index, conf)?;
                }
            }
        }
        Ok(())
    }

    /// A write failed. The driver must not go on; the process begins again later.
    pub(super) fn fail(&mut self, slot: usize) -> Checked {
        self.stats.failed_writes += 1;
        let site = &mut self.sites[slot];
        if let Some(driver) = &mut site.driver {
            let mut effects =
                Effects { clients: &mut site.clients, random: &mut self.random, did: Did::default() };
            let went_on = driver.tick().is_ok() || driver.turn(&mut effects).is_ok();
            if went_on || !effects.did.sent.is_empty() {
                return Err("the driver went on after a failed write".to_owned());
            }
        }
        self.crash(slot);
        Ok(())
    }

    pub(super) fn crash(&mut self, slot: usize) {
        let is_up = self.sites[slot].driver.is_some();
        if is_up {
            self.stats.crashes += 1;
            self.note(slot as u64);
            for group in 1..=self.plan.groups {
                if let Some(newest) = self.newest_conf(group) {
                    self.crashed_confs.insert(group, newest);
                }
            }
            self.sites[slot].crash();
            let delay = self.random.between(1, self.plan.restart);
            self.at(delay, Event::Boot(slot));
        }
    }

    pub(super) fn boot(&mut self, slot: usize) -> Checked {
        if self.sites[slot].driver.is_some() || self.sites[slot].is_refused {
            return Ok(());
        }
        let is_damaged = self.wants_damage(slot) && self.sites[slot].disk.lose_end();
        let (options, log_options) = self.options(slot);
        match self.sites[slot].boot(options, &log_options) {
            Ok(()) if is_damaged && self.fault.is_none() => Err("a damaged log was opened".to_owned()),
            Ok(()) => {
                self.stats.damaged += u64::from(is_damaged);
                self.drive(slot, |_, _| Ok(()))
            }
            Err(LogError::Damaged(_)) if is_damaged => {
                self.stats.damaged += 1;
                self.sites[slot].is_refused = true;
                Ok(())
            }
            Err(LogError::Disk(_)) => {
                self.sites[slot].crash();
                let delay = self.random.between(1, self.plan.restart);
                self.at(delay, Event::Boot(slot));
                Ok(())
            }
            // Without a fence the log does not fit the data, say: that is seen, too, but by luck.
            Err(LogError::Damaged(_)) if self.fault == Some(Fault::NoFence) => {
                self.sites[slot].is_refused = true;
                Ok(())
            }
            Err(error) => Err(format!("site {slot} cannot open its log: {error}")),
        }
    }

    /// At most one disk at a time is damaged, of at least three, and never when all is to be well.
    pub(super) fn wants_damage(&mut self, slot: usize) -> bool {
        let is_alone = self.plan.voters < 3 || self.sites.iter().any(|site| site.is_refused);
        let replica = self.sites[slot].replica();
        let is_member = self.wanted.values().all(|wanted| wanted.contains(&replica));
        let is_early = self.stats.damaged == 0 || self.random.chance(100);
        self.plan.damage && !self.is_calm && !is_alone && is_member && is_early && self.can_spare(slot)
    }

    /// Says whether each group has the voters that it shall have, and a majority of them, without this
    /// site, knows so. A replica that does not know that a change is over still needs the old members.
    pub(super) fn can_spare(&self, slot: usize) -> bool {
        (1..=self.plan.groups).all(|group| {
            let Some((conf, index)) = self.newest_conf(group) else { return false };
            let knows = |replica: &&u64| {
                let other = self.slots.get(replica).copied().filter(|other| *other != slot);
                let driver = other.and_then(|other| self.sites[other].driver.as_ref());
                driver.and_then(|driver| driver.store(group)).is_some_and(|store| store.conf().1 == index)
            };
            conf.voters.iter().copied().collect::<BTreeSet<_>>() == self.wanted[&group]
                && conf.voters.len() >= 3
                && conf.learners.is_empty()
                && conf.voters_outgoing.is_empty()
                && 2 * conf.voters.iter().filter(knows).count() > conf.voters.len()
        })
    }

    /// Returns the newest members of a group, and their entry, of sites that are down, too.
    pub(super) fn newest_conf(&self, group: u64) -> Option<(ConfState, u64)> {
        let stores = self.sites.iter().filter_map(|site| site.driver.as_ref()?.store(group));
        let confs =
            stores.map(|store| store.conf()).chain(self.crashed_confs.get(&group).map(|c| (&c.0, c.1)));
        confs.max_by_key(|conf| conf.1).map(|(conf, index)| (conf.clone(), index))
    }

    pub(super) fn apply(&mut self, slot: usize, boot: u64, group: u64) -> Checked {
        let site = &mut self.sites[slot];
        let Some(client) = site.clients.get_mut(&group).filter(|_| site.boots == boot) else {
            return Ok(());
        };
        let Some(data) = client.queue.back().copied() else {
            return Ok(());
        };
        client.queue.clear();
        client.applied = data;
        self.drive(slot, |driver, _| driver.applied(group, data.index))
    }

    pub(super) fn flush(&mut self, slot: usize) -> Checked {
        let delay = self.random.between(200, 1500);
        self.at(delay, Event::Flush(slot));
        for group in 1..=self.plan.groups {
            let site = &mut self.sites[slot];
            if site.driver.is_none() {
                continue;
            }
            let Some(client) = site.clients.get_mut(&group) else {
                continue;
            };
            client.flushed = client.applied;
            let index = client.flushed.index;
            self.drive(slot, |driver, _| driver.flushed(group, index))?;
        }
        Ok(())
    }

    pub(super) fn taken(&mut self, slot: usize, group: u64) -> Checked {
        let data = self.sites[slot].clients[&group].applied;
        let fails = self.random.chance(100);
        let taken = if fails { None } else { Some((data.index, encode(data))) };
        self.drive(slot, |driver, _| driver.snapshot_taken(group, taken))
    }

    pub(super) fn status(&self, slot: usize, group: u64) -> Option<Status> {
        self.sites[slot].driver.as_ref()?.status(group)
    }

    // The network.

    pub(super) fn send(&mut self, from: usize, group: u64, message: Message) {
        let Some(to) = self.slots.get(&message.to).copied() else {
            return;
        };
        self.note(message.index ^ (message.term << 16) ^ (message.to << 48));
        if self.cut.contains(&(from, to)) || (!self.is_calm && self.random.chance(self.plan.loss)) {
            return;
        }
        let copies = 1 + u64::from(!self.is_calm && self.random.chance(self.plan.twice));
        for _ in 0..copies {
            let mut delay = self.random.between(self.plan.delay.0, self.plan.delay.1);
            if !self.is_calm && self.random.chance(self.plan.late) {
                delay *= 10;
            }
            let message = Box::new(message.clone());
            self.at(delay, Event::Deliver { from, to: message.to, group, message });
        }
    }

    pub(super) fn deliver(&mut self, from: usize, to: u64, group: u64, message: Box<Message>) -> Checked {
        match self.slots.get(&to).copied() {
            Some(slot) if !self.cut.contains(&(from, slot)) => {
                self.drive(slot, |driver, effects| driver.receive(group, *message, effects))
            }
            _ => Ok(()),
        }
    }

    // The end.

    /// Ends all troubles.
    pub(super) fn calm(&mut self) {
        self.is_calm = true;
        self.cut.clear();
        for slot in 0..self.sites.len() {
            self.sites[slot].disk.set_fails(0);
            self.sites[slot].paused_to = 0;
            if self.sites[slot].driver.is_none() {
                self.at(1, Event::Boot(slot));
            }
        }
    }

    /// Says whether each group has the members that it shall have, which all have applied everything,
    /// a call since the troubles among it.
    pub(super) fn is_well(&self) -> bool {
        (1..=self.plan.groups).all(|group| {
            let Some(status) = self.leader(group).and_then(|slot| self.status(slot, group)) else {
                return false;
            };
            let conf = &status.conf;
            let newest = self.checker.newest(group);
            let is_whole = |replica: &u64| {
                self.slots.get(replica).is_some_and(|slot| {
                    let site = &self.sites[*slot];
                    let data = site.clients.get(&group).map(|client| client.applied);
                    site.driver.is_some()
                        && data.is_some_and(|d| self.checker.is_newest(group, d.index, d.digest))
                })
            };
            conf.voters.iter().copied().collect::<BTreeSet<_>>() == self.wanted[&group]
                && conf.learners.is_empty()
                && conf.voters_outgoing.is_empty()
                && newest == status.commit
                && self.now > self.plan.length + 2000
                && self.checker.acknowledged_to(group) + 1 >= newest
                && conf.voters.iter().all(is_whole)
        })
    }

    pub(super) fn describe(&self) -> String {
        let mut text = format!("wanted {:?}", self.wanted);
        for slot in 0..self.sites.len() {
            for group in 1..=self.plan.groups {
                let site = &self.sites[slot];
                let client = site.clients.get(&group).map(|c| (c.handed.index, c.applied.index));
                text += &format!(
                    "\n site {slot} replica {} refused {} client {client:?} group {group}: {:?}",
                    site.replica(),
                    site.is_refused,
                    self.status(slot, group)
                );
            }
        }
        text
    }

    /// Checks the logs once more: where two have an entry of the same index and term, all before it are
    /// the same.
    pub(super) fn finish(&mut self) -> Checked {
        for group in 1..=self.plan.groups {
            for first in 0..self.sites.len() {
                for second in 0..first {
                    self.compare_logs(group, first, second)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn compare_logs(&self, group: u64, first: usize, second: usize) -> Checked {
        let store = |slot: usize| self.sites[slot].driver.as_ref()?.store(group);
        let (Some(a), Some(b)) = (store(first), store(second)) else {
            return Ok(());
        };
        let mut must_match = false;
        for index in (a.cut().max(b.cut()) + 1..=a.last().min(b.last())).rev() {
            let is_same = a.term_at(index) == b.term_at(index);
            if must_match && !is_same {
                return Err(format!(
                    "logs {first} and {second} differ at entry {index}, before one that is the same"
                ));
            }
            if is_same
                && self.sites[first].disk.entry(group, index) != self.sites[second].disk.entry(group, index)
            {
                return Err(format!("entry {index} of one term has other data at {first} than at {second}"));
            }
            must_match |= is_same;
        }
        Ok(())
    }
}
