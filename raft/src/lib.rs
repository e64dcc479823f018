//! The replicated log of TopicDB: TiKV's `raft` and `raft-engine`, behind a C interface.
//!
//! `docs/internals/consensus.md` says how the parts work together.

mod bytes_io;
pub mod engine;
pub mod error;
pub mod fence;
pub mod log;
#[cfg(test)]
mod log_test;
