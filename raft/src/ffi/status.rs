//! The status of a group, for C.

use std::ffi::c_int;

use crate::outside::{Role, Status};

#[repr(C)]
pub struct CStatus {
    pub role: c_int,
    pub leader: u64,
    pub term: u64,
    pub commit: u64,
    pub applied: u64,
    pub first: u64,
    pub last: u64,
    pub members: usize,
}

#[repr(C)]
pub struct CMember {
    pub replica: u64,
    pub matched: u64,
    pub is_voter: u8,
    pub is_leaving: u8,
    pub is_active: u8,
    pub gets_snapshot: u8,
}

pub fn code_of_role(role: Role) -> c_int {
    match role {
        Role::Follower => 0,
        Role::Candidate => 1,
        Role::Leader => 2,
    }
}

pub fn members_of(status: &Status) -> Vec<CMember> {
    let conf = &status.conf;
    let is_joint = !conf.voters_outgoing.is_empty();
    let mut ids: Vec<u64> =
        conf.voters.iter().chain(&conf.voters_outgoing).chain(&conf.learners).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    let member = |replica: u64| {
        let peer = status.peers.iter().find(|peer| peer.replica == replica);
        let is_incoming = conf.voters.contains(&replica);
        CMember {
            replica,
            matched: peer.map_or(0, |peer| peer.matched),
            is_voter: u8::from(is_incoming || conf.voters_outgoing.contains(&replica)),
            is_leaving: u8::from(is_joint && !is_incoming && !conf.learners.contains(&replica)),
            is_active: u8::from(peer.is_some_and(|peer| peer.is_active)),
            gets_snapshot: u8::from(peer.is_some_and(|peer| peer.gets_snapshot)),
        }
    };
    ids.into_iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_leave_are_told() {
        let mut status = Status {
            role: Role::Follower,
            leader: 1,
            term: 2,
            commit: 3,
            applied: 3,
            first: 1,
            last: 3,
            conf: raft::eraftpb::ConfState::from((vec![1, 3], vec![4])),
            peers: Vec::new(),
        };
        status.conf.voters_outgoing = vec![1, 2];
        let found: Vec<_> =
            members_of(&status).iter().map(|m| (m.replica, m.is_voter, m.is_leaving)).collect();
        assert_eq!(found, [(1, 1, 0), (2, 1, 1), (3, 1, 0), (4, 0, 0)]);
    }
}
