//! The C functions. `include/topicdb_raft.h` describes them; here is only what turns pointers into values,
//! and panics into codes.
#![allow(clippy::missing_safety_doc)] // the header says what a caller must keep to

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::time::Duration;

use raft::eraftpb::{Entry, EntryType};

use crate::error::{LogError, Result};
use crate::fence::Identity;
use crate::outside::{Options, Role, Status};
use crate::site::{text_of, Call, Client, Site, SiteOptions};
use crate::state::Manifest;
use crate::transport::{TlsFiles, Transport};
use crate::waiting::Answer;

const INTERFACE: u32 = 1;
const MANIFEST_BYTES_MAX: usize = 1 << 20;

const OK: c_int = 0;
const NOT_LEADER: c_int = 1;
const UNKNOWN: c_int = 2;
const TIMED_OUT: c_int = 3;
const REFUSED: c_int = 4;
const DISK: c_int = 5;
const DAMAGED: c_int = 6;
const FOREIGN: c_int = 7;
const TOO_NEW: c_int = 8;
const BROKEN: c_int = 9;

thread_local! {
    /// Whether this is the thread of a site, which may not wait for itself.
    static IS_SITE: Cell<bool> = const { Cell::new(false) };
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    data: *const u8,
    size: usize,
}

impl Bytes {
    fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), size: bytes.len() }
    }

    unsafe fn get(&self) -> &[u8] {
        slice(self.data, self.size)
    }
}

#[repr(C)]
pub struct CEntry {
    index: u64,
    term: u64,
    data: Bytes,
}

#[repr(C)]
#[derive(Clone)]
pub struct CClient {
    context: *mut c_void,
    committed: Option<unsafe extern "C" fn(*mut c_void, u64, *const CEntry, usize)>,
    role_changed: Option<unsafe extern "C" fn(*mut c_void, u64, c_int, u64, u64)>,
    take_snapshot: Option<unsafe extern "C" fn(*mut c_void, u64)>,
    fetch_snapshot: Option<unsafe extern "C" fn(*mut c_void, u64, u64, Bytes) -> c_int>,
    install_snapshot: Option<unsafe extern "C" fn(*mut c_void, u64, u64, Bytes) -> c_int>,
    stopped: Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char)>,
}

#[repr(C)]
pub struct COptions {
    interface_version: u32,
    tick_ms: u32,
    election_ticks: u32,
    heartbeat_ticks: u32,
    directory: *const c_char,
    site: [u8; 16],
    incarnation: u64,
    replica: u64,
    listen: *const c_char,
    authority: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
}

#[repr(C)]
pub struct CStatus {
    role: c_int,
    leader: u64,
    term: u64,
    commit: u64,
    applied: u64,
    first: u64,
    last: u64,
    members: usize,
}

#[repr(C)]
pub struct CMember {
    replica: u64,
    matched: u64,
    is_voter: u8,
    is_leaving: u8,
    is_active: u8,
    gets_snapshot: u8,
}

/// A site and its network. The network goes first.
pub struct CSite {
    transport: Transport,
    site: Site,
}

/// The callbacks of a client. They may come from another thread than the one that gave them.
struct Callbacks {
    context: *mut c_void,
    committed: unsafe extern "C" fn(*mut c_void, u64, *const CEntry, usize),
    role_changed: unsafe extern "C" fn(*mut c_void, u64, c_int, u64, u64),
    take_snapshot: unsafe extern "C" fn(*mut c_void, u64),
    fetch_snapshot: unsafe extern "C" fn(*mut c_void, u64, u64, Bytes) -> c_int,
    install_snapshot: unsafe extern "C" fn(*mut c_void, u64, u64, Bytes) -> c_int,
    stopped: unsafe extern "C" fn(*mut c_void, c_int, *const c_char),
}

// SAFETY: the header tells the caller that one other thread makes all the calls with the context.
unsafe impl Send for Callbacks {}

impl Callbacks {
    fn new(client: &CClient) -> Option<Self> {
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
            let data = if is_ours { &entry.data[..] } else { &[] };
            CEntry { index: entry.index, term: entry.term, data: Bytes::of(data) }
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

fn code_of_role(role: Role) -> c_int {
    match role {
        Role::Follower => 0,
        Role::Candidate => 1,
        Role::Leader => 2,
    }
}

fn code_of(error: &LogError) -> c_int {
    match error {
        LogError::Disk(_) => DISK,
        LogError::Damaged(_) => DAMAGED,
        LogError::Foreign(_) => FOREIGN,
        LogError::TooNew(_) => TOO_NEW,
        LogError::Refused(_) => REFUSED,
    }
}

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

fn refused<T>(text: &str) -> Result<T> {
    Err(LogError::Refused(text.to_owned()))
}

unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, count)
}

unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return refused(&format!("{what} is missing"));
    }
    CStr::from_ptr(pointer).to_str().or_else(|_| refused(&format!("{what} is no UTF-8")))
}

unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        place.write(value);
    }
}

unsafe fn site_of<'a>(site: *const CSite) -> Result<&'a CSite> {
    site.as_ref().map_or_else(|| refused("there is no site: open one"), Ok)
}

/// The same, for functions that wait for the thread of the site.
unsafe fn site_to_wait_for<'a>(site: *const CSite) -> Result<&'a CSite> {
    if IS_SITE.get() {
        return refused("a callback may not wait for its own thread: hand the work to another one");
    }
    site_of(site)
}

/// Runs a function, and turns errors and panics into codes and texts.
unsafe fn guarded(error: *mut *mut c_char, work: impl FnOnce() -> Result<c_int>) -> c_int {
    let (code, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => return code,
        Ok(Err(found)) => (code_of(&found), found.to_string()),
        Err(panic) => (BROKEN, format!("a fault of the consensus: {}", text_of(&*panic))),
    };
    put(error, c_text(&text).into_raw());
    code
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_open(
    options: *const COptions,
    client: *const CClient,
    site: *mut *mut CSite,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        let (Some(options), Some(client)) = (options.as_ref(), client.as_ref()) else {
            return refused("options or client are missing");
        };
        if site.is_null() {
            return refused("there is no place for the site");
        }
        let made = open(options, client)?;
        put(site, Box::into_raw(Box::new(made)));
        Ok(OK)
    })
}

unsafe fn open(options: &COptions, client: &CClient) -> Result<CSite> {
    if options.interface_version != INTERFACE {
        let text = format!("this library has interface {INTERFACE}, not {}", options.interface_version);
        return refused(&format!("{text}: compile with the header of this library"));
    }
    let Some(callbacks) = Callbacks::new(client) else {
        return refused("a callback is missing: all of them are needed");
    };
    if options.replica == 0 {
        return refused("the id of a replica is not 0");
    }
    let usual = Options::default();
    let or_usual = |value: u32, usual: usize| if value == 0 { usual } else { value as usize };
    let driver = Options {
        election_ticks: or_usual(options.election_ticks, usual.election_ticks),
        heartbeat_ticks: or_usual(options.heartbeat_ticks, usual.heartbeat_ticks),
        ..usual
    };
    if driver.heartbeat_ticks >= driver.election_ticks {
        return refused("heartbeat_ticks is not less than election_ticks: every leader would be given up");
    }
    let tick = Duration::from_millis(or_usual(options.tick_ms, 50) as u64);
    let site_options = SiteOptions { tick, driver, ..SiteOptions::default() };
    let directory = Path::new(text(options.directory, "directory")?);
    let identity =
        Identity { site: options.site, incarnation: options.incarnation, replica: options.replica };
    let transport =
        Transport::listen(text(options.listen, "listen")?, options.replica, tls(options)?.as_ref())?;
    let site = Site::open(directory, identity, site_options, callbacks, transport.sender())?;
    transport.serve(site.handle().clone());
    Ok(CSite { transport, site })
}

unsafe fn tls(options: &COptions) -> Result<Option<TlsFiles>> {
    if options.authority.is_null() && options.certificate.is_null() && options.key.is_null() {
        return Ok(None);
    }
    Ok(Some(TlsFiles {
        authority: text(options.authority, "authority")?.into(),
        certificate: text(options.certificate, "certificate")?.into(),
        key: text(options.key, "key")?.into(),
    }))
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_close(site: *mut CSite, error: *mut *mut c_char) -> c_int {
    guarded(error, || {
        site_to_wait_for(site)?;
        drop(Box::from_raw(site));
        Ok(OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_port(site: *const CSite) -> u16 {
    site.as_ref().map_or(0, |site| site.transport.address().port())
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_set_peer(
    site: *mut CSite,
    replica: u64,
    address: *const c_char,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        let site = site_of(site)?;
        let address = if address.is_null() { None } else { Some(text(address, "address")?) };
        site.transport.set_peer(replica, address)?;
        Ok(OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_groups(
    site: *const CSite,
    groups: *mut u64,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        let found = site_of(site)?.site.groups();
        for (place, group) in found.iter().take(if groups.is_null() { 0 } else { capacity }).enumerate() {
            groups.add(place).write(*group);
        }
        put(count, found.len());
        Ok(OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_create_group(
    site: *mut CSite,
    group: u64,
    voters: *const u64,
    count: usize,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        let voters = slice(voters, count).to_vec();
        site_to_wait_for(site)?.site.handle().clone().create(group, voters)?;
        Ok(OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_open_group(
    site: *mut CSite,
    group: u64,
    applied: u64,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        site_to_wait_for(site)?.site.handle().clone().open(group, applied)?;
        Ok(OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_remove_group(
    site: *mut CSite,
    group: u64,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        site_to_wait_for(site)?.site.handle().clone().remove(group)?;
        Ok(OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_propose(
    site: *mut CSite,
    group: u64,
    entries: *const Bytes,
    count: usize,
    limit_ms: u64,
    index: *mut u64,
    term: *mut u64,
    leader: *mut u64,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        let entries = slice(entries, count).iter().map(|entry| entry.get().to_vec()).collect();
        let answer = call(site, group, Call::Propose(entries), limit_ms)?;
        let (at, by) = match &answer {
            Answer::Committed { index, term } | Answer::Unknown { index, term } => ((*index, *term), 0),
            Answer::NotLeader { leader } => ((0, 0), *leader),
            _ => ((0, 0), 0),
        };
        put(index, at.0);
        put(term, at.1);
        put(leader, by);
        code_of_answer(answer)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_read_barrier(
    site: *mut CSite,
    group: u64,
    limit_ms: u64,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || code_of_answer(call(site, group, Call::Read, limit_ms)?))
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_change(
    site: *mut CSite,
    group: u64,
    voters: *const u64,
    voter_count: usize,
    learners: *const u64,
    learner_count: usize,
    limit_ms: u64,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        let (voters, learners) = (slice(voters, voter_count), slice(learners, learner_count));
        let change = Call::Change { voters: voters.to_vec(), learners: learners.to_vec() };
        code_of_answer(call(site, group, change, limit_ms)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_transfer(
    site: *mut CSite,
    group: u64,
    to: u64,
    limit_ms: u64,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || code_of_answer(call(site, group, Call::Transfer(to), limit_ms)?))
}

unsafe fn call(site: *const CSite, group: u64, call: Call, limit_ms: u64) -> Result<Answer> {
    // The clone is there when another thread closes the site meanwhile.
    let handle = site_to_wait_for(site)?.site.handle().clone();
    handle.call(group, call, Duration::from_millis(limit_ms))
}

fn code_of_answer(answer: Answer) -> Result<c_int> {
    match answer {
        Answer::Committed { .. } | Answer::Read { .. } | Answer::Done => Ok(OK),
        Answer::NotLeader { .. } => Ok(NOT_LEADER),
        Answer::Unknown { .. } => Ok(UNKNOWN),
        Answer::TimedOut => Ok(TIMED_OUT),
        Answer::Refused(text) => Err(LogError::Refused(text)),
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_applied(site: *mut CSite, group: u64, index: u64) {
    if let Some(site) = site.as_ref() {
        site.site.handle().applied(group, index);
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_flushed(site: *mut CSite, group: u64, index: u64) {
    if let Some(site) = site.as_ref() {
        site.site.handle().flushed(group, index);
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_snapshot_taken(
    site: *mut CSite,
    group: u64,
    index: u64,
    manifest: Bytes,
) {
    if let Some(site) = site.as_ref() {
        let is_fit = index > 0 && manifest.size <= MANIFEST_BYTES_MAX;
        let taken = is_fit.then(|| (index, manifest.get().to_vec()));
        site.site.handle().snapshot_taken(group, taken);
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_snapshot_fetched(site: *mut CSite, group: u64, is_here: c_int) {
    if let Some(site) = site.as_ref() {
        site.site.handle().snapshot_fetched(group, is_here != 0);
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_get_status(
    site: *mut CSite,
    group: u64,
    status: *mut CStatus,
    members: *mut CMember,
    capacity: usize,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        let Some(found) = site_to_wait_for(site)?.site.handle().clone().status(group)? else {
            return refused(&format!("group {group} is not at this site: ask a site that has it"));
        };
        let listed = members_of(&found);
        let count = listed.len();
        for (place, member) in
            listed.into_iter().take(if members.is_null() { 0 } else { capacity }).enumerate()
        {
            members.add(place).write(member);
        }
        let (role, leader, term) = (code_of_role(found.role), found.leader, found.term);
        let (commit, applied, first, last) = (found.commit, found.applied, found.first, found.last);
        put(status, CStatus { role, leader, term, commit, applied, first, last, members: count });
        Ok(OK)
    })
}

fn members_of(status: &Status) -> Vec<CMember> {
    let conf = &status.conf;
    let is_joint = !conf.voters_outgoing.is_empty();
    let mut ids: Vec<u64> =
        conf.voters.iter().chain(&conf.voters_outgoing).chain(&conf.learners).copied().collect();
    ids.sort_unstable();
    ids.dedup();
    let member = |replica: u64| {
        let peer = status.peers.iter().find(|peer| peer.replica == replica);
        let is_incoming = conf.voters.contains(&replica);
        CMember {
            replica,
            matched: peer.map_or(0, |peer| peer.matched),
            is_voter: u8::from(is_incoming || conf.voters_outgoing.contains(&replica)),
            is_leaving: u8::from(is_joint && !is_incoming && !conf.learners.contains(&replica)),
            is_active: u8::from(peer.is_some_and(|peer| peer.is_active)),
            gets_snapshot: u8::from(peer.is_some_and(|peer| peer.gets_snapshot)),
        }
    };
    ids.into_iter().map(member).collect()
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_free(text: *mut c_char) {
    if !text.is_null() {
        drop(CString::from_raw(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code_and_a_text() {
        let mut error = std::ptr::null_mut();
        let code = unsafe { guarded(&mut error, || panic!("entry {} is gone", 7)) };
        assert_eq!(code, BROKEN);
        let text = unsafe { CStr::from_ptr(error) }.to_str().unwrap();
        assert!(text.contains("entry 7 is gone"), "{text}");
        unsafe { topicdb_raft_free(error) };
    }

    #[test]
    fn each_error_has_its_code() {
        let text = || "text".to_owned();
        let codes = [
            code_of(&LogError::Disk(text())),
            code_of(&LogError::Damaged(text())),
            code_of(&LogError::Foreign(text())),
            code_of(&LogError::TooNew(text())),
            code_of(&LogError::Refused(text())),
        ];
        assert_eq!(codes, [5, 6, 7, 8, 4]);
    }

    #[test]
    fn members_that_leave_are_told() {
        let mut status = Status {
            role: Role::Follower,
            leader: 1,
            term: 2,
            commit: 3,
            applied: 3,
            first: 1,
            last: 3,
            conf: raft::eraftpb::ConfState::from((vec![1, 3], vec![4])),
            peers: Vec::new(),
        };
        status.conf.voters_outgoing = vec![1, 2];
        let found: Vec<_> =
            members_of(&status).iter().map(|m| (m.replica, m.is_voter, m.is_leaving)).collect();
        assert_eq!(found, [(1, 1, 0), (2, 1, 1), (3, 1, 0), (4, 0, 0)]);
    }
}
