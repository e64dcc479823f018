//! The disk of a site's log: raft-engine, and the files `fence` and `identity` beside it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use raft::eraftpb::Entry;
use raft_engine::env::{DefaultFileSystem, FileSystem};
use raft_engine::internals::{EventListener, FileId, FilePipeLog};
use raft_engine::{Command, Config, Engine, LogBatch, MessageExt, ReadableSize, RecoveryMode};

use crate::error::{LogError, Result};
use crate::fence::{Fence, Identity};
use crate::files::Files;
use crate::log::{Disk, GroupWrite};
use crate::site::text_of;

const STATE_KEY: &[u8] = b"state";

struct Entries;

impl MessageExt for Entries {
    type Entry = Entry;
    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

/// Notes when a log file is begun.
struct NewFiles(AtomicBool);

impl EventListener for NewFiles {
    fn post_new_log_file(&self, _: FileId) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The sizes of the files. Tests make them small.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    pub file_bytes: u64,
    /// Old files go when there are more than this many bytes.
    pub purge_bytes: u64,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, purge_bytes: 512 << 20 }
    }
}

/// A log on disk. One process has it open at a time; any of its threads may call it.
pub struct EngineDisk<F: FileSystem + 'static = DefaultFileSystem> {
    directory: PathBuf,
    place: String,
    engine: Engine<Files<F>, FilePipeLog<Files<F>>>,
    has_failed: AtomicBool,
    is_closing: Arc<AtomicBool>,
    new_files: Arc<NewFiles>,
}

impl EngineDisk {
    /// Opens the log of a replica in its directory, or makes it. Does not compare it with the fence:
    /// `Log::open` does.
    pub fn open(directory: &Path, identity: &Identity, options: &EngineOptions) -> Result<Self> {
        Self::open_on(DefaultFileSystem, directory, identity, options)
    }
}

impl<F: FileSystem + 'static> EngineDisk<F> {
    /// The same, with another way to files.
    pub fn open_on(files: F, directory: &Path, identity: &Identity, options: &EngineOptions) -> Result<Self> {
        let place = directory.display().to_string();
        check_identity(directory, &place, identity)?;
        let config = Config {
            dir: directory.join("log").display().to_string(),
            recovery_mode: RecoveryMode::TolerateTailCorruption,
            batch_compression_threshold: ReadableSize(0), // pages are compressed already
            target_file_size: ReadableSize(options.file_bytes),
            purge_threshold: ReadableSize(options.purge_bytes),
            ..Config::default()
        };
        let new_files = Arc::new(NewFiles(AtomicBool::new(false)));
        let is_closing = Arc::new(AtomicBool::new(false));
        let files = Files::new(files, is_closing.clone());
        let opened = catch_unwind(AssertUnwindSafe(|| {
            Engine::open_with(config, Arc::new(files), vec![new_files.clone()])
        }));
        let engine = match opened {
            Ok(Ok(engine)) => engine,
            // `Other` says that another process has it open.
            Ok(Err(error @ (raft_engine::Error::Io(_) | raft_engine::Error::Other(_)))) => {
                return Err(disk_error(&place, "open the log", error))
            }
            Ok(Err(error)) => return Err(LogError::damaged(&place, error)),
            Err(_) => return Err(LogError::damaged(&place, "the records of the log do not fit together")),
        };
        // The engine does so when it begins a further file, but not for the first ones.
        sync_directory(&directory.join("log"))
            .map_err(|error| disk_error(&place, "make the files of the log durable", error))?;
        Ok(Self {
            directory: directory.to_owned(),
            place,
            engine,
            new_files,
            has_failed: AtomicBool::new(false),
            is_closing,
        })
    }

    /// Removes old files. A thread of its own calls this, about once a second.
    pub fn purge(&self) -> Result<()> {
        if self.has_failed.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.change("remove old files of the log", || self.engine.purge_expired_files())
    }

    /// Has the engine change files. It panics if an fsync fails. After a failure nothing more is written.
    fn change<T>(&self, doing: &str, change: impl FnOnce() -> raft_engine::Result<T>) -> Result<()> {
        let failed = match catch_unwind(AssertUnwindSafe(change)) {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => text_of(&*panic),
        };
        self.has_failed.store(true, Ordering::SeqCst);
        Err(disk_error(&self.place, doing, failed))
    }
}

impl<F: FileSystem + 'static> Drop for EngineDisk<F> {
    fn drop(&mut self) {
        // Nobody else uses the engine any more, which is dropped next.
        self.is_closing.store(true, Ordering::SeqCst);
    }
}

impl<F: FileSystem + 'static> Disk for EngineDisk<F> {
    fn write(&self, writes: &[GroupWrite]) -> Result<()> {
        let mut batch = LogBatch::default();
        let mut add = |write: &GroupWrite| -> raft_engine::Result<()> {
            let Some(state) = &write.state else {
                batch.add_command(write.group, Command::Clean);
                return Ok(());
            };
            if let Some(cut) = write.cut {
                batch.add_command(write.group, Command::Compact { index: cut + 1 });
            }
            batch.add_entries::<Entries>(write.group, &write.entries)?;
            batch.put(write.group, STATE_KEY.to_vec(), state.clone())
        };
        writes.iter().try_for_each(&mut add).map_err(|error| disk_error(&self.place, "write", error))?;
        if self.has_failed.load(Ordering::SeqCst) {
            return Err(disk_error(
                &self.place,
                "write to the log",
                "a write before has failed: open it again",
            ));
        }
        self.change("write to the log", || self.engine.write(&mut batch, true))
    }

    fn states(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        let groups = self.engine.raft_groups().into_iter();
        let state = |group| match self.engine.get(group, STATE_KEY) {
            Some(state) => Ok((group, state)),
            None => Err(LogError::damaged(&self.place, format!("group {group} has no state"))),
        };
        groups.map(state).collect()
    }

    fn read(&self, group: u64, low: u64, high: u64, max_bytes: usize) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let read =
            || self.engine.fetch_entries_to::<Entries>(group, low, high, Some(max_bytes), &mut entries);
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(Ok(count)) if count > 0 => Ok(entries),
            Ok(Err(raft_engine::Error::Io(error))) => Err(disk_error(&self.place, "read the log", error)),
            Ok(Err(error)) => {
                let what = format!("group {group}: entries from {low} on cannot be read: {error}");
                Err(LogError::damaged(&self.place, what))
            }
            Ok(Ok(_)) | Err(_) => {
                let what = format!("group {group}: entry {low} is missing");
                Err(LogError::damaged(&self.place, what))
            }
        }
    }

    fn write_fence(&self, fence: &[u8]) -> Result<()> {
        replace_file(&self.directory, "fence", fence)
            .map_err(|error| disk_error(&self.place, "write the fence", error))
    }

    fn read_fence(&self) -> Result<Option<Vec<u8>>> {
        read_file(&self.directory.join("fence"))
            .map_err(|error| disk_error(&self.place, "read the fence", error))
    }

    fn took_new_file(&self) -> bool {
        self.new_files.0.swap(false, Ordering::Relaxed)
    }

    fn place(&self) -> &str {
        &self.place
    }
}

fn disk_error(place: &str, doing: &str, error: impl std::fmt::Display) -> LogError {
    LogError::Disk(format!("{place}: cannot {doing}: {error}"))
}

/// Compares the identity in the directory with the replica that opens it, or begins a new log.
fn check_identity(directory: &Path, place: &str, identity: &Identity) -> Result<()> {
    let found = read_file(&directory.join("identity"))
        .map_err(|error| disk_error(place, "read the identity", error))?;
    let Some(bytes) = found else {
        if directory.join("log").exists() {
            return Err(LogError::damaged(place, "the identity of the replica is gone"));
        }
        return begin(directory, identity)
            .map_err(|error| disk_error(place, "make the directory of the log", error));
    };
    let found = Identity::decode(place, &bytes)?;
    if found == *identity {
        return Ok(());
    }
    Err(LogError::Foreign(format!(
        "{place}: this is the log of replica {}, incarnation {}, and replica {}, incarnation {} opens it. \
         Name the directory of that replica, or an empty one for a new replica",
        found.replica, found.incarnation, identity.replica, identity.incarnation
    )))
}

/// Begins the directory of a new replica. The identity comes last: without it nothing has begun.
fn begin(directory: &Path, identity: &Identity) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    replace_file(directory, "fence", &Fence::default().encode(identity))?;
    replace_file(directory, "identity", &identity.encode())?;
    // A log whose name is lost would be begun again, and forget how it has voted.
    directory.canonicalize()?.parent().map_or(Ok(()), sync_directory)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts bytes in the place of a file in one step, durably.
fn replace_file(directory: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = directory.join(format!("{name}.new"));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, directory.join(name))?;
    sync_directory(directory)
}
