//! A site in the simulator: its driver, its disk, and a client of each group that keeps a digest.

use std::collections::{BTreeMap, VecDeque};

use raft::eraftpb::{Entry, Message};

use super::disk::SimDisk;
use super::random::Random;
use crate::driver::Driver;
use crate::error::Result;
use crate::fence::{Fence, Identity};
use crate::log::{by_id, Log, LogOptions};
use crate::outside::{Options, Outside, Role};
use crate::state::Manifest;
use crate::waiting::Answer;

/// The data of a group: how far it is, and the digest of all that it applied.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Data {
    pub index: u64,
    pub digest: u64,
}

/// Applies entries, later than they are handed over. A crash sets it back to what it had flushed.
pub struct Client {
    pub handed: Data,
    pub applied: Data,
    pub flushed: Data,
    pub queue: VecDeque<Data>,
}

impl Client {
    pub fn new(index: u64) -> Self {
        let data = Data { index, digest: 0 };
        Self { handed: data, applied: data, flushed: data, queue: VecDeque::new() }
    }

    fn crash(&mut self) {
        self.queue.clear();
        (self.handed, self.applied) = (self.flushed, self.flushed);
    }

    fn install(&mut self, data: Data) {
        self.queue.clear();
        (self.handed, self.applied, self.flushed) = (data, data, data);
    }
}

pub fn encode(data: Data) -> Vec<u8> {
    [data.index.to_le_bytes(), data.digest.to_le_bytes()].concat()
}

fn decode(bytes: &[u8]) -> Data {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    Data { index: number(0), digest: number(8) }
}

/// Owned by a world.
pub struct Site {
    pub identity: Identity,
    pub disk: SimDisk,
    /// `None` while the site is down.
    pub driver: Option<Driver<SimDisk>>,
    pub clients: BTreeMap<u64, Client>,
    pub boots: u64,
    pub paused_to: u64,
    pub members_seen: BTreeMap<u64, u64>, // by group, the entry that made the members, as last checked
    /// Its log was refused: it has to come back as a new replica.
    pub is_refused: bool,
}

impl Site {
    /// Makes a site with an empty disk.
    pub fn new(slot: u64, incarnation: u64, replica: u64, seed: u64) -> Self {
        let site = [slot as u8; 16];
        let identity = Identity { site, incarnation, replica };
        Self {
            identity,
            disk: SimDisk::new(seed, Fence::default().encode(&identity)),
            driver: None,
            clients: BTreeMap::new(),
            boots: 0,
            paused_to: 0,
            members_seen: BTreeMap::new(),
            is_refused: false,
        }
    }

    pub fn replica(&self) -> u64 {
        self.identity.replica
    }

    /// Opens the log and starts the driver, as a process that begins.
    pub fn boot(&mut self, options: Options, log_options: &LogOptions) -> Result<()> {
        self.boots += 1;
        let (log, groups) = Log::open(self.disk.clone(), self.identity, log_options)?;
        let mut driver = Driver::new(log, options);
        for (id, group) in by_id(groups) {
            let applied = self.clients.get(&id).map_or(0, |client| client.flushed.index);
            driver.open(group, applied)?;
        }
        self.driver = Some(driver);
        Ok(())
    }

    pub fn crash(&mut self) {
        self.driver = None;
        self.clients.values_mut().for_each(Client::crash);
    }
}

/// What a driver did in one go. Snapshots are installed at once, as a client does.
pub struct Effects<'a> {
    pub clients: &'a mut BTreeMap<u64, Client>,
    pub random: &'a mut Random,
    pub did: Did,
}

#[derive(Default)]
pub struct Did {
    pub sent: Vec<(u64, Message)>,
    pub committed: Vec<(u64, Vec<Entry>)>,
    pub roles: Vec<(u64, Role, u64)>,
    pub answers: Vec<(u64, Answer)>,
    pub takes: Vec<u64>,
    pub fetches: Vec<u64>,
    pub installed: Vec<(u64, Data)>,
}

impl Outside for Effects<'_> {
    fn send(&mut self, group: u64, message: Message) {
        self.did.sent.push((group, message));
    }

    fn committed(&mut self, group: u64, entries: Vec<Entry>) {
        self.did.committed.push((group, entries));
    }

    fn role_changed(&mut self, group: u64, role: Role, term: u64, _leader: u64) {
        self.did.roles.push((group, role, term));
    }

    fn answer(&mut self, token: u64, answer: Answer) {
        self.did.answers.push((token, answer));
    }

    fn take_snapshot(&mut self, group: u64) {
        self.did.takes.push(group);
    }

    fn fetch_snapshot(&mut self, group: u64, _: &Manifest) -> bool {
        let is_here = self.random.chance(500);
        if !is_here {
            self.did.fetches.push(group);
        }
        is_here
    }

    fn install_snapshot(&mut self, group: u64, manifest: &Manifest) -> std::result::Result<(), String> {
        let data = decode(&manifest.data);
        let client = self.clients.entry(group).or_insert_with(|| Client::new(0));
        if data.index != manifest.index || data.index < client.handed.index {
            return Err(format!("snapshot {} behind applied {}", data.index, client.handed.index));
        }
        client.install(data);
        self.did.installed.push((group, data));
        Ok(())
    }
}
