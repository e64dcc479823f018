//! The fence and the identity of a replica: two small files beside the log.
//!
//! A damaged last record of a log looks like a record that was never written whole, so a log alone
//! cannot tell that it has forgotten something. The fence can: it says how far the log of each group
//! was when the fence was written. A log that is behind its fence is refused.
//!
//! The byte layouts are drawn in `docs/internals/consensus.md`. Golden tests below hold them.

use std::collections::BTreeMap;

use crate::bytes_io::{Reader, Writer};
use crate::error::{LogError, Result};

const FENCE_MAGIC: &[u8; 8] = b"TDBFENCE";
const IDENTITY_MAGIC: &[u8; 8] = b"TDBREPLI";
const VERSION: u8 = 1;

/// Who a replica is. No identity is ever used twice: a site that has lost its log comes back with a
/// higher incarnation, and under another replica id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The random id of the site, for ever.
    pub site: [u8; 16],
    /// Counts how often the site began with an empty log.
    pub incarnation: u64,
    /// The id in the groups of the consensus, given once in the life of a cluster. Not 0.
    pub replica: u64,
}

impl Identity {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(IDENTITY_MAGIC).u8(VERSION).bytes(&self.site);
        out.u64(self.incarnation).u64(self.replica).seal()
    }

    /// Decodes the file `identity`; `place` names it in errors.
    pub fn decode(place: &str, bytes: &[u8]) -> Result<Self> {
        let damaged = || LogError::damaged(place, "the identity of the replica cannot be read");
        let mut record = open_record(place, bytes, IDENTITY_MAGIC)?.ok_or_else(damaged)?;
        let mut read = || {
            let site = record.bytes(16)?.try_into().ok()?;
            let identity = Self { site, incarnation: record.u64()?, replica: record.u64()? };
            record.0.is_empty().then_some(identity)
        };
        read().ok_or_else(damaged)
    }
}

/// How far the log of one group was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FenceRow {
    /// Counts the writes of the group. A log with a lower one has lost a write.
    pub version: u64,
    pub term: u64,
    pub vote: u64,
    pub last_index: u64,
    pub last_term: u64,
}

impl FenceRow {
    /// Says what a log that is at `self` has lost since `fence` was written, or `None`.
    pub fn behind(&self, fence: &FenceRow) -> Option<String> {
        if self.version < fence.version || self.term < fence.term {
            return Some(format!(
                "the log is behind its fence: write {} of term {}, entry {}, where the fence has write \
                 {} of term {}, entry {}",
                self.version, self.term, self.last_index, fence.version, fence.term, fence.last_index
            ));
        }
        if self.version == fence.version && self != fence {
            return Some("the log differs from its fence at the same write".to_owned());
        }
        None
    }
}

/// What the file `fence` holds: a row for each group. Owned by the log of a site.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fence(pub BTreeMap<u64, FenceRow>);

impl Fence {
    pub fn encode(&self, identity: &Identity) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes(FENCE_MAGIC).u8(VERSION).u64(identity.replica);
        out.u32(self.0.len() as u32);
        for (group, row) in &self.0 {
            out.u64(*group).u64(row.version).u64(row.term);
            out.u64(row.vote).u64(row.last_index).u64(row.last_term);
        }
        out.seal()
    }

    /// Decodes the file `fence` of a replica; `place` names it in errors.
    pub fn decode(place: &str, bytes: &[u8], identity: &Identity) -> Result<Self> {
        let damaged = || LogError::damaged(place, "the fence cannot be read");
        let mut record = open_record(place, bytes, FENCE_MAGIC)?.ok_or_else(damaged)?;
        let replica = record.u64().ok_or_else(damaged)?;
        if replica != identity.replica {
            return Err(LogError::Foreign(format!(
                "{place}: this is the fence of replica {replica}, and the log is that of replica {}. \
                 Directories of two replicas were mixed: restore neither, and let the site come back as \
                 a new replica",
                identity.replica
            )));
        }
        let mut read = || {
            let mut rows = BTreeMap::new();
            for _ in 0..record.u32()? {
                let group = record.u64()?;
                let row = FenceRow {
                    version: record.u64()?,
                    term: record.u64()?,
                    vote: record.u64()?,
                    last_index: record.u64()?,
                    last_term: record.u64()?,
                };
                rows.insert(group, row);
            }
            record.0.is_empty().then_some(rows)
        };
        read().map(Self).ok_or_else(damaged)
    }
}

/// Checks the checksum, the magic and the version of a record. `None` says that it is damaged.
fn open_record<'a>(place: &str, bytes: &'a [u8], magic: &[u8; 8]) -> Result<Option<Reader<'a>>> {
    let Some(mut record) = Reader::unseal(bytes) else {
        return Ok(None);
    };
    if record.bytes(8) != Some(magic) {
        return Ok(None);
    }
    match record.u8() {
        Some(VERSION) => Ok(Some(record)),
        Some(version) => Err(LogError::TooNew(format!(
            "{place}: it has version {version}, and this program knows versions up to {VERSION}. Use a \
             newer program"
        ))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity { site: *b"0123456789abcdef", incarnation: 2, replica: 7 };
    const ROW: FenceRow = FenceRow { version: 9, term: 3, vote: 7, last_index: 300, last_term: 2 };

    fn fence() -> Fence {
        Fence(BTreeMap::from([(1, ROW), (2, FenceRow::default())]))
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Replaces the version of a record, and makes its checksum right again.
    fn with_version(bytes: &[u8], version: u8) -> Vec<u8> {
        let mut out = Writer(bytes[..bytes.len() - 4].to_vec());
        out.0[8] = version;
        out.seal()
    }

    #[test]
    fn identity_has_the_bytes_of_its_first_version() {
        let golden = "5444425245504c49013031323334353637383961626364656602000000000000000700000000000000";
        let bytes = IDENTITY.encode();
        assert_eq!(hex(&bytes[..bytes.len() - 4]), golden);
        assert_eq!(hex(&bytes[bytes.len() - 4..]), "11082cc0");
        assert_eq!(Identity::decode("identity", &bytes), Ok(IDENTITY));
    }

    #[test]
    fn fence_has_the_bytes_of_its_first_version() {
        let golden = concat!(
            "54444246454e4345",
            "01",
            "0700000000000000",
            "02000000",
            "0100000000000000",
            "0900000000000000",
            "0300000000000000",
            "0700000000000000",
            "2c01000000000000",
            "0200000000000000",
            "0200000000000000",
            "0000000000000000",
            "0000000000000000",
            "0000000000000000",
            "0000000000000000",
            "0000000000000000",
        );
        let bytes = fence().encode(&IDENTITY);
        assert_eq!(hex(&bytes[..bytes.len() - 4]), golden);
        assert_eq!(hex(&bytes[bytes.len() - 4..]), "15b450e6");
        assert_eq!(Fence::decode("fence", &bytes, &IDENTITY), Ok(fence()));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let bytes = fence().encode(&IDENTITY);
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << bit;
                let error = Fence::decode("/log/fence", &damaged, &IDENTITY).unwrap_err();
                assert!(matches!(error, LogError::Damaged(_)), "{error}");
            }
            assert!(Fence::decode("fence", &bytes[..place], &IDENTITY).is_err());
        }
        let text = Fence::decode("/log/fence", b"", &IDENTITY).unwrap_err().to_string();
        assert!(text.contains("/log/fence") && text.contains("new replica"), "{text}");
    }

    #[test]
    fn newer_versions_and_other_replicas_have_errors_of_their_own() {
        let newer = with_version(&fence().encode(&IDENTITY), 2);
        let error = Fence::decode("fence", &newer, &IDENTITY).unwrap_err();
        assert!(matches!(error, LogError::TooNew(_)), "{error}");
        let newer = with_version(&IDENTITY.encode(), 2);
        let error = Identity::decode("identity", &newer).unwrap_err();
        assert!(matches!(error, LogError::TooNew(_)), "{error}");
        let other = Identity { replica: 8, ..IDENTITY };
        let error = Fence::decode("fence", &fence().encode(&IDENTITY), &other).unwrap_err();
        assert!(matches!(error, LogError::Foreign(_)), "{error}");
    }

    #[test]
    fn a_row_is_behind_only_if_a_write_is_missing() {
        assert_eq!(ROW.behind(&ROW), None);
        // The log went on, and a new leader replaced the end of it with fewer entries.
        let shorter = FenceRow { version: 10, last_index: 200, last_term: 1, ..ROW };
        assert_eq!(shorter.behind(&ROW), None);
        assert!(FenceRow { version: 8, ..ROW }.behind(&ROW).is_some());
        assert!(FenceRow { version: 10, term: 2, ..ROW }.behind(&ROW).is_some());
        assert!(FenceRow { vote: 1, ..ROW }.behind(&ROW).is_some());
    }
}
