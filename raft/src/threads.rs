//! What the threads of the network begin with, and share.

use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;

use crate::error::{LogError, Result};

pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let made = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    made.map_err(|error| LogError::Disk(format!("cannot start a thread: {error}")))
}

/// Locks a mutex, also after a panic of another thread that held it.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
