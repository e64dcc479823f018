//! Messages of the consensus on a connection: a frame for each.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use protobuf::{CodedOutputStream, Message as _};
use raft::eraftpb::Message;

use crate::bytes_io::Reader;
use crate::link::{self, Link, FRAME_BYTES_MAX};

const BUFFER_BYTES: usize = 64 << 10;

/// Sends messages until their queue is gone. An error says that the connection is.
pub fn send_all(link: Link, messages: &Receiver<(u64, Message)>) -> io::Result<()> {
    let mut stream = BufWriter::with_capacity(BUFFER_BYTES, link);
    let mut frame = Vec::new(); // each one in the place of the one before
    while let Ok(first) = messages.recv() {
        let mut next = Some(first);
        while let Some((group, message)) = next {
            write_message(&mut stream, &mut frame, group, &message)?;
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

/// Writes a message as `link::write_frame` would, but encodes it into the frame at once: most of the bytes of a
/// cluster go this way.
fn write_message(
    stream: &mut impl Write,
    frame: &mut Vec<u8>,
    group: u64,
    message: &Message,
) -> io::Result<()> {
    let size = message.compute_size() as usize;
    if size > FRAME_BYTES_MAX - 12 {
        return Ok(()); // no message is so large; if one is, it is lost
    }
    frame.clear();
    frame.reserve(4 + 8 + size + 4);
    frame.extend_from_slice(&((8 + size + 4) as u32).to_le_bytes());
    frame.extend_from_slice(&group.to_le_bytes());
    let mut body = CodedOutputStream::vec(frame);
    message.write_to_with_cached_sizes(&mut body).and_then(|()| body.flush()).map_err(io::Error::other)?;
    drop(body);
    let sum = crc32c::crc32c(&frame[4..]);
    frame.extend_from_slice(&sum.to_le_bytes());
    stream.write_all(frame)
}

/// Reads a message, or `None` at the end of the connection. Its entries are parts of the frame, which they keep.
fn read_message(stream: &mut impl Read) -> io::Result<Option<(u64, Message)>> {
    let Some(frame) = link::read_frame(stream)? else {
        return Ok(None);
    };
    let short = || io::Error::new(io::ErrorKind::InvalidData, "a frame is too short");
    let group = Reader(&frame).u64().ok_or_else(short)?;
    let body = Bytes::from(frame).slice(8..);
    let message = Message::parse_from_carllerche_bytes(&body).map_err(io::Error::other)?;
    Ok(Some((group, message)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes_io::Writer;
    use raft::eraftpb::Entry;

    fn message() -> Message {
        let entry = Entry { index: 301, term: 7, data: vec![5; 300].into(), ..Entry::default() };
        Message { from: 1, to: 2, term: 7, index: 300, entries: vec![entry].into(), ..Message::default() }
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let (mut bytes, mut frame) = (Vec::new(), Vec::new());
        write_message(&mut bytes, &mut frame, 9, &message()).unwrap();
        let mut same = Vec::new();
        let body = message().write_to_bytes().unwrap();
        link::write_frame(&mut same, Writer::default().u64(9).bytes(&body)).unwrap();
        assert_eq!(bytes, same);
        write_message(&mut bytes, &mut frame, 10, &message()).unwrap();
        let mut stream = &bytes[..];
        assert_eq!(read_message(&mut stream).unwrap(), Some((9, message())));
        assert_eq!(read_message(&mut stream).unwrap(), Some((10, message())));
        assert_eq!(read_message(&mut stream).unwrap(), None);
    }

    #[test]
    fn damaged_and_cut_and_large_frames_are_refused() {
        let mut bytes = Vec::new();
        write_message(&mut bytes, &mut Vec::new(), 9, &message()).unwrap();
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
        write_message(&mut bytes, &mut Vec::new(), 9, &huge).unwrap();
        assert!(bytes.is_empty());
    }
}
