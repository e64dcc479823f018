//! A disk in memory that survives the crashes of its site, and may fail in the middle of a write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use raft::eraftpb::Entry;

use super::random::Random;
use crate::error::{LogError, Result};
use crate::log::{Disk, GroupWrite};

#[derive(Clone, Default)]
struct GroupContent {
    state: Vec<u8>,
    entries: BTreeMap<u64, Entry>,
    cut: u64,
}

type Content = BTreeMap<u64, GroupContent>;

struct Inner {
    random: Random,
    fails_per_mille: u64,
    now: Content,
    fence: Option<Vec<u8>>,
    older: Content,        // as it once was
    older_is_fenced: bool, // the fence has writes that `older` lacks
    writes_since_older: u64,
    new_file: bool,
}

/// Clones are the same disk. Owned by a simulated site; its log has a clone.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<Inner>>);

impl SimDisk {
    /// Makes an empty disk with the fence of a log that has nothing.
    pub fn new(seed: u64, fence: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            random: Random::new(seed),
            fails_per_mille: 0,
            now: Content::new(),
            fence: Some(fence),
            older: Content::new(),
            older_is_fenced: false,
            writes_since_older: 0,
            new_file: false,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Says how often a write fails, which may have taken effect or not: the disk is full, an fsync
    /// fails, or the machine loses its power in the middle.
    pub fn set_fails(&self, per_mille: u64) {
        self.inner().fails_per_mille = per_mille;
    }

    /// Loses the newest records of the log, as if one among them were damaged. Does so only if the fence
    /// has some of them, and says whether it did.
    pub fn lose_end(&self) -> bool {
        let mut inner = self.inner();
        let loses = inner.older_is_fenced && !inner.older.is_empty();
        if loses {
            inner.now = inner.older.clone();
        }
        loses
    }

    /// Says whether an entry is on this disk, or is cut because it was applied.
    pub fn has(&self, group: u64, index: u64, term: u64) -> bool {
        self.inner().now.get(&group).is_some_and(|content| {
            index <= content.cut || content.entries.get(&index).is_some_and(|e| e.term == term)
        })
    }

    pub fn entry(&self, group: u64, index: u64) -> Option<Entry> {
        self.inner().now.get(&group)?.entries.get(&index).cloned()
    }
}

fn failure(what: &str) -> LogError {
    LogError::Disk(format!("simulated: the {what} failed"))
}

impl Disk for SimDisk {
    fn write(&self, writes: &[GroupWrite]) -> Result<()> {
        let inner = &mut *self.inner();
        let fails = inner.random.chance(inner.fails_per_mille);
        if fails && inner.random.chance(500) {
            return Err(failure("write"));
        }
        inner.writes_since_older += 1;
        if inner.random.chance(30) || (inner.older_is_fenced && inner.writes_since_older > 60) {
            inner.older = inner.now.clone();
            (inner.older_is_fenced, inner.writes_since_older) = (false, 0);
        }
        for write in writes {
            let Some(state) = &write.state else {
                inner.now.remove(&write.group);
                continue;
            };
            let content = inner.now.entry(write.group).or_default();
            content.state.clone_from(state);
            if let Some(cut) = write.cut {
                content.entries = content.entries.split_off(&(cut + 1));
                content.cut = cut;
            }
            if let Some(first) = write.entries.first() {
                content.entries.split_off(&first.index);
            }
            content.entries.extend(write.entries.iter().map(|e| (e.index, e.clone())));
        }
        inner.new_file |= inner.random.chance(20);
        if fails {
            return Err(failure("fsync"));
        }
        Ok(())
    }

    fn states(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        Ok(self.inner().now.iter().map(|(group, content)| (*group, content.state.clone())).collect())
    }

    fn read(&self, group: u64, low: u64, high: u64, max_bytes: usize) -> Result<Vec<Entry>> {
        let inner = self.inner();
        let content = inner.now.get(&group);
        let mut entries = Vec::new();
        let mut bytes = 0;
        for (_, entry) in content.into_iter().flat_map(|content| content.entries.range(low..high)) {
            bytes += entry.data.len() + 32;
            if bytes > max_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        match entries.first() {
            Some(first) if first.index == low => Ok(entries),
            _ => Err(LogError::damaged("simulated", format!("entry {low} is missing"))),
        }
    }

    fn write_fence(&self, fence: &[u8]) -> Result<()> {
        let mut inner = self.inner();
        let fails = inner.fails_per_mille;
        if inner.random.chance(fails) {
            return Err(failure("write of the fence"));
        }
        inner.fence = Some(fence.to_vec());
        inner.older_is_fenced = inner.writes_since_older > 0;
        Ok(())
    }

    fn read_fence(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.inner().fence.clone())
    }

    fn took_new_file(&self) -> bool {
        std::mem::take(&mut self.inner().new_file)
    }

    fn place(&self) -> &str {
        "simulated"
    }
}
