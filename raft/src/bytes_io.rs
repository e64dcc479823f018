//! Little-endian numbers and lengths in the records of this crate, and their checksums.

/// Appends numbers to a record.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }

    /// Appends the CRC-32C of everything so far, and returns the record.
    pub fn seal(&mut self) -> Vec<u8> {
        let sum = crc32c::crc32c(&self.0);
        self.u32(sum);
        std::mem::take(&mut self.0)
    }
}

/// Reads numbers from a record; `None` where it is too short.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns a reader of a sealed record without its checksum, or `None` if that does not fit.
    pub fn unseal(record: &'a [u8]) -> Option<Self> {
        let (body, sum) = record.split_at_checked(record.len().checked_sub(4)?)?;
        (crc32c::crc32c(body).to_le_bytes() == sum).then_some(Self(body))
    }

    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|b| b[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }
}
