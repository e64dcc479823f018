//! One simulated run: sites, the network between them, callers, and the troubles of its plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use raft::eraftpb::{ConfState, Message, MessageType};

use super::check::{part, Checked, Checker};
use super::plan::Plan;
use super::random::{mix, Random};
use super::site::{encode, Client, Data, Did, Effects, Site};
use crate::driver::Driver;
use crate::error::{LogError, Result};
use crate::log::LogOptions;
use crate::outside::{Fault, Options, Role, Status};
use crate::sim::disk::SimDisk;
use crate::waiting::Answer;

const TICK: u64 = 50;
const RECOVERY: u64 = 60_000; // after all troubles are over, everything is well within this time

/// What came about in runs.
#[derive(Debug, Default, Clone)]
pub struct Stats {
    pub events: u64,
    pub acknowledged: u64,
    pub refused: u64,
    pub unknown: u64,
    pub reads: u64,
    pub elections: u64,
    pub crashes: u64,
    pub failed_writes: u64,
    pub snapshots: u64,
    pub changes: u64,
    pub transfers: u64,
    pub damaged: u64,
    /// How often a leader would send a replica what it has: next ≤ matched (raft-rs issue 557).
    pub next_behind: u64,
    pub trace: u64, // a hash of everything that happened
}

impl Stats {
    pub fn add(&mut self, other: &Stats) {
        self.events += other.events;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.reads += other.reads;
        self.elections += other.elections;
        self.crashes += other.crashes;
        self.failed_writes += other.failed_writes;
        self.snapshots += other.snapshots;
        self.changes += other.changes;
        self.transfers += other.transfers;
        self.damaged += other.damaged;
        self.next_behind += other.next_behind;
    }
}

#[derive(Debug)]
enum Event {
    Tick(usize),
    Deliver { from: usize, to: u64, group: u64, message: Message },
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
enum Call {
    Propose { group: u64, parts: u64 },
    Read { group: u64, site: usize },
    Change,
    Transfer,
}

struct World {
    plan: Plan,
    random: Random,
    fault: Option<Fault>,
    now: u64,
    sequence: u64,
    events: BTreeMap<(u64, u64), Event>,
    sites: Vec<Site>,
    slots: HashMap<u64, usize>, // replica → its site
    replicas: u64,
    cut: BTreeSet<(usize, usize)>,        // links that lose everything, one way
    wanted: BTreeMap<u64, BTreeSet<u64>>, // the voters that each group shall have
    checker: Checker,
    calls: HashMap<u64, Call>,
    tokens: u64,
    is_calm: bool,
    stats: Stats,
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
    fn new(plan: Plan, random: Random, fault: Option<Fault>) -> Self {
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
            checker: Checker::default(),
            calls: HashMap::new(),
            tokens: 0,
            is_calm: false,
            stats: Stats::default(),
        }
    }

    fn run(&mut self) -> Checked {
        self.begin()?;
        while let Some(((time, _), event)) = self.events.pop_first() {
            self.now = time;
            self.stats.events += 1;
            if !self.is_calm && time > self.plan.length {
                self.calm();
            }
            if self.is_calm && self.is_well() {
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

    fn begin(&mut self) -> Checked {
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

    fn random_to(&self, bound: u64) -> u64 {
        mix(self.sequence ^ self.tokens) % bound
    }

    fn new_site(&mut self, slot: usize, incarnation: u64) -> Site {
        self.replicas += 1;
        self.slots.insert(self.replicas, slot);
        let site = Site::new(slot as u64, incarnation, self.replicas, self.random.next());
        site.disk.set_fails(if self.is_calm { 0 } else { self.plan.fails });
        site
    }

    /// Boots a site for the first time, and makes its groups, until that succeeds.
    fn begin_site(&mut self, slot: usize, voters: &[u64]) -> Result<()> {
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

    fn options(&mut self, slot: usize) -> (Options, LogOptions) {
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

    fn at(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }

    fn note(&mut self, what: u64) {
        self.stats.trace = mix(self.stats.trace ^ what ^ self.now.rotate_left(32));
    }

    fn handle(&mut self, event: Event) -> Checked {
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
    fn drive(
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
    fn dies_after(&mut self, did: &Did) -> bool {
        let promises = |message: &Message| match message.get_msg_type() {
            MessageType::MsgRequestVoteResponse => 10,
            MessageType::MsgAppendResponse | MessageType::MsgRequestVote => 1,
            _ => 0,
        };
        let weight: u64 = did.sent.iter().map(|(_, message)| promises(message)).sum();
        !self.is_calm && self.random.chance(weight * self.plan.dies_after_promise)
    }

    fn settle(&mut self, slot: usize, did: Did) -> Checked {
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

    fn committed(&mut self, slot: usize, group: u64, entries: Vec<raft::eraftpb::Entry>) -> Checked {
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

    fn leads(&mut self, slot: usize, group: u64, term: u64) -> Checked {
        self.stats.elections += 1;
        let replica = self.sites[slot].replica();
        let Some(store) = self.sites[slot].driver.as_ref().and_then(|driver| driver.store(group)) else {
            return Ok(());
        };
        self.checker.leads(group, replica, term, store.cut(), |index| store.term_at(index))
    }

    /// Looks at what only the inside of a driver shows.
    fn watch(&mut self, slot: usize) -> Checked {
        for group in 1..=self.plan.groups {
            let Some(driver) = &self.sites[slot].driver else {
                return Ok(());
            };
            self.stats.next_behind += driver.count_next_behind(group);
            if let Some(store) = driver.store(group) {
                let (conf, index) = store.conf();
                if index > 0 {
                    self.checker.members(group, index, conf)?;
                }
            }
        }
        Ok(())
    }

    /// A write failed. The driver must not go on; the process begins again later.
    fn fail(&mut self, slot: usize) -> Checked {
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

    fn crash(&mut self, slot: usize) {
        let is_up = self.sites[slot].driver.is_some();
        if is_up {
            self.stats.crashes += 1;
            self.note(slot as u64);
            self.sites[slot].crash();
            let delay = self.random.between(1, self.plan.restart);
            self.at(delay, Event::Boot(slot));
        }
    }

    fn boot(&mut self, slot: usize) -> Checked {
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
    fn wants_damage(&mut self, slot: usize) -> bool {
        let is_alone = self.plan.voters < 3 || self.sites.iter().any(|site| site.is_refused);
        let replica = self.sites[slot].replica();
        let is_member = self.wanted.values().all(|wanted| wanted.contains(&replica));
        let is_early = self.stats.damaged == 0 || self.random.chance(100);
        self.plan.damage && !self.is_calm && !is_alone && is_member && is_early && self.is_whole()
    }

    /// Says whether each group has the voters that it shall have, so that it can do without one.
    fn is_whole(&self) -> bool {
        (1..=self.plan.groups).all(|group| {
            self.newest_conf(group).is_some_and(|conf| {
                conf.voters.iter().copied().collect::<BTreeSet<_>>() == self.wanted[&group]
                    && conf.voters.len() >= 3
                    && conf.learners.is_empty()
                    && conf.voters_outgoing.is_empty()
            })
        })
    }

    fn newest_conf(&self, group: u64) -> Option<ConfState> {
        let stores = self.sites.iter().filter_map(|site| site.driver.as_ref()?.store(group));
        stores.map(|store| store.conf()).max_by_key(|conf| conf.1).map(|conf| conf.0.clone())
    }

    fn apply(&mut self, slot: usize, boot: u64, group: u64) -> Checked {
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

    fn flush(&mut self, slot: usize) -> Checked {
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

    fn taken(&mut self, slot: usize, group: u64) -> Checked {
        let data = self.sites[slot].clients[&group].applied;
        let fails = self.random.chance(100);
        let taken = if fails { None } else { Some((data.index, encode(data))) };
        self.drive(slot, |driver, _| driver.snapshot_taken(group, taken))
    }

    fn status(&self, slot: usize, group: u64) -> Option<Status> {
        self.sites[slot].driver.as_ref()?.status(group)
    }

    // The network.

    fn send(&mut self, from: usize, group: u64, message: Message) {
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
            let message = message.clone();
            self.at(delay, Event::Deliver { from, to: message.to, group, message });
        }
    }

    fn deliver(&mut self, from: usize, to: u64, group: u64, message: Message) -> Checked {
        match self.slots.get(&to).copied() {
            Some(slot) if !self.cut.contains(&(from, slot)) => {
                self.drive(slot, |driver, effects| driver.receive(group, message, effects))
            }
            _ => Ok(()),
        }
    }

    // Callers.

    fn call(&mut self) -> Checked {
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

    fn answered(&mut self, slot: usize, token: u64, answer: Answer) -> Checked {
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
    fn check_durable(&mut self, slot: usize, group: u64, index: u64, term: u64) -> Checked {
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
    fn leader(&self, group: u64) -> Option<usize> {
        let leads =
            |slot: &usize| self.status(*slot, group).filter(|s| s.role == Role::Leader).map(|s| s.term);
        (0..self.sites.len()).filter(|slot| leads(slot).is_some()).max_by_key(|slot| leads(slot))
    }

    // Troubles, and who sees to them.

    fn trouble(&mut self) -> Checked {
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
    fn cut_links(&mut self, slot: usize) {
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
    fn operate(&mut self) -> Checked {
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
    fn replace_refused(&mut self) {
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
    fn want_others(&mut self, group: u64) {
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

    /// Ends all troubles.
    fn calm(&mut self) {
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
    fn is_well(&self) -> bool {
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

    fn describe(&self) -> String {
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
    fn finish(&mut self) -> Checked {
        for group in 1..=self.plan.groups {
            for first in 0..self.sites.len() {
                for second in 0..first {
                    self.compare_logs(group, first, second)?;
                }
            }
        }
        Ok(())
    }

    fn compare_logs(&self, group: u64, first: usize, second: usize) -> Checked {
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
