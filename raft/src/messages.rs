//! Messages of the consensus on a connection: a frame for each.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::mpsc::Receiver;

use protobuf::Message as _;
use raft::eraftpb::Message;

use crate::bytes_io::{Reader, Writer};
use crate::link::{self, Link, FRAME_BYTES_MAX};

const BUFFER_BYTES: usize = 64 << 10;

/// Sends messages until their queue is gone. An error says that the connection is.
pub fn send_all(link: Link, messages: &Receiver<(u64, Message)>) -> io::Result<()> {
    let mut stream = BufWriter::with_capacity(BUFFER_BYTES, link);
    while let Ok(first) = messages.recv() {
        let mut next = Some(first);
        while let Some((group, message)) = next {
            write_message(&mut stream, group, &message)?;
            next = messages.try_recv().ok();
        }
        stream.flush()?;
    }
    Ok(())
}

/// Hands over messages until the other side closes the connection, or says something wrong.
pub fn receive_all(link: Link, mut take: impl FnMut(u64, Message)) -> io::Result<()> {
    let mut stream = BufReader::new(link);
    while let Some((group, message)) = read_message(&mut stream)? {
        take(group, message);
    }
    Ok(())
}

fn write_message(stream: &mut impl Write, group: u64, message: &Message) -> io::Result<()> {
    let body = message.write_to_bytes().map_err(io::Error::other)?;
    if body.len() > FRAME_BYTES_MAX - 12 {
        return Ok(()); // no message is so large; if one is, it is lost
    }
    link::write_frame(stream, Writer::default().u64(group).bytes(&body))
}

/// Reads a message, or `None` at the end of the connection.
fn read_message(stream: &mut impl Read) -> io::Result<Option<(u64, Message)>> {
    let Some(frame) = link::read_frame(stream)? else {
        return Ok(None);
    };
    let short = || io::Error::new(io::ErrorKind::InvalidData, "a frame is too short");
    let mut reader = Reader(&frame);
    let group = reader.u64().ok_or_else(short)?;
    let message = Message::parse_from_bytes(reader.0).map_err(io::Error::other)?;
    Ok(Some((group, message)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message { from: 1, to: 2, term: 7, index: 300, ..Message::default() }
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        write_message(&mut bytes, 9, &message()).unwrap();
        write_message(&mut bytes, 10, &message()).unwrap();
        let mut stream = &bytes[..];
        assert_eq!(read_message(&mut stream).unwrap(), Some((9, message())));
        assert_eq!(read_message(&mut stream).unwrap(), Some((10, message())));
        assert_eq!(read_message(&mut stream).unwrap(), None);
    }

    #[test]
    fn damaged_and_cut_and_large_frames_are_refused() {
        let mut bytes = Vec::new();
        write_message(&mut bytes, 9, &message()).unwrap();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            assert!(read_message(&mut &damaged[..]).is_err(), "byte {place}");
        }
        for length in 1..bytes.len() {
            assert!(read_message(&mut &bytes[..length]).is_err(), "{length} bytes");
        }
        let large = [(FRAME_BYTES_MAX as u32 + 1).to_le_bytes().to_vec(), vec![0; 99]].concat();
        assert!(read_message(&mut &large[..]).is_err());
        let huge = Message { context: vec![0; FRAME_BYTES_MAX].into(), ..message() };
        let mut bytes = Vec::new();
        write_message(&mut bytes, 9, &huge).unwrap();
        assert!(bytes.is_empty());
    }
}
