//! A site: the thread that drives its groups, and calls that wait for their answers.

use std::collections::{BTreeMap, HashMap};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use protobuf::Message as _;
use raft::eraftpb::{Entry, Message};

use crate::driver::Driver;
use crate::engine::{EngineDisk, EngineOptions};
use crate::error::{LogError, Result};
use crate::fence::Identity;
use crate::log::{by_id, GroupLog, Log, LogOptions};
use crate::lost_leaders::LostLeaders;
use crate::outside::{Options, Outside, Role, Status};
use crate::state::Manifest;
use crate::waiting::Answer;

const TICKS_LATE_MAX: u32 = 3; // a process that was stopped does not make up for all its ticks
const COMMANDS_MAX: usize = 1024; // taken in one turn
const RECEIVED_BYTES_MAX: usize = 64 << 20; // of messages that wait for the thread
const PURGE_EVERY: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(2); // beyond its deadline, for the thread to answer a call

/// The data of the groups, above the log. All calls come in the thread of the site, and hold it up: they
/// hand over, and return.
pub trait Client: Send {
    /// Entries that are committed: each once, in order.
    fn committed(&mut self, group: u64, entries: &[Entry]);
    fn role_changed(&mut self, group: u64, role: Role, term: u64, leader: u64);
    /// Begins to take a snapshot; `Site::snapshot_taken` hands it over.
    fn take_snapshot(&mut self, group: u64);
    /// Says whether the data of a snapshot is here, or begins to fetch it; then
    /// `Site::snapshot_fetched` is called.
    fn fetch_snapshot(&mut self, group: u64, manifest: &Manifest) -> bool;
    /// Puts what was fetched in the place of the group's data; durable when it returns.
    fn install_snapshot(&mut self, group: u64, manifest: &Manifest) -> std::result::Result<(), String>;
    /// The site takes part no more. No call comes after this one.
    fn stopped(&mut self, error: &LogError);
}

/// Takes messages to other replicas, or loses them. It never waits.
pub trait Network: Send {
    fn send(&mut self, group: u64, message: Message);
    /// A replica that led is gone: nobody is to wait for its answers any more.
    fn lost(&mut self, replica: u64);
}

#[derive(Debug, Clone)]
pub struct SiteOptions {
    pub tick: Duration,
    pub driver: Options,
    pub log: LogOptions,
    pub engine: EngineOptions,
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(50),
            driver: Options::default(),
            log: LogOptions::default(),
            engine: EngineOptions::default(),
        }
    }
}

/// What a caller wants that waits for an answer.
#[derive(Debug)]
pub enum Call {
    Propose(Vec<Vec<u8>>),
    Read,
    Change { voters: Vec<u64>, learners: Vec<u64> },
    Transfer(u64),
}

enum Command {
    Receive(u64, Message, usize),
    Unreachable(u64),
    Exclude(u64),
    Call { group: u64, call: Call, patience: Duration, reply: Sender<Answer> },
    Applied(u64, u64),
    Flushed(u64, u64),
    Taken(u64, Option<(u64, Vec<u8>)>),
    Fetched(u64, bool),
    Create(u64, Vec<u64>, Sender<Result<()>>),
    Open(u64, u64, Sender<Result<()>>),
    OpenDamaged(u64, Sender<Result<()>>),
    Refilled(u64, u64),
    Remove(u64, Sender<Result<()>>),
    Status(u64, Sender<Option<Status>>),
    Stop,
}

/// Sends commands to the thread of a site. Clones may be used by any thread, also after the site is gone.
#[derive(Clone)]
pub struct Handle {
    commands: Sender<Command>,
    received: Arc<AtomicUsize>, // bytes of messages that wait
    why: Arc<Mutex<Option<LogError>>>,
}

impl Handle {
    /// Takes a message of a peer, or loses it if too much waits already.
    pub fn receive(&self, group: u64, message: Message) {
        let bytes = message.compute_size() as usize;
        if self.received.fetch_add(bytes, Ordering::Relaxed) > RECEIVED_BYTES_MAX {
            self.received.fetch_sub(bytes, Ordering::Relaxed);
            return;
        }
        let _ = self.commands.send(Command::Receive(group, message, bytes));
    }

    pub fn unreachable(&self, replica: u64) {
        let _ = self.commands.send(Command::Unreachable(replica));
    }

    /// Takes no more messages from a replica that is a member no more.
    pub fn exclude(&self, replica: u64) {
        let _ = self.commands.send(Command::Exclude(replica));
    }

    /// Waits for the answer of a call, a little longer than `patience` at most. Without an answer a
    /// proposal is `Unknown`, with index 0.
    pub fn call(&self, group: u64, call: Call, patience: Duration) -> Result<Answer> {
        let is_proposal = matches!(call, Call::Propose(_));
        let (reply, answer) = channel();
        let command = Command::Call { group, call, patience, reply };
        if self.commands.send(command).is_err() {
            return Err(self.stopped());
        }
        match answer.recv_timeout(patience + GRACE) {
            Ok(answer) => Ok(answer),
            Err(_) if is_proposal => Ok(Answer::Unknown { index: 0, term: 0 }),
            Err(RecvTimeoutError::Timeout) => Ok(Answer::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Err(self.stopped()),
        }
    }

    /// The client has applied everything up to an entry.
    pub fn applied(&self, group: u64, index: u64) {
        let _ = self.commands.send(Command::Applied(group, index));
    }

    /// The client has everything up to an entry on disk.
    pub fn flushed(&self, group: u64, index: u64) {
        let _ = self.commands.send(Command::Flushed(group, index));
    }

    pub fn snapshot_taken(&self, group: u64, taken: Option<(u64, Vec<u8>)>) {
        let _ = self.commands.send(Command::Taken(group, taken));
    }

    pub fn snapshot_fetched(&self, group: u64, is_here: bool) {
        let _ = self.commands.send(Command::Fetched(group, is_here));
    }

    /// Makes a group, with its first voters or as one that joins.
    pub fn create(&self, group: u64, voters: Vec<u64>) -> Result<()> {
        self.ask(|reply| Command::Create(group, voters, reply))?
    }

    /// Begins to take part in a group of the log.
    pub fn open(&self, group: u64, applied: u64) -> Result<()> {
        self.ask(|reply| Command::Open(group, applied, reply))?
    }

    /// The same for a client that has lost what it had applied; `refilled` says what it has got.
    pub fn open_damaged(&self, group: u64) -> Result<()> {
        self.ask(|reply| Command::OpenDamaged(group, reply))?
    }

    /// The client has got everything up to an entry from elsewhere, on disk.
    pub fn refilled(&self, group: u64, index: u64) {
        let _ = self.commands.send(Command::Refilled(group, index));
    }

    pub fn remove(&self, group: u64) -> Result<()> {
        self.ask(|reply| Command::Remove(group, reply))?
    }

    pub fn status(&self, group: u64) -> Result<Option<Status>> {
        self.ask(|reply| Command::Status(group, reply))
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Result<T> {
        let (reply, answer) = channel();
        let _ = self.commands.send(command(reply));
        answer.recv().map_err(|_| self.stopped())
    }

    fn stopped(&self) -> LogError {
        let why = self.why.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        why.unwrap_or_else(|| LogError::Refused("the site is closed: open it again".to_owned()))
    }
}

/// A site that is open. Owned by whoever opened it; dropping it ends its threads, and what still waits
/// is not answered.
pub struct Site {
    handle: Handle,
    groups: Vec<u64>,
    threads: Vec<JoinHandle<()>>,
    stop_purging: Option<Sender<()>>,
}

impl Site {
    /// Opens the log in a directory, or begins one, and starts the thread of the site. Its groups take
    /// part once `Handle::open` is called for each.
    pub fn open(
        directory: &std::path::Path,
        identity: Identity,
        options: SiteOptions,
        client: impl Client + 'static,
        network: impl Network + 'static,
    ) -> Result<Self> {
        let disk = EngineDisk::open(directory, &identity, &options.engine)?;
        let (log, groups) = Log::open(disk, identity, &options.log)?;
        let (purged, groups) = (log.disk(), by_id(groups));
        let ids = groups.keys().copied().collect();
        let (commands, inbox) = channel();
        let (why, received) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
        let mut driver_options = options.driver.clone();
        driver_options.run = random_number()?;
        let leaders = LostLeaders::default();
        let around = Around { client, network, leaders, calls: HashMap::new() };
        let silence = options.tick * options.driver.election_ticks as u32;
        let driver = Driver::new(log, driver_options);
        let mut loop_ = Loop {
            driver,
            around,
            groups,
            tick: options.tick,
            silence,
            tokens: 0,
            received: received.clone(),
        };
        let noted = why.clone();
        let drives = std::thread::Builder::new()
            .name("topicdb-raft".to_owned())
            .spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(|| loop_.run(&inbox)));
                let error = match ended {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error,
                    Err(panic) => LogError::Disk(format!("the consensus broke off: {}", text_of(&*panic))),
                };
                *noted.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error.clone());
                loop_.around.calls.clear();
                let _ = catch_unwind(AssertUnwindSafe(|| loop_.around.client.stopped(&error)));
            })
            .map_err(|error| LogError::Disk(format!("cannot start a thread: {error}")))?;
        let (stop_purging, stopped) = channel::<()>();
        let purges = std::thread::Builder::new()
            .name("topicdb-purge".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(PURGE_EVERY) == Err(RecvTimeoutError::Timeout) {
                    // A failure is one of the disk, which the next write meets, too.
                    let _ = catch_unwind(AssertUnwindSafe(|| purged.purge()));
                }
            })
            .map_err(|error| LogError::Disk(format!("cannot start a thread: {error}")))?;
        Ok(Self {
            handle: Handle { commands, received, why },
            groups: ids,
            threads: vec![drives, purges],
            stop_purging: Some(stop_purging),
        })
    }

    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Ends the thread that drives the groups, and does not wait. Whoever waits for it gets an answer.
    pub fn stop(&self) {
        let _ = self.handle.commands.send(Command::Stop);
    }

    /// Returns the groups that the log had when it was opened.
    pub fn groups(&self) -> &[u64] {
        &self.groups
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
        self.stop_purging = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn random_number() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::getrandom(&mut bytes)
        .map_err(|error| LogError::Disk(format!("this machine has no random numbers: {error}")))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Returns the text of a panic.
pub fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

struct Around<C, N> {
    client: C,
    network: N,
    leaders: LostLeaders,
    calls: HashMap<u64, Sender<Answer>>,
}

impl<C: Client, N: Network> Outside for Around<C, N> {
    fn send(&mut self, group: u64, message: Message) {
        self.network.send(group, message);
    }

    fn committed(&mut self, group: u64, entries: Vec<Entry>) {
        self.client.committed(group, &entries);
    }

    fn role_changed(&mut self, group: u64, role: Role, term: u64, leader: u64) {
        self.leaders.leads(group, leader, Instant::now());
        self.client.role_changed(group, role, term, leader);
    }

    fn answer(&mut self, token: u64, answer: Answer) {
        if let Some(reply) = self.calls.remove(&token) {
            let _ = reply.send(answer);
        }
    }

    fn take_snapshot(&mut self, group: u64) {
        self.client.take_snapshot(group);
    }

    fn fetch_snapshot(&mut self, group: u64, manifest: &Manifest) -> bool {
        self.client.fetch_snapshot(group, manifest)
    }

    fn install_snapshot(&mut self, group: u64, manifest: &Manifest) -> std::result::Result<(), String> {
        self.client.install_snapshot(group, manifest)
    }
}

/// What the thread of a site does.
struct Loop<C, N> {
    driver: Driver<EngineDisk>,
    around: Around<C, N>,
    groups: BTreeMap<u64, GroupLog<EngineDisk>>, // that take no part yet
    tick: Duration,
    silence: Duration, // after which a leader that was replaced is lost
    tokens: u64,
    received: Arc<AtomicUsize>,
}

impl<C: Client, N: Network> Loop<C, N> {
    fn run(&mut self, inbox: &Receiver<Command>) -> Result<()> {
        let mut next_tick = Instant::now() + self.tick;
        loop {
            let wait = next_tick.saturating_duration_since(Instant::now());
            let mut command = match inbox.recv_timeout(wait) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let mut left = COMMANDS_MAX;
            while let Some(taken) = command {
                if matches!(taken, Command::Stop) {
                    self.driver.close();
                    return Ok(());
                }
                self.handle(taken)?;
                left -= 1;
                command = if left > 0 { inbox.try_recv().ok() } else { None };
            }
            let now = Instant::now();
            if now >= next_tick {
                self.driver.tick()?;
                next_tick = (next_tick + self.tick).max(now - self.tick * TICKS_LATE_MAX);
            }
            while self.driver.turn(&mut self.around)? {}
            for replica in self.around.leaders.take(self.silence, now) {
                self.around.network.lost(replica);
            }
        }
    }

    fn handle(&mut self, command: Command) -> Result<()> {
        match command {
            Command::Receive(group, message, bytes) => {
                self.received.fetch_sub(bytes, Ordering::Relaxed);
                self.around.leaders.heard_from(message.from, Instant::now());
                self.driver.receive(group, message, &mut self.around)
            }
            Command::Unreachable(replica) => {
                self.driver.unreachable(replica);
                Ok(())
            }
            Command::Exclude(replica) => {
                self.driver.exclude(replica);
                Ok(())
            }
            Command::Call { group, call, patience, reply } => self.call(group, call, patience, reply),
            Command::Applied(group, index) => self.driver.applied(group, index),
            Command::Flushed(group, index) => self.driver.flushed(group, index),
            Command::Taken(group, taken) => self.driver.snapshot_taken(group, taken),
            Command::Fetched(group, is_here) => self.driver.snapshot_fetched(group, is_here),
            Command::Create(group, voters, reply) => {
                let made = self.driver.create(group, &voters);
                self.reply(made, &reply)
            }
            Command::Open(group, applied, reply) => {
                // A group whose client has lost something may be opened as one that has.
                let checked = self.groups.get(&group).map_or(Ok(()), |log| log.check(applied));
                let taken = checked.and_then(|()| self.take_group(group));
                let opened = taken.and_then(|log| self.driver.open(log, applied));
                self.reply(opened, &reply)
            }
            Command::OpenDamaged(group, reply) => {
                let opened = self.take_group(group).and_then(|log| self.driver.open_damaged(log));
                self.reply(opened, &reply)
            }
            Command::Refilled(group, index) => self.driver.refilled(group, index),
            Command::Remove(group, reply) => {
                self.groups.remove(&group);
                self.around.leaders.forget(group);
                let removed = self.driver.remove(group);
                self.reply(removed, &reply)
            }
            Command::Status(group, reply) => {
                let _ = reply.send(self.driver.status(group));
                Ok(())
            }
            Command::Stop => Ok(()),
        }
    }

    /// Returns the log of a group that is to take part.
    fn take_group(&mut self, group: u64) -> Result<GroupLog<EngineDisk>> {
        let missing = || {
            let text = format!("group {group} is not in this log, or takes part already: create it");
            LogError::Refused(text)
        };
        self.groups.remove(&group).ok_or_else(missing)
    }

    /// Gives the result to the caller; only a failed disk ends the thread.
    fn reply(&self, result: Result<()>, reply: &Sender<Result<()>>) -> Result<()> {
        let _ = reply.send(result);
        self.driver.check()
    }

    fn call(&mut self, group: u64, call: Call, patience: Duration, reply: Sender<Answer>) -> Result<()> {
        self.tokens += 1;
        let token = self.tokens;
        self.around.calls.insert(token, reply);
        let ticks = patience.as_nanos().div_ceil(self.tick.as_nanos().max(1)) as u64;
        let deadline = self.driver.now().saturating_add(ticks.max(1));
        match call {
            Call::Propose(entries) => self.driver.propose(group, token, entries, deadline),
            Call::Read => self.driver.read_barrier(group, token, deadline),
            Call::Change { voters, learners } => {
                self.driver.change(group, token, &voters, &learners, deadline)
            }
            Call::Transfer(to) => self.driver.transfer(group, token, to, deadline),
        }
    }
}
