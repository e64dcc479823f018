//! The record that a group has in the log beside its entries, and the manifest of a snapshot.

use bytes::Bytes;
use protobuf::Message as _;
use raft::eraftpb::{ConfState, HardState, Snapshot};

use crate::bytes_io::{Reader, Writer};
use crate::error::{LogError, Result};
use crate::fence::FenceRow;

const STATE_VERSION: u8 = 1;

/// A snapshot as the consensus sees it: what it holds is known to the client alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Manifest {
    /// The last entry that the snapshot has.
    pub index: u64,
    pub term: u64,
    pub conf: ConfState,
    /// The entry that made `conf`; it may be newer than `index`.
    pub conf_index: u64,
    pub data: Bytes,
}

impl Manifest {
    pub fn to_snapshot(&self) -> Snapshot {
        let mut data = self.conf_index.to_le_bytes().to_vec();
        data.extend_from_slice(&self.data);
        let mut snapshot = Snapshot { data: data.into(), ..Snapshot::default() };
        let meta = snapshot.mut_metadata();
        (meta.index, meta.term) = (self.index, self.term);
        meta.set_conf_state(self.conf.clone());
        snapshot
    }

    pub fn from_snapshot(snapshot: &Snapshot) -> Option<Self> {
        let meta = snapshot.get_metadata();
        let (head, data) = snapshot.data.split_at_checked(8)?;
        Some(Self {
            index: meta.index,
            term: meta.term,
            conf: meta.get_conf_state().clone(),
            conf_index: u64::from_le_bytes(head.try_into().ok()?),
            data: Bytes::copy_from_slice(data),
        })
    }
}

/// The record of a group beside its entries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupState {
    pub version: u64,
    pub hard: HardState,
    pub last: (u64, u64), // index and term of the last entry
    pub cut: (u64, u64),  // index and term of the last entry that is forgotten
    pub conf: ConfState,
    pub conf_index: u64,
    /// A snapshot that the client may have installed already, without its data.
    pub installing: Option<Manifest>,
}

impl GroupState {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u8(STATE_VERSION).u64(self.version);
        out.u64(self.hard.term).u64(self.hard.vote).u64(self.hard.commit);
        out.u64(self.last.0).u64(self.last.1).u64(self.cut.0).u64(self.cut.1);
        encode_conf(&mut out, self.conf_index, &self.conf);
        out.u8(u8::from(self.installing.is_some()));
        if let Some(manifest) = &self.installing {
            out.u64(manifest.index).u64(manifest.term);
            encode_conf(&mut out, manifest.conf_index, &manifest.conf);
        }
        out.seal()
    }

    pub fn decode(place: &str, group: u64, bytes: &[u8]) -> Result<Self> {
        let damaged = || LogError::damaged(place, format!("the state of group {group} cannot be read"));
        let mut record = Reader::unseal(bytes).ok_or_else(damaged)?;
        let version = record.u8().ok_or_else(damaged)?;
        if version != STATE_VERSION {
            return Err(LogError::TooNew(format!(
                "{place}: the state of group {group} has version {version}, and this program knows \
                 versions up to {STATE_VERSION}. Use a newer program"
            )));
        }
        Self::decode_body(&mut record).ok_or_else(damaged)
    }

    fn decode_body(record: &mut Reader) -> Option<Self> {
        let mut state = Self { version: record.u64()?, ..Self::default() };
        state.hard.term = record.u64()?;
        state.hard.vote = record.u64()?;
        state.hard.commit = record.u64()?;
        state.last = (record.u64()?, record.u64()?);
        state.cut = (record.u64()?, record.u64()?);
        (state.conf_index, state.conf) = decode_conf(record)?;
        if record.u8()? != 0 {
            let (index, term) = (record.u64()?, record.u64()?);
            let (conf_index, conf) = decode_conf(record)?;
            state.installing = Some(Manifest { index, term, conf, conf_index, data: Bytes::new() });
        }
        record.0.is_empty().then_some(state)
    }

    pub fn row(&self) -> FenceRow {
        FenceRow {
            version: self.version,
            term: self.hard.term,
            vote: self.hard.vote,
            last_index: self.last.0,
            last_term: self.last.1,
        }
    }
}

fn encode_conf(out: &mut Writer, index: u64, conf: &ConfState) {
    let bytes = conf.write_to_bytes().unwrap_or_default();
    out.u64(index).u32(bytes.len() as u32).bytes(&bytes);
}

fn decode_conf(record: &mut Reader) -> Option<(u64, ConfState)> {
    let index = record.u64()?;
    let count = record.u32()? as usize;
    let conf = ConfState::parse_from_bytes(record.bytes(count)?).ok()?;
    Some((index, conf))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> GroupState {
        let mut state = GroupState {
            version: 9,
            last: (300, 4),
            cut: (200, 3),
            conf: ConfState::from((vec![1, 2, 3], vec![4])),
            conf_index: 150,
            ..GroupState::default()
        };
        (state.hard.term, state.hard.vote, state.hard.commit) = (5, 2, 299);
        state
    }

    fn installing() -> GroupState {
        let conf = ConfState::from((vec![1], vec![]));
        let manifest = Manifest { index: 700, term: 5, conf, conf_index: 650, data: Bytes::new() };
        GroupState { installing: Some(manifest), ..state() }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn a_state_has_the_bytes_of_its_first_version() {
        let golden = concat!(
            "01",
            "0900000000000000",
            "0500000000000000",
            "0200000000000000",
            "2b01000000000000",
            "2c01000000000000",
            "0400000000000000",
            "c800000000000000",
            "0300000000000000",
            "9600000000000000",
            "08000000",
            "0801080208031004",
        );
        assert_eq!(hex(&state().encode()), format!("{golden}00b6245f65"));
        let manifest =
            "01bc020000000000000500000000000000".to_owned() + "8a02000000000000" + "02000000" + "0801";
        assert_eq!(hex(&installing().encode()), format!("{golden}{manifest}3e31b3a3"));
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for state in [state(), installing(), GroupState::default()] {
            assert_eq!(GroupState::decode("log", 1, &state.encode()), Ok(state));
        }
    }

    #[test]
    fn a_damaged_state_is_refused() {
        let bytes = installing().encode();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            let error = GroupState::decode("/log", 7, &damaged).unwrap_err();
            assert!(matches!(error, LogError::Damaged(_)), "{error}");
            assert!(GroupState::decode("/log", 7, &bytes[..place]).is_err());
        }
    }
}
