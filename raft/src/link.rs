//! How a connection between sites begins, whatever it is for, and the frames that it has.
//!
//! Whoever connects sends a greeting, which says what the connection is for. Between machines it is
//! encrypted; without certificates only loopback addresses are allowed. The layouts of greetings and frames
//! are drawn in `docs/internals/consensus.md`.

use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use crate::bytes_io::{Reader, Writer};
use crate::error::{LogError, Result};
use crate::threads::locked;
use crate::tls::{Tls, TlsFiles};

/// A larger frame is refused, and its connection closed.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// For connecting, for the greeting, and for each write.
pub const PATIENCE: Duration = Duration::from_secs(5);

const MAGIC: &[u8; 8] = b"TDBRAFT\n";
const VERSION: u8 = 1;
pub const GREETING_BYTES: usize = 8 + 1 + 1 + 8 + 8 + 4;
/// In a greeting with requests: to whichever replica is there, or from a program that has no replica yet.
pub const NO_REPLICA: u64 = 0;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Messages of the consensus, from the side that connects.
    Messages = 1,
    /// Requests of the side that connects, and answers of the other one.
    Requests = 2,
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A socket whose reads and writes all end by one point in time, if there is one.
struct Timed {
    socket: TcpStream,
    until: Arc<Mutex<Option<Instant>>>,
}

impl Timed {
    fn hurry(&self) -> io::Result<()> {
        let Some(until) = *locked(&self.until) else {
            return Ok(());
        };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.set_write_timeout(Some(left))
    }
}

impl Read for Timed {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        self.hurry()?;
        self.socket.read(place)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hurry()?;
        self.socket.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.hurry()?;
        self.socket.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// A connection to another replica.
pub struct Link {
    stream: Box<dyn Stream>,
    socket: TcpStream,
    until: Arc<Mutex<Option<Instant>>>,
}

impl Link {
    fn new(socket: TcpStream, wrap: impl FnOnce(Timed) -> io::Result<Box<dyn Stream>>) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let until = Arc::new(Mutex::new(Some(Instant::now() + PATIENCE)));
        let timed = Timed { socket: socket.try_clone()?, until: until.clone() };
        Ok(Self { stream: wrap(timed)?, socket, until })
    }

    /// Everything that is read and written from now on must end by then.
    pub fn hurry(&self, until: Instant) {
        *locked(&self.until) = Some(until);
    }

    /// From now on each read waits as long as this, or for ever, and each write for `PATIENCE`.
    pub fn relax(&self, wait: Option<Duration>) -> io::Result<()> {
        *locked(&self.until) = None;
        self.socket.set_read_timeout(wait)?;
        self.socket.set_write_timeout(Some(PATIENCE))
    }

    /// Returns what can end the connection while another thread uses it.
    pub fn socket(&self) -> io::Result<TcpStream> {
        self.socket.try_clone()
    }

    /// Says whether the other side has closed the connection, or said something that nobody waits for.
    pub fn is_stale(&self) -> bool {
        let heard = self.socket.set_nonblocking(true).and_then(|()| self.socket.peek(&mut [0; 1]));
        let is_silent = matches!(heard, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        !is_silent || self.socket.set_nonblocking(false).is_err()
    }
}

impl Read for Link {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        self.stream.read(place)
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Makes connections to other replicas, and lets in those that they make.
pub struct Links {
    replica: u64,
    tls: Option<Tls>,
}

impl Links {
    pub fn new(replica: u64, tls: Option<&TlsFiles>) -> Result<Self> {
        Ok(Self { replica, tls: tls.map(Tls::load).transpose()? })
    }

    /// Refuses addresses of other machines if connections are not encrypted.
    pub fn check_address(&self, address: &str) -> Result<()> {
        check_address(address, self.tls.is_some())
    }

    /// Connects to a replica. For requests it returns once the replica has let this one in, and they may go to
    /// `NO_REPLICA`.
    pub fn connect(&self, kind: Kind, to: u64, address: &str) -> io::Result<Link> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let place = address.to_socket_addrs()?.next().ok_or_else(none)?;
        let socket = TcpStream::connect_timeout(&place, PATIENCE)?;
        let mut link = Link::new(socket, |timed| {
            let Some(tls) = &self.tls else {
                return Ok(Box::new(timed));
            };
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let connection = ClientConnection::new(tls.client.clone(), name).map_err(io::Error::other)?;
            Ok(Box::new(StreamOwned::new(connection, timed)))
        })?;
        self.greet(&mut link, kind, to)?;
        if kind == Kind::Requests {
            let (answers, from) = self.read_greeting(&mut link)?;
            if answers != kind || (from != to && to != NO_REPLICA) {
                return Err(wrong("another replica is at that address"));
            }
        }
        link.relax(None)?;
        Ok(link)
    }

    /// Reads the greeting of a connection. Returns what it is for, and which replica it is.
    pub fn accept(&self, socket: TcpStream) -> io::Result<(Link, Kind, u64)> {
        let mut link = Link::new(socket, |timed| {
            let Some(tls) = &self.tls else {
                return Ok(Box::new(timed));
            };
            let connection = ServerConnection::new(tls.server.clone()).map_err(io::Error::other)?;
            Ok(Box::new(StreamOwned::new(connection, timed)))
        })?;
        let (kind, from) = self.read_greeting(&mut link)?;
        Ok((link, kind, from))
    }

    /// Sends a greeting. The side that answers requests sends one, too, which lets the other side in.
    pub fn greet(&self, link: &mut Link, kind: Kind, to: u64) -> io::Result<()> {
        link.write_all(&greeting(kind, self.replica, to))?;
        link.flush()
    }

    fn read_greeting(&self, link: &mut Link) -> io::Result<(Kind, u64)> {
        let mut greeting = [0; GREETING_BYTES];
        link.read_exact(&mut greeting)?;
        read_greeting(&greeting, self.replica).ok_or_else(|| wrong("not a peer of this site"))
    }
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Ends a connection that another thread uses.
pub fn cut(socket: &TcpStream) {
    let _ = socket.shutdown(Shutdown::Both); // an error says that it has ended
}

pub fn greeting(kind: Kind, from: u64, to: u64) -> Vec<u8> {
    Writer::default().bytes(MAGIC).u8(VERSION).u8(kind as u8).u64(from).u64(to).seal()
}

/// Returns the kind of the connection, and the replica that greets, if it speaks this version and means this
/// replica.
fn read_greeting(greeting: &[u8], replica: u64) -> Option<(Kind, u64)> {
    let mut greeting = Reader::unseal(greeting)?;
    let is_known = greeting.bytes(8)? == MAGIC && greeting.u8()? == VERSION;
    let kind = match greeting.u8()? {
        1 => Kind::Messages,
        2 => Kind::Requests,
        _ => return None,
    };
    let (from, to) = (greeting.u64()?, greeting.u64()?);
    let is_for_any = kind == Kind::Requests && to == NO_REPLICA;
    (is_known && (to == replica || is_for_any)).then_some((kind, from))
}

/// Seals a frame, and writes it.
pub fn write_frame(stream: &mut impl Write, frame: &mut Writer) -> io::Result<()> {
    let frame = frame.seal();
    stream.write_all(&(frame.len() as u32).to_le_bytes())?;
    stream.write_all(&frame)
}

/// Reads a frame, or returns `None` at the end of the connection. The checksum fits, and is cut off.
pub fn read_frame(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut size = [0; 4];
    if stream.read(&mut size[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut size[1..])?;
    let size = u32::from_le_bytes(size) as usize;
    if size > FRAME_BYTES_MAX {
        return Err(wrong("a frame is too large"));
    }
    // Memory that no bytes have come for takes no page of the machine's.
    let mut frame = Vec::with_capacity(size);
    stream.take(size as u64).read_to_end(&mut frame)?;
    if frame.len() < size {
        return Err(wrong("a frame is cut off"));
    }
    let Some(Reader(body)) = Reader::unseal(&frame) else {
        return Err(wrong("a frame is damaged"));
    };
    frame.truncate(body.len());
    Ok(Some(frame))
}

fn check_address(address: &str, is_encrypted: bool) -> Result<()> {
    let refused = |text: &str| Err(LogError::Refused(format!("{address}: {text}")));
    let Some((host, port)) = address.rsplit_once(':') else {
        return refused("this is no address of the form host:port");
    };
    if port.parse::<u16>().is_err() || host.is_empty() {
        return refused("this is no address of the form host:port");
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !is_encrypted && !is_loopback {
        return refused(
            "without certificates sites talk only on one machine: name a loopback address, or give the \
             certificates of the cluster",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_has_these_bytes() {
        let golden = [
            84, 68, 66, 82, 65, 70, 84, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 191, 50,
            90, 108,
        ];
        let made = greeting(Kind::Requests, 3, 5);
        assert_eq!(made.len(), GREETING_BYTES);
        assert_eq!(made, golden);
    }

    #[test]
    fn a_greeting_names_its_kind_and_both_replicas() {
        for kind in [Kind::Messages, Kind::Requests] {
            assert_eq!(read_greeting(&greeting(kind, 3, 5), 5), Some((kind, 3)));
            assert_eq!(read_greeting(&greeting(kind, 3, 5), 6), None);
            let is_for_any = kind == Kind::Requests;
            assert_eq!(read_greeting(&greeting(kind, 3, NO_REPLICA), 6).is_some(), is_for_any);
        }
        for (place, value) in [(0, b'x'), (8, 0), (8, 2), (9, 0), (9, 3)] {
            let mut other = greeting(Kind::Messages, 3, 5);
            other[place] = value;
            assert_eq!(read_greeting(&other, 5), None, "its checksum is wrong");
            other.truncate(GREETING_BYTES - 4);
            let other = Writer(other).seal();
            assert_eq!(read_greeting(&other, 5), None, "byte {place} is {value}");
        }
    }

    #[test]
    fn a_socket_that_must_hurry_ends_in_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let mut link = Link::new(socket, |timed| Ok(Box::new(timed))).unwrap();
        assert!(!link.is_stale());
        link.hurry(Instant::now());
        assert_eq!(link.read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(link.write(&[0; 1]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        link.hurry(Instant::now() + Duration::from_millis(10));
        assert!(link.read(&mut [0; 1]).is_err());
        link.relax(None).unwrap();
        other.write_all(b"x").unwrap();
        link.socket.peek(&mut [0; 1]).unwrap();
        assert!(link.is_stale());
    }

    #[test]
    fn without_certificates_only_loopback_is_allowed() {
        for address in ["127.0.0.1:0", "[::1]:80", "localhost:9"] {
            check_address(address, false).unwrap();
        }
        for address in ["10.0.0.1:80", "0.0.0.0:80", "example.com:80"] {
            let text = check_address(address, false).unwrap_err().to_string();
            assert!(text.contains(address) && text.contains("certificates"), "{text}");
            check_address(address, true).unwrap();
        }
        for address in ["127.0.0.1", "localhost:port", ":80", "localhost:99999"] {
            assert!(check_address(address, true).is_err(), "{address}");
        }
    }
}
