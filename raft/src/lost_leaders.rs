//! Finds leaders that are gone: another replica leads in their place, and nothing comes from them.
//!
//! A machine that vanishes closes no connection, and neither does a process that is stopped. Whoever waits for
//! an answer from there would wait for as long as its patience lasts, though another replica leads long since.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Owned by the thread of a site, and used by no other.
#[derive(Default)]
pub struct LostLeaders {
    leaders: HashMap<u64, u64>,      // the last one of each group
    heard: HashMap<u64, Instant>,    // when a message came from a replica
    replaced: HashMap<u64, Instant>, // since when another one leads in its place
}

impl LostLeaders {
    /// A message has come from a replica.
    pub fn heard_from(&mut self, replica: u64, now: Instant) {
        self.heard.insert(replica, now);
        self.replaced.remove(&replica);
    }

    /// A replica leads a group, or nobody is known to (0).
    pub fn leads(&mut self, group: u64, leader: u64, now: Instant) {
        if leader == 0 {
            return;
        }
        let before = self.leaders.insert(group, leader);
        if let Some(before) = before.filter(|before| *before != leader) {
            self.replaced.insert(before, now);
        }
    }

    /// The site takes no part in a group any more.
    pub fn forget(&mut self, group: u64) {
        self.leaders.remove(&group);
    }

    /// Returns the leaders that were replaced and have been silent for so long, each once.
    pub fn take(&mut self, silence: Duration, now: Instant) -> Vec<u64> {
        let last = |replica: &u64, since: &Instant| *self.heard.get(replica).unwrap_or(since);
        let is_lost = |(replica, since): &(&u64, &Instant)| now - last(replica, since) >= silence;
        let lost: Vec<u64> = self.replaced.iter().filter(is_lost).map(|(replica, _)| *replica).collect();
        self.replaced.retain(|replica, _| !lost.contains(replica));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_millis(500);

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_leader_that_is_silent_when_another_one_leads_is_lost_at_once() {
        let (mut leaders, start) = (LostLeaders::default(), Instant::now());
        leaders.leads(7, 1, start);
        leaders.heard_from(1, start);
        leaders.leads(7, 0, at(start, 600));
        assert!(leaders.take(SILENCE, at(start, 700)).is_empty(), "nobody leads in its place yet");
        leaders.leads(7, 2, at(start, 800));
        assert_eq!(leaders.take(SILENCE, at(start, 800)), [1]);
        assert!(leaders.take(SILENCE, at(start, 900)).is_empty());
    }

    #[test]
    fn a_leader_that_was_heard_lately_is_lost_once_it_is_silent_for_long() {
        let (mut leaders, start) = (LostLeaders::default(), Instant::now());
        leaders.leads(7, 1, start);
        leaders.heard_from(1, at(start, 400));
        leaders.leads(7, 2, at(start, 500));
        assert!(leaders.take(SILENCE, at(start, 899)).is_empty());
        assert_eq!(leaders.take(SILENCE, at(start, 900)), [1]);
    }

    #[test]
    fn a_leader_that_says_something_afterwards_is_there() {
        let (mut leaders, start) = (LostLeaders::default(), Instant::now());
        leaders.leads(7, 1, start);
        leaders.leads(7, 2, at(start, 500));
        leaders.heard_from(1, at(start, 501));
        assert!(leaders.take(SILENCE, at(start, 5_000)).is_empty());
    }

    #[test]
    fn whoever_leads_again_in_another_term_was_not_replaced() {
        let (mut leaders, start) = (LostLeaders::default(), Instant::now());
        leaders.leads(7, 1, start);
        leaders.leads(7, 0, start);
        leaders.leads(7, 1, start);
        leaders.leads(8, 2, start); // of another group
        leaders.forget(7);
        leaders.leads(7, 2, start);
        assert!(leaders.take(SILENCE, at(start, 5_000)).is_empty());
    }
}
