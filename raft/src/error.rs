//! What can go wrong in a site's log: each kind has its own name, and its text says what to do.

use std::fmt;

/// An error of the log. Whoever gets one from a write ends the replication of the site: what the
/// disk holds afterwards is not known until the log is opened again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogError {
    /// The disk failed: it is full, say, or an fsync did not succeed.
    Disk(String),
    /// The log has lost something that it once had, so this replica may never vote again.
    Damaged(String),
    /// The directory belongs to another replica.
    Foreign(String),
    /// The log was written by a newer version.
    TooNew(String),
    /// The caller asked for something that is not possible, and nothing was changed.
    Refused(String),
}

impl LogError {
    /// Makes the error of a damaged log, which says how the replica comes back.
    pub fn damaged(place: &str, what: impl fmt::Display) -> Self {
        Self::Damaged(format!(
            "{place}: {what}. This replica may have forgotten what it acknowledged, so it must not \
             vote again: its site has to come back as a new replica"
        ))
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(text)
            | Self::Damaged(text)
            | Self::Foreign(text)
            | Self::TooNew(text)
            | Self::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for LogError {}

pub type Result<T> = std::result::Result<T, LogError>;
