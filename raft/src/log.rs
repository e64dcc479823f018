//! The log of a site: entries, hard state and configuration of all its groups, and the fence.
//!
//! `Log` writes for all groups at once, so that they share an fsync. `GroupLog` is what the engine of
//! the consensus reads: `raft::Storage` of one group. Both stand upon a `Disk`, which is raft-engine
//! in a site, and a simulated disk in the simulator: everything that decides is here, in one place
//! for both.
//!
//! Each group has one record beside its entries, its *state*, which is written with every change of
//! the group, in the same atomic write. Its layout is drawn in `docs/internals/consensus.md`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::error::{LogError, Result};
use crate::fence::{Fence, FenceRow, Identity};
use crate::state::{GroupState, Manifest};

const CHECK_BYTES: usize = 8 << 20; // read at once when a log is opened and checked
const MARK_BYTES: u64 = 1 << 20; // how finely a group knows the bytes behind its newest entry

/// What is written of one group, all of it or nothing.
#[derive(Debug, Clone, Default)]
pub struct GroupWrite {
    pub group: u64,
    /// Entries up to this index are forgotten, before `entries` are written.
    pub cut: Option<u64>,
    /// They replace what was at their indexes and behind them.
    pub entries: Vec<Entry>,
    /// The new state, or `None` to forget the group.
    pub state: Option<Vec<u8>>,
    row: FenceRow,
}

/// What a log needs of the medium below it. Calls may come from any thread.
pub trait Disk: Send + Sync + 'static {
    /// Writes all or nothing; what it wrote is durable when it returns.
    fn write(&self, writes: &[GroupWrite]) -> Result<()>;
    /// Returns the state of every group.
    fn states(&self) -> Result<Vec<(u64, Vec<u8>)>>;
    /// Returns entries from `low` and before `high`: at least one, then up to `max_bytes`.
    fn read(&self, group: u64, low: u64, high: u64, max_bytes: usize) -> Result<Vec<Entry>>;
    /// Replaces the fence; durable when it returns.
    fn write_fence(&self, fence: &[u8]) -> Result<()>;
    fn read_fence(&self) -> Result<Option<Vec<u8>>>;
    /// Says whether a log file was begun since this was last asked.
    fn took_new_file(&self) -> bool;
    /// Names the log in errors.
    fn place(&self) -> &str;
}

#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The newest entries that are kept in memory, of all groups together.
    pub cache_bytes: usize,
    /// Only for the simulator, which plants this fault to see that it is found.
    #[cfg(test)]
    pub ignores_fence: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            #[cfg(test)]
            ignores_fence: false,
        }
    }
}

/// Writes the log of a site. Owned by the driver of the site, and used by its thread alone.
pub struct Log<D: Disk> {
    disk: Arc<D>,
    identity: Identity,
    fence: Fence,
    fence_is_old: bool,
    cache: Arc<CacheShare>,
}

/// How much each group may keep in memory: an equal share.
struct CacheShare {
    bytes: usize,
    groups: AtomicUsize,
}

impl CacheShare {
    fn bytes(&self) -> usize {
        self.bytes / self.groups.load(Ordering::Relaxed).max(1)
    }
}

impl<D: Disk> Log<D> {
    /// Opens the log, reads all of it, and compares it with the fence. Nothing is changed unless all is well.
    pub fn open(disk: D, identity: Identity, options: &LogOptions) -> Result<(Self, Vec<GroupLog<D>>)> {
        let disk = Arc::new(disk);
        let states = disk.states()?;
        let cache =
            Arc::new(CacheShare { bytes: options.cache_bytes, groups: AtomicUsize::new(states.len()) });
        let mut log = Self { disk, identity, fence: Fence::default(), fence_is_old: true, cache };
        let mut groups = Vec::new();
        for (group, bytes) in &states {
            let state = GroupState::decode(log.disk.place(), *group, bytes)?;
            log.fence.0.insert(*group, state.row());
            groups.push(log.group(*group, state));
        }
        #[cfg(test)]
        let checks = !options.ignores_fence;
        #[cfg(not(test))]
        let checks = true;
        if checks {
            log.check_fence()?;
        }
        for group in &mut groups {
            group.load()?;
        }
        log.disk.took_new_file(); // those that were begun so far have this fence
        log.write_fence()?;
        Ok((log, groups))
    }

    pub fn disk(&self) -> Arc<D> {
        self.disk.clone()
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Makes a group that begins at `index` with `conf`, as after a snapshot. A replica that joins has
    /// index 0 and no configuration: it waits for a snapshot. It is durable with the first write.
    pub fn create(&mut self, group: u64, index: u64, conf: ConfState) -> Result<GroupLog<D>> {
        if self.fence.0.contains_key(&group) {
            return Err(LogError::Refused(format!("{}: group {group} is there already", self.disk.place())));
        }
        self.cache.groups.fetch_add(1, Ordering::Relaxed);
        let term = u64::from(index > 0);
        let mut state = GroupState {
            last: (index, term),
            cut: (index, term),
            conf,
            conf_index: index,
            ..GroupState::default()
        };
        (state.hard.term, state.hard.commit) = (term, index);
        let mut made = self.group(group, state);
        made.changed = true;
        Ok(made)
    }

    fn group(&self, group: u64, state: GroupState) -> GroupLog<D> {
        GroupLog {
            group,
            disk: self.disk.clone(),
            terms: VecDeque::from([state.cut]),
            state,
            changed: false,
            pending: GroupWrite::default(),
            cache: VecDeque::new(),
            cache_bytes: 0,
            cache_share: self.cache.clone(),
            bytes: 0,
            marks: VecDeque::new(),
            snapshot: None,
            snapshot_wanted: AtomicBool::new(false),
        }
    }

    fn check_fence(&self) -> Result<()> {
        let place = self.disk.place();
        let Some(bytes) = self.disk.read_fence()? else {
            return Err(LogError::damaged(place, "the fence of the log is gone"));
        };
        let fence = Fence::decode(place, &bytes, &self.identity)?;
        for (group, row) in &fence.0 {
            let Some(found) = self.fence.0.get(group) else {
                let what = format!("group {group} is gone, and the fence has it");
                return Err(LogError::damaged(place, what));
            };
            if let Some(what) = found.behind(row) {
                return Err(LogError::damaged(place, format!("group {group}: {what}")));
            }
        }
        Ok(())
    }

    /// Makes writes durable, of all groups together.
    pub fn write(&mut self, writes: &[GroupWrite]) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        self.disk.write(writes)?;
        for write in writes {
            self.fence.0.insert(write.group, write.row);
        }
        self.fence_is_old = true;
        if self.disk.took_new_file() {
            self.write_fence()?;
        }
        Ok(())
    }

    /// Forgets a group for good. The fence forgets it first, so that a crash in between does no harm.
    pub fn remove(&mut self, group: u64) -> Result<()> {
        if self.fence.0.remove(&group).is_none() {
            return Ok(());
        }
        self.fence_is_old = true;
        self.write_fence()?;
        self.cache.groups.fetch_sub(1, Ordering::Relaxed);
        self.disk.write(&[GroupWrite { group, ..GroupWrite::default() }])
    }

    /// Writes the fence, unless nothing has changed since. The driver calls this once a second.
    pub fn write_fence(&mut self) -> Result<()> {
        if self.fence_is_old {
            self.disk.write_fence(&self.fence.encode(&self.identity))?;
            self.fence_is_old = false;
        }
        Ok(())
    }
}

/// The log of one group, as the engine of the consensus reads it.
///
/// The changing calls change memory and gather what `take_write` hands over; it is durable once
/// `Log::write` has written that. Owned by the group's engine, and used by the driver's thread alone.
pub struct GroupLog<D: Disk> {
    group: u64,
    disk: Arc<D>,
    state: GroupState,
    changed: bool,
    pending: GroupWrite,
    cache: VecDeque<Entry>, // the newest entries
    cache_bytes: usize,
    cache_share: Arc<CacheShare>,
    terms: VecDeque<(u64, u64)>, // where each term begins: index and term, from `state.cut` on
    bytes: u64,                  // of all entries so far
    marks: VecDeque<(u64, u64)>, // an index and `bytes` as it was written, some for each MiB
    snapshot: Option<Snapshot>,
    snapshot_wanted: AtomicBool,
}

fn entry_bytes(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + 32
}

impl<D: Disk> GroupLog<D> {
    pub fn id(&self) -> u64 {
        self.group
    }

    pub fn conf(&self) -> (&ConfState, u64) {
        (&self.state.conf, self.state.conf_index)
    }

    pub fn hard_state(&self) -> &HardState {
        &self.state.hard
    }

    pub fn cut(&self) -> u64 {
        self.state.cut.0
    }

    pub fn last(&self) -> u64 {
        self.state.last.0
    }

    /// Reads all entries when the log is opened, so that a damaged one is found before any vote.
    fn load(&mut self) -> Result<()> {
        let (mut next, last) = (self.state.cut.0 + 1, self.state.last);
        while next <= last.0 {
            let entries = self.disk.read(self.group, next, last.0 + 1, CHECK_BYTES)?;
            for entry in entries {
                if entry.index != next {
                    return Err(self.damaged(format!("entry {next} is missing")));
                }
                next += 1;
                self.remember(entry);
            }
        }
        if self.term_at(last.0) != Some(last.1) {
            return Err(self.damaged(format!("entry {} has another term than was written", last.0)));
        }
        Ok(())
    }

    fn damaged(&self, what: String) -> LogError {
        LogError::damaged(self.disk.place(), format!("group {}: {what}", self.group))
    }

    /// Returns an error if the log does not go on from what a client has applied.
    pub fn check(&self, applied: u64) -> Result<()> {
        let installed = self.state.installing.as_ref().map(|m| m.index).filter(|index| applied >= *index);
        let (first, last) = installed.map_or((self.state.cut.0, self.state.last.0), |index| (index, index));
        if applied >= first && applied <= last {
            return Ok(());
        }
        Err(self.damaged(format!(
            "the data has applied entry {applied}, and the log has those from {} to {last}",
            first + 1
        )))
    }

    /// Prepares the group for a client that has applied entries up to `applied`.
    pub fn start(&mut self, applied: u64) -> Result<()> {
        self.check(applied)?;
        if let Some(manifest) = self.state.installing.clone() {
            if applied >= manifest.index {
                self.reset(&manifest);
            }
            self.state.installing = None;
            self.changed = true;
        }
        if applied > self.state.hard.commit {
            self.state.hard.commit = applied;
            self.changed = true;
        }
        Ok(())
    }

    /// Prepares the group for a client that has lost what it had applied, and returns the last entry
    /// that is known to be committed.
    pub fn start_damaged(&mut self) -> u64 {
        self.changed |= self.state.installing.take().is_some();
        self.state.hard.commit.max(self.state.cut.0)
    }

    pub fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first().map(|e| e.index) else {
            return;
        };
        assert!(
            first > self.state.cut.0 && first <= self.state.last.0 + 1,
            "entry {first} does not continue the log"
        );
        while self.cache.back().is_some_and(|e| e.index >= first) {
            self.cache_bytes -= self.cache.pop_back().as_ref().map_or(0, entry_bytes);
        }
        while self.terms.len() > 1 && self.terms.back().is_some_and(|t| t.0 >= first) {
            self.terms.pop_back();
        }
        while self.marks.back().is_some_and(|m| m.0 >= first) {
            self.marks.pop_back();
        }
        self.pending.entries.retain(|e| e.index < first);
        for entry in &entries {
            self.remember(entry.clone());
        }
        if let Some(entry) = entries.last() {
            self.state.last = (entry.index, entry.term);
        }
        self.pending.entries.extend(entries);
        self.changed = true;
    }

    fn remember(&mut self, entry: Entry) {
        if self.terms.back().is_none_or(|t| t.1 != entry.term) {
            self.terms.push_back((entry.index, entry.term));
        }
        self.bytes += entry_bytes(&entry) as u64;
        if self.marks.back().is_none_or(|m| self.bytes >= m.1 + MARK_BYTES) {
            self.marks.push_back((entry.index, self.bytes));
        }
        self.cache_bytes += entry_bytes(&entry);
        self.cache.push_back(entry);
        let share = self.cache_share.bytes();
        while self.cache_bytes > share && self.cache.len() > 1 {
            self.cache_bytes -= self.cache.pop_front().as_ref().map_or(0, entry_bytes);
        }
    }

    /// Takes a new term, vote or commit index. A commit index alone is not worth a write: a majority
    /// knows it.
    pub fn set_hard_state(&mut self, hard: HardState) {
        self.changed |= hard.term != self.state.hard.term || hard.vote != self.state.hard.vote;
        self.state.hard = hard;
    }

    pub fn set_commit(&mut self, commit: u64) {
        self.state.hard.commit = commit;
    }

    pub fn set_conf(&mut self, conf: ConfState, index: u64) {
        (self.state.conf, self.state.conf_index) = (conf, index);
        self.snapshot = None; // a replica that joins takes none whose members it is not among
        self.changed = true;
    }

    /// Makes a replica the only member, whatever the entries say that are in the log already.
    pub fn be_alone(&mut self, replica: u64) {
        let conf = ConfState { voters: vec![replica], ..ConfState::default() };
        if let Some(manifest) = &mut self.state.installing {
            (manifest.conf, manifest.conf_index) = (conf.clone(), manifest.index);
        }
        self.set_conf(conf, self.state.last.0);
    }

    /// Notes a snapshot before the client installs it, so that a crash in between can be put right.
    pub fn begin_install(&mut self, manifest: &Manifest) {
        let data = Bytes::new();
        self.state.installing = Some(Manifest { data, ..manifest.clone() });
        self.changed = true;
    }

    /// Begins the log anew behind a snapshot that the client has installed.
    pub fn reset(&mut self, manifest: &Manifest) {
        let at = (manifest.index, manifest.term);
        (self.state.last, self.state.cut) = (at, at);
        self.state.installing = None;
        self.set_conf(manifest.conf.clone(), manifest.conf_index);
        self.state.hard.commit = self.state.hard.commit.max(manifest.index);
        self.state.hard.term = self.state.hard.term.max(manifest.term);
        self.cache.clear();
        self.cache_bytes = 0;
        self.terms = VecDeque::from([at]);
        self.marks.clear();
        self.snapshot = None;
        self.pending.entries.clear();
        self.pending.cut = Some(manifest.index);
    }

    /// Forgets the entries up to `index`.
    pub fn cut_to(&mut self, index: u64) {
        let Some(term) = self.term_at(index) else {
            return;
        };
        if index <= self.state.cut.0 {
            return;
        }
        self.state.cut = (index, term);
        while self.terms.len() > 1 && self.terms[1].0 <= index {
            self.terms.pop_front();
        }
        self.terms[0] = self.state.cut;
        while self.marks.len() > 1 && self.marks[1].0 <= index {
            self.marks.pop_front();
        }
        while self.cache.front().is_some_and(|e| e.index <= index) {
            self.cache_bytes -= self.cache.pop_front().as_ref().map_or(0, entry_bytes);
        }
        self.pending.cut = Some(index);
        self.changed = true;
    }

    /// Returns the first index from which on there are at most about `bytes` of entries.
    pub fn index_behind(&self, bytes: u64) -> u64 {
        let bound = self.bytes.saturating_sub(bytes);
        if bound == 0 {
            return self.state.cut.0;
        }
        self.marks.iter().find(|mark| mark.1 >= bound).map_or(self.state.last.0 + 1, |mark| mark.0)
    }

    pub fn take_write(&mut self) -> Option<GroupWrite> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        self.state.version += 1;
        let mut write = std::mem::take(&mut self.pending);
        write.group = self.group;
        write.state = Some(self.state.encode());
        write.row = self.state.row();
        Some(write)
    }

    pub fn term_at(&self, index: u64) -> Option<u64> {
        if index < self.state.cut.0 || index > self.state.last.0 {
            return None;
        }
        let next = self.terms.partition_point(|t| t.0 <= index);
        next.checked_sub(1).map(|place| self.terms[place].1)
    }

    /// Offers a snapshot to replicas that need entries which are forgotten.
    pub fn set_snapshot(&mut self, snapshot: Snapshot) {
        self.snapshot = Some(snapshot);
    }

    /// Says whether a snapshot is needed, since this was last asked.
    pub fn took_snapshot_wish(&self) -> bool {
        self.snapshot_wanted.swap(false, Ordering::Relaxed)
    }

    fn read(&self, low: u64, high: u64, max_bytes: usize) -> Result<Vec<Entry>> {
        let cached = self.cache.front().map_or(u64::MAX, |e| e.index);
        let mut entries = Vec::new();
        if low < cached {
            let end = high.min(cached);
            entries = self.disk.read(self.group, low, end, max_bytes)?;
            if entries.last().map(|e| e.index + 1) != Some(end) || end == high {
                return Ok(entries);
            }
        }
        let mut bytes: usize = entries.iter().map(entry_bytes).sum();
        let first = (low.max(cached) - cached) as usize;
        for entry in self.cache.range(first..(high - cached) as usize) {
            bytes += entry_bytes(entry);
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }
}

impl<D: Disk> Storage for GroupLog<D> {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(self.state.hard.clone(), self.state.conf.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.state.cut.0 {
            return Err(StorageError::Compacted.into());
        }
        assert!(high <= self.state.last.0 + 1, "entries {low} to {high} are not there");
        if low >= high {
            return Ok(Vec::new());
        }
        let max_bytes = max_size.into().map_or(usize::MAX, |bytes| bytes as usize);
        self.read(low, high, max_bytes).map_err(|error| StorageError::Other(Box::new(error)).into())
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match self.term_at(index) {
            Some(term) => Ok(term),
            None if index < self.state.cut.0 => Err(StorageError::Compacted.into()),
            None => Err(StorageError::Unavailable.into()),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.state.cut.0 + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.state.last.0)
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        match &self.snapshot {
            Some(snapshot) if snapshot.get_metadata().index >= request_index.max(self.state.cut.0) => {
                Ok(snapshot.clone())
            }
            _ => {
                self.snapshot_wanted.store(true, Ordering::Relaxed);
                Err(StorageError::SnapshotTemporarilyUnavailable.into())
            }
        }
    }
}

/// Gathers what groups have to write.
pub fn gather<'a, D: Disk>(groups: impl Iterator<Item = &'a mut GroupLog<D>>) -> Vec<GroupWrite> {
    groups.filter_map(GroupLog::take_write).collect()
}

/// Sorts the groups of an opened log by their ids.
pub fn by_id<D: Disk>(groups: Vec<GroupLog<D>>) -> BTreeMap<u64, GroupLog<D>> {
    groups.into_iter().map(|group| (group.id(), group)).collect()
}
