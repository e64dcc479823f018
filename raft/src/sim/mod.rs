//! A simulator of whole clusters: the driver and the log of a site, with a simulated network, clock and
//! disk, all decided by a seed. `docs/internals/consensus.md` says what it checks and how to run it.

mod callers;
mod check;
mod disk;
mod plan;
mod random;
mod seeds_test;
mod site;
mod stats;
mod troubles;
mod world;

pub use disk::SimDisk;
pub use stats::Stats;
pub use world::run;
