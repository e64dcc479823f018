//! Runs seeds, and plants faults to see that they are found.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

use super::{run, Stats};
use crate::outside::Fault;

fn number_of(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")),
        Err(_) => usual,
    }
}

/// Runs a seed; a panic of the engine is a broken rule, too.
fn run_seed(seed: u64, fault: Option<Fault>) -> Result<Stats, String> {
    let text = |panic: Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned())).unwrap_or_default()
    };
    match catch_unwind(AssertUnwindSafe(|| run(seed, fault))) {
        Ok(result) => result,
        Err(panic) => Err(format!("panic: {}", text(panic))),
    }
}

/// Runs seeds on threads, until all are done or one breaks a rule.
fn run_all(first: u64, count: u64, threads: u64) -> (Stats, Option<(u64, String)>) {
    let next = AtomicU64::new(0);
    let broken: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let work = || {
        let mut stats = Stats::default();
        while broken.lock().unwrap().is_none() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            if number > 0 && number.is_multiple_of(100_000) {
                println!("{number} seeds");
            }
            match run_seed(first + number, None) {
                Ok(run) => stats.add(&run),
                Err(text) => *broken.lock().unwrap() = Some((first + number, text)),
            }
        }
        stats
    };
    let mut all = Stats::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| all.add(&worker.join().unwrap()));
    });
    (all, broken.into_inner().unwrap())
}

#[test]
fn every_seed_holds() {
    let usual = if cfg!(debug_assertions) { 200 } else { 10_000 };
    let (first, count) = (number_of("TOPICDB_SIM_FIRST_SEED", 1), number_of("TOPICDB_SIM_SEEDS", usual));
    let (all, broken) = run_all(first, count, number_of("TOPICDB_SIM_THREADS", 1));
    if let Some((seed, text)) = broken {
        panic!(
            "seed {seed}: {text}\nAgain: TOPICDB_SIM_FIRST_SEED={seed} TOPICDB_SIM_SEEDS=1 \
             cargo test --profile sim every_seed_holds -- --nocapture"
        );
    }
    println!("{count} seeds from {first} on: {all}");
    if count >= 200 {
        assert!(all.reached().iter().all(|count| *count > 0), "some trouble never came about: {all}");
    }
}

#[test]
fn a_seed_is_the_same_run_each_time() {
    for seed in 1..=20 {
        let (first, second) = (run(seed, None).unwrap(), run(seed, None).unwrap());
        assert_eq!((first.trace, first.events), (second.trace, second.events), "seed {seed}");
    }
}

/// Returns the first seed that finds a fault, and what it says.
fn find(fault: Fault) -> (u64, String) {
    let found = (1..=1000).find_map(|seed| run_seed(seed, Some(fault)).err().map(|text| (seed, text)));
    let (seed, text) = found.unwrap_or_else(|| panic!("{fault:?} was not found in 1,000 seeds"));
    println!("{fault:?}: seed {seed}: {text}");
    (seed, text)
}

#[test]
fn messages_before_the_sync_are_found() {
    find(Fault::SendBeforeSync);
}

#[test]
fn a_log_without_a_fence_is_found() {
    find(Fault::NoFence);
}

#[test]
fn forwarded_proposals_are_found() {
    find(Fault::ForwardedProposal);
}

#[test]
fn a_vote_that_is_not_persisted_is_found() {
    find(Fault::VoteNotPersisted);
}
