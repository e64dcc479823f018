//! Tests of the log on files that fail, and that tell what is on disk.

use std::io::{Error, Result as IoResult, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use raft::eraftpb::{ConfState, Entry};
use raft_engine::env::{DefaultFileSystem, FileSystem, Handle, Permission, WriteExt};
use tempfile::TempDir;

use crate::driver::Driver;
use crate::engine::{EngineDisk, EngineOptions};
use crate::error::{LogError, Result};
use crate::fence::Identity;
use crate::log::{gather, GroupLog, Log, LogOptions};
use crate::outside::Options;

const IDENTITY: Identity = Identity { site: [3; 16], incarnation: 1, replica: 1 };

/// What happens to files: bytes that were written since the last fsync, and what fails.
#[derive(Default)]
struct Watch {
    unsynced: AtomicU64,
    syncs: AtomicU64,
    fails_write: AtomicBool,
    fails_sync: AtomicBool,
}

struct WatchedFiles(Arc<Watch>);

/// An open file; the engine fsyncs by it.
struct WatchedHandle {
    inner: Arc<<DefaultFileSystem as FileSystem>::Handle>,
    watch: Arc<Watch>,
}

impl Handle for WatchedHandle {
    fn truncate(&self, offset: usize) -> IoResult<()> {
        self.inner.truncate(offset)
    }
    fn file_size(&self) -> IoResult<usize> {
        self.inner.file_size()
    }
    fn sync(&self) -> IoResult<()> {
        if self.watch.fails_sync.load(Ordering::Relaxed) {
            return Err(Error::other("an fsync failed"));
        }
        self.inner.sync()?;
        self.watch.unsynced.store(0, Ordering::Relaxed);
        self.watch.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl WatchedFiles {
    fn watch(&self, handle: <DefaultFileSystem as FileSystem>::Handle) -> WatchedHandle {
        WatchedHandle { inner: Arc::new(handle), watch: self.0.clone() }
    }
}

impl FileSystem for WatchedFiles {
    type Handle = WatchedHandle;
    type Reader = <DefaultFileSystem as FileSystem>::Reader;
    type Writer = WatchedWriter;

    fn create<P: AsRef<Path>>(&self, path: P) -> IoResult<WatchedHandle> {
        DefaultFileSystem.create(path).map(|handle| self.watch(handle))
    }
    fn open<P: AsRef<Path>>(&self, path: P, permission: Permission) -> IoResult<WatchedHandle> {
        DefaultFileSystem.open(path, permission).map(|handle| self.watch(handle))
    }
    fn delete<P: AsRef<Path>>(&self, path: P) -> IoResult<()> {
        DefaultFileSystem.delete(path)
    }
    fn rename<P: AsRef<Path>>(&self, from: P, to: P) -> IoResult<()> {
        DefaultFileSystem.rename(from, to)
    }
    fn new_reader(&self, handle: Arc<WatchedHandle>) -> IoResult<Self::Reader> {
        DefaultFileSystem.new_reader(handle.inner.clone())
    }
    fn new_writer(&self, handle: Arc<WatchedHandle>) -> IoResult<WatchedWriter> {
        let inner = DefaultFileSystem.new_writer(handle.inner.clone())?;
        Ok(WatchedWriter { inner, watch: self.0.clone() })
    }
}

struct WatchedWriter {
    inner: <DefaultFileSystem as FileSystem>::Writer,
    watch: Arc<Watch>,
}

impl Write for WatchedWriter {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        if self.watch.fails_write.load(Ordering::Relaxed) {
            return Err(Error::other("the disk is full"));
        }
        let written = self.inner.write(bytes)?;
        self.watch.unsynced.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }
    fn flush(&mut self) -> IoResult<()> {
        self.inner.flush()
    }
}

impl Seek for WatchedWriter {
    fn seek(&mut self, to: SeekFrom) -> IoResult<u64> {
        self.inner.seek(to)
    }
}

impl WriteExt for WatchedWriter {
    fn truncate(&mut self, offset: usize) -> IoResult<()> {
        self.inner.truncate(offset)
    }
    fn allocate(&mut self, offset: usize, size: usize) -> IoResult<()> {
        self.inner.allocate(offset, size)
    }
}

type WatchedLog = (Log<EngineDisk<WatchedFiles>>, Vec<GroupLog<EngineDisk<WatchedFiles>>>);

fn open(folder: &TempDir, watch: &Arc<Watch>) -> Result<WatchedLog> {
    let options = EngineOptions { file_bytes: 64 << 10, purge_bytes: 64 << 10 };
    let directory = folder.path().join("raft");
    let disk = EngineDisk::open_on(WatchedFiles(watch.clone()), &directory, &IDENTITY, &options)?;
    Log::open(disk, IDENTITY, &LogOptions::default())
}

fn entry(index: u64) -> Entry {
    Entry { index, term: 1, data: vec![index as u8; 3000].into(), ..Entry::default() }
}

fn voters() -> ConfState {
    ConfState::from((vec![1], vec![]))
}

#[test]
fn a_write_is_on_disk_when_it_returns() {
    let (folder, watch) = (TempDir::new().unwrap(), Arc::new(Watch::default()));
    let (mut log, _) = open(&folder, &watch).unwrap();
    let mut groups = [log.create(1, 1, voters()).unwrap(), log.create(2, 1, voters()).unwrap()];
    let before = watch.syncs.load(Ordering::Relaxed);
    for index in 2..100 {
        let syncs = watch.syncs.load(Ordering::Relaxed);
        groups.iter_mut().for_each(|group| group.append(vec![entry(index)]));
        log.write(&gather(groups.iter_mut())).unwrap();
        assert_eq!(watch.unsynced.load(Ordering::Relaxed), 0, "entry {index}");
        assert!(watch.syncs.load(Ordering::Relaxed) > syncs);
    }
    let syncs = watch.syncs.load(Ordering::Relaxed) - before;
    assert!(syncs < 98 * 3 / 2, "one for both groups, and some for new files, not {syncs}");
}

#[test]
fn a_failed_write_or_fsync_is_an_error_and_the_log_opens_again() {
    for fails_sync in [false, true] {
        let (folder, watch) = (TempDir::new().unwrap(), Arc::new(Watch::default()));
        let (mut log, _) = open(&folder, &watch).unwrap();
        let mut group = log.create(1, 1, voters()).unwrap();
        group.append((2..50).map(entry).collect());
        log.write(&gather([&mut group].into_iter())).unwrap();
        let fails = if fails_sync { &watch.fails_sync } else { &watch.fails_write };
        fails.store(true, Ordering::Relaxed);
        group.append(vec![entry(50)]);
        let error = log.write(&gather([&mut group].into_iter())).unwrap_err();
        assert!(matches!(error, LogError::Disk(_)), "{error}");
        assert!(error.to_string().contains("raft"), "{error}");
        assert!(log.write(&gather([&mut group].into_iter())).is_ok(), "there is nothing to write");
        group.append(vec![entry(51)]);
        fails.store(false, Ordering::Relaxed);
        assert!(log.write(&gather([&mut group].into_iter())).is_err(), "it does not go on");
        fails.store(true, Ordering::Relaxed);
        drop((log, group)); // on a disk that still fails
        fails.store(false, Ordering::Relaxed);
        let (_, groups) = open(&folder, &watch).unwrap();
        assert!((49..=50).contains(&groups[0].last()), "{}", groups[0].last());
    }
}

#[test]
fn a_driver_on_a_disk_that_fails_ends() {
    let (folder, watch) = (TempDir::new().unwrap(), Arc::new(Watch::default()));
    let (log, _) = open(&folder, &watch).unwrap();
    let mut driver = Driver::new(log, Options::default());
    driver.create(1, &[1]).unwrap();
    watch.fails_sync.store(true, Ordering::Relaxed);
    assert!(matches!(driver.create(2, &[1]), Err(LogError::Disk(_))));
    assert!(driver.tick().is_err());
    watch.fails_sync.store(false, Ordering::Relaxed);
    assert!(driver.tick().is_err(), "it does not go on");
}
