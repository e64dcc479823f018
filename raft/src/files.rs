//! The files of raft-engine, which it can also close on a disk that fails.
//!
//! The engine fsyncs its files when it closes them, and panics if that fails: two such panics at once would
//! abort the process. So they are closed without an fsync. Nothing is lost by that: each write of the log
//! has fsynced already, and so has what removes old files.

use std::io::Result;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use raft_engine::env::{FileSystem, Handle, Permission};

/// Owned by an engine. `is_closing` is set by whoever closes it, when nothing else uses it any more.
pub struct Files<F> {
    inner: F,
    is_closing: Arc<AtomicBool>,
}

impl<F> Files<F> {
    pub fn new(inner: F, is_closing: Arc<AtomicBool>) -> Self {
        Self { inner, is_closing }
    }
}

/// An open file; the engine fsyncs by it.
pub struct OpenFile<H> {
    inner: Arc<H>,
    is_closing: Arc<AtomicBool>,
}

impl<H: Handle> Handle for OpenFile<H> {
    fn truncate(&self, offset: usize) -> Result<()> {
        self.inner.truncate(offset)
    }

    fn file_size(&self) -> Result<usize> {
        self.inner.file_size()
    }

    fn sync(&self) -> Result<()> {
        if self.is_closing.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.inner.sync()
    }
}

impl<F: FileSystem> Files<F> {
    fn opened(&self, handle: F::Handle) -> OpenFile<F::Handle> {
        OpenFile { inner: Arc::new(handle), is_closing: self.is_closing.clone() }
    }
}

impl<F: FileSystem> FileSystem for Files<F> {
    type Handle = OpenFile<F::Handle>;
    type Reader = F::Reader;
    type Writer = F::Writer;

    fn create<P: AsRef<Path>>(&self, path: P) -> Result<Self::Handle> {
        self.inner.create(path).map(|handle| self.opened(handle))
    }

    fn open<P: AsRef<Path>>(&self, path: P, permission: Permission) -> Result<Self::Handle> {
        self.inner.open(path, permission).map(|handle| self.opened(handle))
    }

    fn delete<P: AsRef<Path>>(&self, path: P) -> Result<()> {
        self.inner.delete(path)
    }

    fn rename<P: AsRef<Path>>(&self, from: P, to: P) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn new_reader(&self, handle: Arc<Self::Handle>) -> Result<Self::Reader> {
        self.inner.new_reader(handle.inner.clone())
    }

    fn new_writer(&self, handle: Arc<Self::Handle>) -> Result<Self::Writer> {
        self.inner.new_writer(handle.inner.clone())
    }
}
