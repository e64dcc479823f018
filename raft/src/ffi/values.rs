//! What the C functions take and return, as values of Rust: codes, bytes, texts and errors.

use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::error::{LogError, Result};
use crate::site::text_of;

pub const OK: c_int = 0;
pub const NOT_LEADER: c_int = 1;
pub const UNKNOWN: c_int = 2;
pub const TIMED_OUT: c_int = 3;
pub const REFUSED: c_int = 4;
pub const DISK: c_int = 5;
pub const DAMAGED: c_int = 6;
pub const FOREIGN: c_int = 7;
pub const TOO_NEW: c_int = 8;
pub const BROKEN: c_int = 9;
pub const NO_ANSWER: c_int = 10;
pub const NOT_ASKED: c_int = 11;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    pub data: *const u8,
    pub size: usize,
}

impl Bytes {
    pub fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), size: bytes.len() }
    }

    pub unsafe fn get(&self) -> &[u8] {
        slice(self.data, self.size)
    }
}

pub fn code_of(error: &LogError) -> c_int {
    match error {
        LogError::Disk(_) => DISK,
        LogError::Damaged(_) => DAMAGED,
        LogError::Foreign(_) => FOREIGN,
        LogError::TooNew(_) => TOO_NEW,
        LogError::Refused(_) => REFUSED,
    }
}

pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

pub fn refused<T>(text: &str) -> Result<T> {
    Err(LogError::Refused(text.to_owned()))
}

pub unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, count)
}

pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return refused(&format!("{what} is missing"));
    }
    CStr::from_ptr(pointer).to_str().or_else(|_| refused(&format!("{what} is no UTF-8")))
}

pub unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        place.write(value);
    }
}

/// Runs a function, and turns errors and panics into codes and texts.
pub unsafe fn guarded(error: *mut *mut c_char, work: impl FnOnce() -> Result<c_int>) -> c_int {
    let (code, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(code)) => return code,
        Ok(Err(found)) => (code_of(&found), found.to_string()),
        Err(panic) => (BROKEN, format!("a fault of the consensus: {}", text_of(&*panic))),
    };
    put(error, c_text(&text).into_raw());
    code
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
        drop(unsafe { CString::from_raw(error) });
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
}
