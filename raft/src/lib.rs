//! The replicated log of TopicDB: TiKV's `raft` and `raft-engine`, behind a C interface.
//!
//! `docs/internals/consensus.md` says how the parts work together.

// Clones may share what Cargo compiles, and Cargo knows a changed file only by its time. This names the clone, so
// that Cargo does not take the crate of another clone for that of this one. scripts/raft.sh sets it.
const _: Option<&str> = option_env!("TOPICDB_RAFT_CLONE");

pub mod alone;
mod answers;
mod bytes_io;
mod calls;
pub mod driver;
#[cfg(test)]
mod driver_test;
pub mod engine;
#[cfg(test)]
mod engine_test;
pub mod error;
pub mod fence;
mod ffi;
pub mod files;
mod incoming;
mod link;
pub mod log;
#[cfg(test)]
mod log_test;
mod lost_leaders;
mod messages;
pub mod outside;
pub mod requests;
#[cfg(test)]
mod requests_test;
#[cfg(test)]
mod sim;
pub mod site;
#[cfg(test)]
mod site_test;
pub mod state;
mod threads;
mod tls;
pub mod transport;
pub mod waiting;
