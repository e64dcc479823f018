//! What must hold in every simulated run. A broken rule is a text that says what happened.

use std::collections::{BTreeMap, HashMap, HashSet};

use raft::eraftpb::{ConfState, Entry, EntryType};

use super::random::mix;

pub type Checked = std::result::Result<(), String>;

/// Returns the digest of the data after one more entry.
pub fn digest_after(digest: u64, entry: &Entry) -> u64 {
    let data = entry.data.iter().fold(0, |hash, byte| mix(hash ^ u64::from(*byte)));
    mix(digest ^ mix(entry.index) ^ mix(entry.term << 32) ^ data)
}

#[derive(Clone, Copy)]
struct Committed {
    term: u64,
    digest: u64,
    /// The term in which a replica first said that it is committed, or a later one.
    seen_term: u64,
}

#[derive(Default)]
struct GroupRecord {
    leaders: BTreeMap<u64, u64>,         // term → replica
    committed: BTreeMap<u64, Committed>, // by index
    parts: HashMap<u64, u64>,            // an entry's data → its index
    confs: BTreeMap<u64, ConfState>,
    acknowledged_to: u64,
}

/// Sees everything that replicas and callers see, and compares. Owned by a run.
#[derive(Default)]
pub struct Checker {
    groups: BTreeMap<u64, GroupRecord>,
    refused: HashSet<u64>,              // last parts of calls that surely did nothing
    barriers: HashMap<u64, (u64, u64)>, // token → group, and what was acknowledged when it was asked
    pub acknowledged: Vec<(u64, u64, u64, u64)>, // group, token, parts, index
}

/// The data of an entry in the simulator: which call made it, and which part of the call it is.
pub fn part(token: u64, number: u64) -> u64 {
    token * 8 + number
}

fn part_of(entry: &Entry) -> Option<u64> {
    let is_ours = entry.get_entry_type() == EntryType::EntryNormal;
    let bytes = entry.data.get(..8).filter(|_| is_ours)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

impl Checker {
    fn group(&mut self, group: u64) -> &mut GroupRecord {
        self.groups.entry(group).or_default()
    }

    /// Election safety: a term has one leader. Leader completeness: its log has what was committed in
    /// earlier terms. `term_at` says what its log has.
    pub fn leads(
        &mut self,
        group: u64,
        replica: u64,
        term: u64,
        cut: u64,
        term_at: impl Fn(u64) -> Option<u64>,
    ) -> Checked {
        let record = self.group(group);
        let leader = *record.leaders.entry(term).or_insert(replica);
        if leader != replica {
            return Err(format!("two leaders in term {term}: {leader} and {replica}"));
        }
        for (index, entry) in record.committed.range(cut + 1..) {
            if entry.seen_term < term && term_at(*index) != Some(entry.term) {
                return Err(format!(
                    "{replica} leads in term {term} without entry {index} of term {}, committed by term {}",
                    entry.term, entry.seen_term
                ));
            }
        }
        Ok(())
    }

    /// State machine safety: every replica has the same entry at an index. Each part of a call is in the
    /// log at most once. Returns the digest of the data after the entry.
    pub fn committed(
        &mut self,
        group: u64,
        replica: u64,
        term: u64,
        entry: &Entry,
        digest: u64,
    ) -> std::result::Result<u64, String> {
        let refused = part_of(entry).is_some_and(|part| self.refused.contains(&part));
        if refused {
            return Err(format!("entry {} was answered with not leader, and is committed", entry.index));
        }
        let digest = digest_after(digest, entry);
        let record = self.group(group);
        let found = *record.committed.entry(entry.index).or_insert(Committed {
            term: entry.term,
            digest,
            seen_term: term,
        });
        if found.digest != digest {
            return Err(format!(
                "{replica} has another entry {} or another one before it: term {}, not {}",
                entry.index, entry.term, found.term
            ));
        }
        if let Some(part) = part_of(entry) {
            let index = *record.parts.entry(part).or_insert(entry.index);
            if index != entry.index {
                return Err(format!("a proposal is there twice: at {index} and {}", entry.index));
            }
        }
        Ok(digest)
    }

    /// A replica has the data of a snapshot.
    pub fn installed(&mut self, group: u64, index: u64, digest: u64) -> Checked {
        match self.group(group).committed.get(&index) {
            Some(entry) if entry.digest == digest => Ok(()),
            None if index <= 1 => Ok(()),
            _ => Err(format!("the snapshot of entry {index} has other data than was committed")),
        }
    }

    /// All replicas have the same members after the same entry.
    pub fn members(&mut self, group: u64, index: u64, conf: &ConfState) -> Checked {
        let mut conf = conf.clone();
        for list in [&mut conf.voters, &mut conf.learners, &mut conf.voters_outgoing] {
            list.sort_unstable();
        }
        let found = self.group(group).confs.entry(index).or_insert_with(|| conf.clone());
        if *found != conf {
            return Err(format!("other members after entry {index}: {conf:?}, not {found:?}"));
        }
        Ok(())
    }

    /// A caller was told that its entries are committed.
    pub fn acknowledged(&mut self, group: u64, token: u64, parts: u64, index: u64, term: u64) -> Checked {
        let record = self.group(group);
        for number in 0..parts {
            let at = index + number + 1 - parts;
            let is_there = record.parts.get(&part(token, number)) == Some(&at)
                && record.committed.get(&at).is_some_and(|entry| entry.term == term);
            if !is_there {
                return Err(format!("call {token} was acknowledged at entry {at}, which is not its own"));
            }
        }
        record.acknowledged_to = record.acknowledged_to.max(index);
        self.acknowledged.push((group, token, parts, index));
        Ok(())
    }

    /// A caller was told that its entries, or the last of them, surely are not in the log.
    pub fn refused(&mut self, group: u64, token: u64, parts: u64) -> Checked {
        let last = part(token, parts - 1);
        self.refused.insert(last);
        match self.group(group).parts.get(&last) {
            Some(index) => Err(format!("call {token} was answered with not leader, and is entry {index}")),
            None => Ok(()),
        }
    }

    pub fn barrier_begins(&mut self, group: u64, token: u64) {
        let acknowledged = self.group(group).acknowledged_to;
        self.barriers.insert(token, (group, acknowledged));
    }

    /// Reads behind a barrier see what was acknowledged before it.
    pub fn barrier_ends(&mut self, token: u64, index: u64, applied: u64) -> Checked {
        match self.barriers.remove(&token) {
            Some((_, acknowledged)) if index < acknowledged || applied < index => Err(format!(
                "a read barrier ended with entry {index}, applied {applied}, but {acknowledged} was \
                 acknowledged before it began"
            )),
            _ => Ok(()),
        }
    }

    pub fn newest(&self, group: u64) -> u64 {
        self.groups.get(&group).and_then(|g| g.committed.keys().next_back().copied()).unwrap_or(1)
    }

    pub fn acknowledged_to(&self, group: u64) -> u64 {
        self.groups.get(&group).map_or(0, |g| g.acknowledged_to)
    }

    /// Says whether data with this digest are those after the newest committed entry.
    pub fn is_newest(&self, group: u64, applied: u64, digest: u64) -> bool {
        let newest = self.groups.get(&group).and_then(|g| g.committed.iter().next_back());
        newest.is_none_or(|(index, entry)| *index == applied && entry.digest == digest)
    }
}
