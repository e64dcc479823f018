//! The callbacks of a client, and what their threads may do.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};

use raft::eraftpb::{Entry, EntryType};

use crate::error::LogError;
use crate::ffi::requests::CAnswer;
use crate::ffi::status::code_of_role;
use crate::ffi::values::{c_text, code_of, Bytes};
use crate::outside::Role;
use crate::site::Client;
use crate::state::Manifest;

thread_local! {
    /// Whether this is the thread of a site, which may not wait for itself.
    static IS_SITE: Cell<bool> = const { Cell::new(false) };
    /// Whether this is a thread that answers requests, which may not close the site that waits for it.
    static ANSWERS: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread calls a client for an answer.
pub fn begin_to_answer() {
    ANSWERS.set(true);
}

pub fn may_wait() -> bool {
    !IS_SITE.get()
}

pub fn may_close() -> bool {
    may_wait() && !ANSWERS.get()
}

#[repr(C)]
pub struct CEntry {
    index: u64,
    term: u64,
    data: Bytes,
    pub owner: *const bytes::Bytes,
}

impl CEntry {
    /// Returns an entry for as long as `data` is there. `is_ours`: it is one of the client.
    pub fn of(index: u64, term: u64, data: &bytes::Bytes, is_ours: bool) -> Self {
        Self { index, term, data: Bytes::of(if is_ours { data } else { &[] }), owner: data }
    }
}

#[repr(C)]
#[derive(Clone)]
pub struct CClient {
    pub context: *mut c_void,
    committed: Option<unsafe extern "C" fn(*mut c_void, u64, *const CEntry, usize)>,
    role_changed: Option<unsafe extern "C" fn(*mut c_void, u64, c_int, u64, u64)>,
    take_snapshot: Option<unsafe extern "C" fn(*mut c_void, u64)>,
    fetch_snapshot: Option<unsafe extern "C" fn(*mut c_void, u64, u64, Bytes) -> c_int>,
    install_snapshot: Option<unsafe extern "C" fn(*mut c_void, u64, u64, Bytes) -> c_int>,
    stopped: Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char)>,
    pub answer: Option<CAnswer>,
}

/// The callbacks of a client that the thread of a site makes.
pub struct Callbacks {
    context: *mut c_void,
    committed: unsafe extern "C" fn(*mut c_void, u64, *const CEntry, usize),
    role_changed: unsafe extern "C" fn(*mut c_void, u64, c_int, u64, u64),
    take_snapshot: unsafe extern "C" fn(*mut c_void, u64),
    fetch_snapshot: unsafe extern "C" fn(*mut c_void, u64, u64, Bytes) -> c_int,
    install_snapshot: unsafe extern "C" fn(*mut c_void, u64, u64, Bytes) -> c_int,
    stopped: unsafe extern "C" fn(*mut c_void, c_int, *const c_char),
}

// SAFETY: the header tells the caller that one other thread makes all these calls with the context.
unsafe impl Send for Callbacks {}

impl Callbacks {
    pub fn new(client: &CClient) -> Option<Self> {
        Some(Self {
            context: client.context,
            committed: client.committed?,
            role_changed: client.role_changed?,
            take_snapshot: client.take_snapshot?,
            fetch_snapshot: client.fetch_snapshot?,
            install_snapshot: client.install_snapshot?,
            stopped: client.stopped?,
        })
    }
}

impl Client for Callbacks {
    fn committed(&mut self, group: u64, entries: &[Entry]) {
        IS_SITE.set(true);
        let entry = |entry: &Entry| {
            let is_ours = entry.get_entry_type() == EntryType::EntryNormal;
            CEntry::of(entry.index, entry.term, &entry.data, is_ours)
        };
        let entries: Vec<CEntry> = entries.iter().map(entry).collect();
        unsafe { (self.committed)(self.context, group, entries.as_ptr(), entries.len()) }
    }

    fn role_changed(&mut self, group: u64, role: Role, term: u64, leader: u64) {
        IS_SITE.set(true);
        unsafe { (self.role_changed)(self.context, group, code_of_role(role), term, leader) }
    }

    fn take_snapshot(&mut self, group: u64) {
        IS_SITE.set(true);
        unsafe { (self.take_snapshot)(self.context, group) }
    }

    fn fetch_snapshot(&mut self, group: u64, manifest: &Manifest) -> bool {
        IS_SITE.set(true);
        let data = Bytes::of(&manifest.data);
        unsafe { (self.fetch_snapshot)(self.context, group, manifest.index, data) != 0 }
    }

    fn install_snapshot(&mut self, group: u64, manifest: &Manifest) -> std::result::Result<(), String> {
        IS_SITE.set(true);
        let data = Bytes::of(&manifest.data);
        match unsafe { (self.install_snapshot)(self.context, group, manifest.index, data) } {
            0 => Err("the client could not".to_owned()),
            _ => Ok(()),
        }
    }

    fn stopped(&mut self, error: &LogError) {
        IS_SITE.set(true);
        let text = c_text(&error.to_string());
        unsafe { (self.stopped)(self.context, code_of(error), text.as_ptr()) }
    }
}
