//! What surrounds a driver: its options, what it calls, and what it says of itself.

use raft::eraftpb::{ConfState, Entry, Message};
use raft::StateRole;

use crate::state::Manifest;
use crate::waiting::Answer;

/// The largest entry. Larger batches are several entries of one call.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Faults that the simulator plants, to see that it finds them.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    SendBeforeSync,
    NoFence,
    ForwardedProposal,
    VoteNotPersisted,
}

/// Times are ticks, of 50 ms in a site.
#[derive(Debug, Clone)]
pub struct Options {
    /// A follower that hears nothing for this long stands for election; drawn anew up to twice as much.
    pub election_ticks: usize,
    pub heartbeat_ticks: usize,
    /// How often the fence is written.
    pub fence_ticks: u64,
    /// After this long without an answer a snapshot is sent again.
    pub snapshot_ticks: u64,
    /// The bytes of entries that are kept for replicas which need them, as far as they are flushed.
    pub keep_bytes: u64,
    /// The same while a snapshot is under way.
    pub keep_bytes_snapshot: u64,
    /// A number that no other run of this replica has. Names its questions to the leader.
    pub run: u64,
    #[cfg(test)]
    pub fault: Option<Fault>,
    /// In the simulator elections come after exactly this many ticks.
    #[cfg(test)]
    pub exact_election_ticks: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            election_ticks: 10,
            heartbeat_ticks: 2,
            fence_ticks: 20,
            snapshot_ticks: 600,
            keep_bytes: 256 << 20,
            keep_bytes_snapshot: 2 << 30,
            run: 0,
            #[cfg(test)]
            fault: None,
            #[cfg(test)]
            exact_election_ticks: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Follower,
    Candidate,
    Leader,
}

impl From<StateRole> for Role {
    fn from(role: StateRole) -> Self {
        match role {
            StateRole::Leader => Self::Leader,
            StateRole::Follower => Self::Follower,
            StateRole::Candidate | StateRole::PreCandidate => Self::Candidate,
        }
    }
}

/// What a driver calls. Calls come in the thread of the driver, which waits for them.
pub trait Outside {
    /// Sends a message to a peer, or loses it.
    fn send(&mut self, group: u64, message: Message);
    /// Takes entries that are committed: each once, in order, from behind the applied one on.
    fn committed(&mut self, group: u64, entries: Vec<Entry>);
    fn role_changed(&mut self, group: u64, role: Role, term: u64, leader: u64);
    fn answer(&mut self, token: u64, answer: Answer);
    /// Begins to take a snapshot; `Driver::snapshot_taken` hears of it.
    fn take_snapshot(&mut self, group: u64);
    /// Says whether the data of a snapshot is here. If not, begins to fetch it;
    /// `Driver::snapshot_fetched` hears of it.
    fn fetch_snapshot(&mut self, group: u64, manifest: &Manifest) -> bool;
    /// Replaces the data of the group by what was fetched; durable when it returns. A failure ends the
    /// driver.
    fn install_snapshot(&mut self, group: u64, manifest: &Manifest) -> std::result::Result<(), String>;
}

/// What `Driver::status` says of another replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub replica: u64,
    pub matched: u64,
    pub next: u64,
    pub is_active: bool,
    pub gets_snapshot: bool,
}

#[derive(Debug, Clone)]
pub struct Status {
    pub role: Role,
    pub leader: u64,
    pub term: u64,
    pub commit: u64,
    pub applied: u64,
    pub first: u64,
    pub last: u64,
    pub conf: ConfState,
    /// Of a leader only.
    pub peers: Vec<Peer>,
}
