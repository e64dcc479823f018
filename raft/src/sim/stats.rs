//! Counts of what came about in simulated runs, so that one sees whether the troubles do.

use std::fmt;

/// What came about.
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
    fn counts(&mut self) -> [&mut u64; 13] {
        [
            &mut self.acknowledged,
            &mut self.refused,
            &mut self.unknown,
            &mut self.reads,
            &mut self.elections,
            &mut self.crashes,
            &mut self.failed_writes,
            &mut self.snapshots,
            &mut self.changes,
            &mut self.transfers,
            &mut self.damaged,
            &mut self.next_behind,
            &mut self.events,
        ]
    }

    pub fn add(&mut self, other: &Stats) {
        let mut other = other.clone();
        for (sum, count) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
    }

    /// Returns the counts that are above 0 in enough runs.
    pub fn reached(&self) -> Vec<u64> {
        let mut own = self.clone();
        own.counts()[..11].iter().map(|count| **count).collect()
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events, {} elections, {} crashes, {} failed writes, {} damaged logs, {} snapshots, \
             {} changes of members, {} transfers; calls: {} acknowledged, {} refused, {} unknown, {} reads; \
             next ≤ matched {} times",
            self.events,
            self.elections,
            self.crashes,
            self.failed_writes,
            self.damaged,
            self.snapshots,
            self.changes,
            self.transfers,
            self.acknowledged,
            self.refused,
            self.unknown,
            self.reads,
            self.next_behind,
        )
    }
}
