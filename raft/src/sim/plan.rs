//! What happens in a simulated run: each seed has other troubles, and most have only some of them, so
//! that rare ones meet.

use super::random::Random;

/// Times are milliseconds, chances per thousand.
#[derive(Debug, Clone)]
pub struct Plan {
    pub voters: u64,
    pub spares: u64,
    pub groups: u64,
    pub length: u64,
    pub delay: (u64, u64),
    pub late: u64, // messages that take ten times as long
    pub loss: u64,
    pub twice: u64,
    pub fails: u64,   // of each write
    pub restart: u64, // at most, after a crash
    pub trouble_every: u64,
    pub cuts: bool,
    pub crashes: bool,
    pub crashes_of_leader: bool,
    pub pauses: bool,
    pub damage: bool,
    pub members: bool,
    pub transfers: bool,
    pub snapshots: bool, // the log is cut behind what is flushed, needed or not
    pub slow_apply: u64,
    pub election_spread: u64, // of election timeouts, in ticks
    pub dies_after_promise: u64,
    pub call_every: u64,
}

impl Plan {
    pub fn new(random: &mut Random) -> Self {
        let mut some = |per_mille: u64, value: u64| if random.chance(per_mille) { value } else { 0 };
        let (late, loss, twice) = (some(400, 60), some(500, 80), some(500, 60));
        let fails = some(500, 25);
        let slow_apply = some(300, 400);
        let dies_after_promise = some(300, 20);
        Self {
            voters: *random.pick(&[3, 3, 3, 3, 3, 5, 5, 2, 1]).unwrap_or(&3),
            spares: 2,
            groups: 1 + u64::from(random.chance(150)),
            length: random.between(2000, 7000),
            delay: (1, random.between(5, 60)),
            late,
            loss,
            twice,
            fails,
            restart: *random.pick(&[30, 200, 1000, 3000]).unwrap_or(&200),
            trouble_every: *random.pick(&[150, 400, 1000]).unwrap_or(&400),
            cuts: random.chance(600),
            crashes: random.chance(700),
            crashes_of_leader: random.chance(400),
            pauses: random.chance(300),
            damage: random.chance(350),
            members: random.chance(300),
            transfers: random.chance(300),
            snapshots: random.chance(400),
            slow_apply,
            election_spread: *random.pick(&[1, 3, 11]).unwrap_or(&11),
            dies_after_promise,
            call_every: *random.pick(&[20, 60, 150]).unwrap_or(&60),
        }
    }

    /// Says whether every voter of the run stays one, with its disk.
    pub fn keeps_voters(&self) -> bool {
        !self.members && !self.damage
    }
}
