//! Requests between sites, for C.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use crate::answers::Answerer;
use crate::ffi::buffers::CBuffer;
use crate::ffi::client::{begin_to_answer, CClient};
use crate::ffi::values::*;
use crate::ffi::{site_to_wait_for, tls, CSite};
use crate::link::{Links, NO_REPLICA};
use crate::requests::{ask_at, Unanswered, PAYLOAD_BYTES_MAX};

pub type CAnswer = unsafe extern "C" fn(*mut c_void, u64, Bytes, *mut CReply);

/// What a callback answers, until it returns.
pub struct CReply(Result<Vec<u8>, String>);

struct Callback {
    context: *mut c_void,
    answer: CAnswer,
}

// SAFETY: the header tells the caller that any threads make this call, several at once.
unsafe impl Send for Callback {}
unsafe impl Sync for Callback {}

impl Callback {
    fn answer(&self, from: u64, request: &[u8]) -> Result<Vec<u8>, String> {
        begin_to_answer();
        let mut reply = CReply(Err("it does not answer this".to_owned()));
        unsafe { (self.answer)(self.context, from, Bytes::of(request), &mut reply) };
        reply.0
    }
}

/// Returns what answers requests by the callback of a client, or refuses all if it has none.
pub fn answerer_of(client: &CClient) -> Answerer {
    let Some(answer) = client.answer else {
        return Arc::new(|_, _| Err("it answers no requests".to_owned()));
    };
    let callback = Callback { context: client.context, answer };
    Arc::new(move |from, request| callback.answer(from, request))
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_reply_with(reply: *mut CReply, answer: Bytes) {
    if let Some(reply) = reply.as_mut() {
        reply.0 = match answer.size {
            size if size > PAYLOAD_BYTES_MAX => {
                Err(format!("its answer has {size} bytes, which are too many"))
            }
            _ => Ok(answer.get().to_vec()),
        };
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_ask(
    site: *mut CSite,
    replica: u64,
    request: Bytes,
    connect_ms: u64,
    limit_ms: u64,
    answer: *mut *mut CBuffer,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        // The clone is there when another thread closes the site meanwhile.
        let requests = site_to_wait_for(site)?.transport.requests().clone();
        if answer.is_null() {
            return refused("there is no place for the answer");
        }
        let connect_limit = Duration::from_millis(connect_ms);
        let limit = Duration::from_millis(limit_ms);
        Ok(put_answer(requests.ask(replica, request.get(), connect_limit, limit), answer, error))
    })
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_ask_at(
    address: *const c_char,
    authority: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
    request: Bytes,
    limit_ms: u64,
    answer: *mut *mut CBuffer,
    error: *mut *mut c_char,
) -> c_int {
    guarded(error, || {
        let address = text(address, "address")?;
        if answer.is_null() {
            return refused("there is no place for the answer");
        }
        let links = Links::new(NO_REPLICA, tls(authority, certificate, key)?.as_ref())?;
        links.check_address(address)?;
        let answered = ask_at(&links, address, request.get(), Duration::from_millis(limit_ms));
        Ok(put_answer(answered, answer, error))
    })
}

unsafe fn put_answer(
    answered: Result<Vec<u8>, Unanswered>,
    answer: *mut *mut CBuffer,
    error: *mut *mut c_char,
) -> c_int {
    let (code, text) = match answered {
        Ok(bytes) => {
            put(answer, CBuffer::boxed(bytes));
            return OK;
        }
        Err(Unanswered::TimedOut(text)) => (TIMED_OUT, text),
        Err(Unanswered::NotAsked(text)) => (NOT_ASKED, text),
        Err(Unanswered::NoAnswer(text)) => (NO_ANSWER, text),
        Err(Unanswered::Refused(text)) => (REFUSED, text),
    };
    put(error, c_text(&text).into_raw());
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reply_counts_and_a_large_one_is_none() {
        let mut reply = CReply(Err(String::new()));
        unsafe { topicdb_raft_reply_with(&mut reply, Bytes::of(b"one")) };
        unsafe { topicdb_raft_reply_with(&mut reply, Bytes::of(b"two")) };
        assert_eq!(reply.0, Ok(b"two".to_vec()));
        let large = vec![7; PAYLOAD_BYTES_MAX + 1];
        unsafe { topicdb_raft_reply_with(&mut reply, Bytes::of(&large)) };
        assert!(reply.0.unwrap_err().contains("too many"));
        unsafe { topicdb_raft_reply_with(std::ptr::null_mut(), Bytes::of(b"two")) };
    }
}
