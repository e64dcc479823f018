//! The replicated log of TopicDB: TiKV's `raft` and `raft-engine`, behind a C interface.
//!
//! `docs/internals/consensus.md` says how the parts work together.

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
pub mod log;
#[cfg(test)]
mod log_test;
pub mod outside;
#[cfg(test)]
mod sim;
pub mod site;
#[cfg(test)]
mod site_test;
pub mod state;
pub mod transport;
pub mod waiting;
