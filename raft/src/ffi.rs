//! The C functions. `include/topicdb_raft.h` describes them; here is only what turns pointers into values,
//! and panics into codes.
#![allow(clippy::missing_safety_doc)] // the header says what a caller must keep to

mod buffers;
mod client;
mod requests;
mod status;
mod values;

use std::ffi::{c_char, c_int, CString};
use std::path::Path;
use std::time::Duration;

use crate::alone::be_alone;
use crate::error::{LogError, Result};
use crate::fence::Identity;
use crate::outside::Options;
use crate::site::{Call, Site, SiteOptions};
use crate::transport::{TlsFiles, Transport};
use crate::waiting::Answer;
use client::{may_close, may_wait, CClient, Callbacks};
use requests::answerer_of;
use status::{code_of_role, members_of, CMember, CStatus};
use values::*;

const INTERFACE: u32 = 6;
const MANIFEST_BYTES_MAX: usize = 1 << 20;

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

/// A site and its network. The network goes first.
pub struct CSite {
    transport: Transport,
    site: Site,
}

unsafe fn site_of<'a>(site: *const CSite) -> Result<&'a CSite> {
    site.as_ref().map_or_else(|| refused("there is no site: open one"), Ok)
}

/// The same, for functions that wait for the thread of the site.
unsafe fn site_to_wait_for<'a>(site: *const CSite) -> Result<&'a CSite> {
    if !may_wait() {
        return refused("a callback may not wait for its own thread: hand the work to another one");
    }
    site_of(site)
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

fn identity_of(options: &COptions) -> Result<Identity> {
    if options.interface_version != INTERFACE {
        let text = format!("this library has interface {INTERFACE}, not {}", options.interface_version);
        return refused(&format!("{text}: compile with the header of this library"));
    }
    if options.replica == 0 {
        return refused("the id of a replica is not 0");
    }
    Ok(Identity { site: options.site, incarnation: options.incarnation, replica: options.replica })
}

unsafe fn open(options: &COptions, client: &CClient) -> Result<CSite> {
    let identity = identity_of(options)?;
    let Some(callbacks) = Callbacks::new(client) else {
        return refused("a callback is missing: all of them are needed, but for `answer`");
    };
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
    let tls = tls(options.authority, options.certificate, options.key)?;
    let transport = Transport::listen(text(options.listen, "listen")?, options.replica, tls.as_ref())?;
    let site = Site::open(directory, identity, site_options, callbacks, transport.sender())?;
    transport.serve(site.handle().clone());
    transport.answer_by(answerer_of(client));
    Ok(CSite { transport, site })
}

unsafe fn tls(
    authority: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
) -> Result<Option<TlsFiles>> {
    if authority.is_null() && certificate.is_null() && key.is_null() {
        return Ok(None);
    }
    Ok(Some(TlsFiles {
        authority: text(authority, "authority")?.into(),
        certificate: text(certificate, "certificate")?.into(),
        key: text(key, "key")?.into(),
    }))
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_close(site: *mut CSite, error: *mut *mut c_char) -> c_int {
    guarded(error, || {
        let open = site_of(site)?;
        if !may_close() {
            return refused("a callback may not close its own site: hand the work to another thread");
        }
        // Callbacks that answer may use the site until they return. What they wait for ends first.
        open.transport.close();
        open.site.stop();
        open.transport.wait();
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
pub unsafe extern "C" fn topicdb_raft_exclude(site: *mut CSite, replica: u64) {
    if let Some(site) = site.as_ref() {
        site.site.handle().exclude(replica);
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_be_alone(options: *const COptions, error: *mut *mut c_char) -> c_int {
    guarded(error, || {
        let Some(options) = options.as_ref() else {
            return refused("options are missing");
        };
        let directory = Path::new(text(options.directory, "directory")?);
        be_alone(directory, identity_of(options)?)?;
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
pub unsafe extern "C" fn topicdb_raft_open_damaged_group(
    site: *mut CSite,
    group: u64,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        site_to_wait_for(site)?.site.handle().clone().open_damaged(group)?;
        Ok(OK)
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_refilled(site: *mut CSite, group: u64, index: u64) {
    if let Some(site) = site.as_ref() {
        site.site.handle().refilled(group, index);
    }
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

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_free(text: *mut c_char) {
    if !text.is_null() {
        drop(CString::from_raw(text));
    }
}
