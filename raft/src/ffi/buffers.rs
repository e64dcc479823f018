//! Bytes that belong to the caller of a C function.

use crate::ffi::client::CEntry;

pub struct CBuffer(bytes::Bytes);

impl CBuffer {
    pub fn boxed(bytes: impl Into<bytes::Bytes>) -> *mut Self {
        Box::into_raw(Box::new(Self(bytes.into())))
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_keep(entry: *const CEntry) -> *mut CBuffer {
    match entry.as_ref().and_then(|entry| entry.owner.as_ref()) {
        Some(data) => CBuffer::boxed(data.clone()),
        None => std::ptr::null_mut(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_buffer_data(buffer: *const CBuffer) -> *const u8 {
    buffer.as_ref().map_or(std::ptr::null(), |buffer| buffer.0.as_ptr())
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_buffer_size(buffer: *const CBuffer) -> usize {
    buffer.as_ref().map_or(0, |buffer| buffer.0.len())
}

#[no_mangle]
pub unsafe extern "C" fn topicdb_raft_buffer_free(buffer: *mut CBuffer) {
    if !buffer.is_null() {
        drop(Box::from_raw(buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe fn bytes_of<'a>(buffer: *const CBuffer) -> &'a [u8] {
        std::slice::from_raw_parts(topicdb_raft_buffer_data(buffer), topicdb_raft_buffer_size(buffer))
    }

    #[test]
    fn a_buffer_gives_its_bytes_and_none_has_none() {
        let buffer = CBuffer::boxed(b"bytes".to_vec());
        assert_eq!(unsafe { bytes_of(buffer) }, b"bytes");
        unsafe { topicdb_raft_buffer_free(buffer) };
        let none = std::ptr::null_mut();
        assert!(unsafe { topicdb_raft_buffer_data(none) }.is_null());
        assert_eq!(unsafe { topicdb_raft_buffer_size(none) }, 0);
        unsafe { topicdb_raft_buffer_free(none) };
        assert!(unsafe { topicdb_raft_keep(std::ptr::null()) }.is_null());
    }

    #[test]
    fn what_is_kept_stays_where_it_is() {
        let message = bytes::Bytes::from(b"a message with an entry".to_vec());
        let data = message.slice(18..);
        let kept = unsafe { topicdb_raft_keep(&CEntry::of(7, 5, &data, true)) };
        let place = data.as_ptr();
        drop((message, data));
        assert_eq!(unsafe { topicdb_raft_buffer_data(kept) }, place);
        assert_eq!(unsafe { bytes_of(kept) }, b"entry");
        unsafe { topicdb_raft_buffer_free(kept) };
    }
}
