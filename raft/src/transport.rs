//! The network of a site: one TCP connection to each peer, for what is sent to it, and threads.
//!
//! A connection begins with a greeting, and then has frames, each with one message. Their layout is drawn
//! in `docs/internals/consensus.md`. Between machines connections are encrypted, and both sides show a
//! certificate of the cluster's authority; without certificates only loopback addresses are allowed. A
//! message that cannot be sent at once is lost: the consensus sends again what matters.

use std::collections::HashMap;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use protobuf::Message as _;
use raft::eraftpb::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::bytes_io::{Reader, Writer};
use crate::error::{LogError, Result};
use crate::site::{Handle, Network};

/// A larger frame is refused, and its connection closed.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

const MAGIC: &[u8; 8] = b"TDBRAFT\n";
const VERSION: u8 = 1;
const GREETING_BYTES: usize = 8 + 1 + 8 + 8 + 4;
const QUEUE_MAX: usize = 64; // messages that wait for a connection
const INCOMING_MAX: usize = 256; // connections; a site has some for each of its few peers
const PATIENCE: Duration = Duration::from_secs(5); // for connecting, the greeting, and each write
const RETRY: Duration = Duration::from_millis(100);

/// Files in PEM with which both sides of a connection show who they are.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The authority of the cluster. Whoever has a certificate of it is a peer.
    pub authority: PathBuf,
    /// The certificate of this site; it has the names or addresses that peers connect to.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone)]
struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    fn load(files: &TlsFiles) -> Result<Self> {
        let cannot = |what: &str, path: &PathBuf, error: &dyn std::fmt::Display| {
            LogError::Refused(format!("{}: cannot read {what}: {error}", path.display()))
        };
        let certificates = |path: &PathBuf| -> Result<Vec<CertificateDer<'static>>> {
            let read = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
            match read {
                Ok(found) if found.is_empty() => Err(cannot("a certificate", path, &"it has none")),
                Ok(found) => Ok(found),
                Err(error) => Err(cannot("a certificate", path, &error)),
            }
        };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.authority)? {
            roots.add(certificate).map_err(|error| cannot("the authority", &files.authority, &error))?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&files.certificate)?;
        let key = || {
            PrivateKeyDer::from_pem_file(&files.key).map_err(|error| cannot("the key", &files.key, &error))
        };
        let unfit =
            |error: &dyn std::fmt::Display| cannot("the certificate of this site", &files.certificate, error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| cannot("the authority", &files.authority, &error))?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key()?)
            .map_err(|error| unfit(&error))?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key()?)
            .map_err(|error| unfit(&error))?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }
}

/// What the threads of a transport share.
struct Shared {
    replica: u64,
    tls: Option<Tls>,
    handle: Mutex<Option<Handle>>, // once the site is open
    peers: Mutex<HashMap<u64, Peer>>,
    incoming: Mutex<HashMap<u64, TcpStream>>, // to end them; numbered as they came
    is_closed: AtomicBool,
}

struct Peer {
    queue: SyncSender<(u64, Message)>,
    address: String,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Owned by whoever opens the site; dropping it closes all connections and ends its threads.
pub struct Transport {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepts: Option<JoinHandle<()>>,
}

/// Queues messages for the peers of a transport.
pub struct Sender(Arc<Shared>);

impl Network for Sender {
    fn send(&mut self, group: u64, message: Message) {
        let (to, mut is_lost) = (message.to, true);
        if let Some(peer) = locked(&self.0.peers).get(&to) {
            is_lost = matches!(peer.queue.try_send((group, message)), Err(TrySendError::Full(_)));
        }
        if is_lost {
            self.0.unreachable(to);
        }
    }
}

impl Transport {
    /// Listens at an address, `host:port`. Port 0 takes a free one.
    pub fn listen(address: &str, replica: u64, tls: Option<&TlsFiles>) -> Result<Self> {
        let tls = tls.map(Tls::load).transpose()?;
        check_address(address, tls.is_some())?;
        let cannot = |error: io::Error| LogError::Refused(format!("{address}: cannot listen: {error}"));
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Arc::new(Shared {
            replica,
            tls,
            handle: Mutex::new(None),
            peers: Mutex::new(HashMap::new()),
            incoming: Mutex::new(HashMap::new()),
            is_closed: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        let accepts = spawn("topicdb-accept", move || accepting.accept(&listener))?;
        Ok(Self { shared, address, accepts: Some(accepts) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what the site sends by.
    pub fn sender(&self) -> Sender {
        Sender(self.shared.clone())
    }

    /// Says which site takes the messages; those before are lost.
    pub fn serve(&self, handle: Handle) {
        *locked(&self.shared.handle) = Some(handle);
    }

    /// Says where a peer is, or that it has moved, or with `None` that it is gone.
    pub fn set_peer(&self, replica: u64, address: Option<&str>) -> Result<()> {
        let mut peers = locked(&self.shared.peers);
        let Some(address) = address else {
            peers.remove(&replica); // which ends its thread
            return Ok(());
        };
        check_address(address, self.shared.tls.is_some())?;
        if peers.get(&replica).is_some_and(|peer| peer.address == address) {
            return Ok(());
        }
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let (shared, place) = (self.shared.clone(), address.to_owned());
        spawn("topicdb-send", move || shared.send_all(replica, &place, &messages))?;
        peers.insert(replica, Peer { queue, address: address.to_owned() });
        Ok(())
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        locked(&self.shared.peers).clear();
        *locked(&self.shared.handle) = None;
        for (_, stream) in locked(&self.shared.incoming).drain() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE); // wakes the thread that accepts
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let made = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    made.map_err(|error| LogError::Disk(format!("cannot start a thread: {error}")))
}

/// Refuses addresses of other machines if connections are not encrypted.
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

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Shared {
    fn unreachable(&self, replica: u64) {
        if let Some(handle) = locked(&self.handle).as_ref() {
            handle.unreachable(replica);
        }
    }

    /// Sends to one peer until it is forgotten, and connects again when it must.
    fn send_all(&self, to: u64, address: &str, messages: &Receiver<(u64, Message)>) {
        while !self.is_closed.load(Ordering::Relaxed) {
            match self.connect(to, address) {
                Ok(stream) => match send_frames(stream, messages) {
                    Ok(()) => return,
                    Err(_) => self.unreachable(to),
                },
                Err(_) => {
                    self.unreachable(to);
                    // What was queued meanwhile is old.
                    match messages.recv_timeout(RETRY) {
                        Err(RecvTimeoutError::Disconnected) => return,
                        _ => while messages.try_recv().is_ok() {},
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    fn connect(&self, to: u64, address: &str) -> io::Result<Box<dyn Stream>> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let place = address.to_socket_addrs()?.next().ok_or_else(none)?;
        let stream = TcpStream::connect_timeout(&place, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream: Box<dyn Stream> = match &self.tls {
            Some(tls) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(host).map_err(io::Error::other)?;
                let connection = ClientConnection::new(tls.client.clone(), name).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(connection, stream))
            }
            None => Box::new(stream),
        };
        let mut greeting = Writer::default();
        greeting.bytes(MAGIC).u8(VERSION).u64(self.replica).u64(to);
        stream.write_all(&greeting.seal())?;
        stream.flush()?;
        Ok(stream)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for (number, stream) in (0..).zip(listener.incoming()) {
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            let Ok((stream, copy)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream))) else {
                std::thread::sleep(RETRY); // there are too many files open, say
                continue;
            };
            let mut incoming = locked(&self.incoming);
            if incoming.len() >= INCOMING_MAX {
                continue; // which closes it
            }
            incoming.insert(number, copy);
            drop(incoming);
            let shared = self.clone();
            let receive = move || {
                let _ = shared.receive_all(stream);
                locked(&shared.incoming).remove(&number);
            };
            if spawn("topicdb-receive", receive).is_err() {
                locked(&self.incoming).remove(&number);
            }
        }
    }

    /// Hands over what a peer sends, until it closes the connection or says something wrong.
    fn receive_all(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let timer = stream.try_clone()?;
        let stream: Box<dyn Stream> = match &self.tls {
            Some(tls) => {
                let connection = ServerConnection::new(tls.server.clone()).map_err(io::Error::other)?;
                Box::new(StreamOwned::new(connection, stream))
            }
            None => Box::new(stream),
        };
        let mut stream = BufReader::new(stream);
        let mut greeting = [0; GREETING_BYTES];
        stream.read_exact(&mut greeting)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a peer of this site");
        let from = read_greeting(&greeting, self.replica).ok_or_else(wrong)?;
        timer.set_read_timeout(None)?;
        while let Some((group, message)) = read_frame(&mut stream)? {
            let handle = locked(&self.handle).clone();
            if let Some(handle) = handle.filter(|_| message.from == from) {
                handle.receive(group, message);
            }
        }
        Ok(())
    }
}

/// Returns the replica that greets, if it speaks this version and means this replica.
fn read_greeting(greeting: &[u8], replica: u64) -> Option<u64> {
    let mut greeting = Reader::unseal(greeting)?;
    let is_known = greeting.bytes(8)? == MAGIC && greeting.u8()? == VERSION;
    let (from, to) = (greeting.u64()?, greeting.u64()?);
    (is_known && to == replica).then_some(from)
}

/// Sends messages until their queue is gone. An error says that the connection is.
fn send_frames(stream: Box<dyn Stream>, messages: &Receiver<(u64, Message)>) -> io::Result<()> {
    let mut stream = BufWriter::with_capacity(64 << 10, stream);
    while let Ok(first) = messages.recv() {
        let mut next = Some(first);
        while let Some((group, message)) = next {
            write_frame(&mut stream, group, &message)?;
            next = messages.try_recv().ok();
        }
        stream.flush()?;
    }
    Ok(())
}

fn write_frame(stream: &mut impl Write, group: u64, message: &Message) -> io::Result<()> {
    let body = message.write_to_bytes().map_err(io::Error::other)?;
    let mut frame = Writer::default();
    frame.u64(group).bytes(&body);
    let frame = frame.seal();
    if frame.len() > FRAME_BYTES_MAX {
        return Ok(()); // no message is so large; if one is, it is lost
    }
    stream.write_all(&(frame.len() as u32).to_le_bytes())?;
    stream.write_all(&frame)
}

/// Reads a frame, or `None` at the end of the connection.
fn read_frame(stream: &mut impl Read) -> io::Result<Option<(u64, Message)>> {
    let mut size = [0; 4];
    if stream.read(&mut size[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut size[1..])?;
    let size = u32::from_le_bytes(size) as usize;
    let wrong = |text| io::Error::new(io::ErrorKind::InvalidData, text);
    if size > FRAME_BYTES_MAX {
        return Err(wrong("a frame is too large"));
    }
    let mut frame = Vec::new();
    stream.take(size as u64).read_to_end(&mut frame)?;
    if frame.len() < size {
        return Err(wrong("a frame is cut off"));
    }
    let mut reader = Reader::unseal(&frame).ok_or_else(|| wrong("a frame is damaged"))?;
    let group = reader.u64().ok_or_else(|| wrong("a frame is too short"))?;
    let message = Message::parse_from_bytes(reader.0).map_err(io::Error::other)?;
    Ok(Some((group, message)))
}

/// Connects to a peer as this transport does, and waits whether the peer lets it in.
#[cfg(test)]
pub fn try_greeting(transport: &Transport, to: u64, address: &str) -> io::Result<()> {
    let mut stream = transport.shared.connect(to, address)?;
    // A peer says nothing, so a refusal shows as an alert or the end of the connection.
    match stream.read(&mut [0; 1]) {
        Ok(_) => Err(io::Error::other("the peer closed the connection")),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(()),
        Err(error) => Err(error),
    }
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
        write_frame(&mut bytes, 9, &message()).unwrap();
        write_frame(&mut bytes, 10, &message()).unwrap();
        let mut stream = &bytes[..];
        assert_eq!(read_frame(&mut stream).unwrap(), Some((9, message())));
        assert_eq!(read_frame(&mut stream).unwrap(), Some((10, message())));
        assert_eq!(read_frame(&mut stream).unwrap(), None);
    }

    #[test]
    fn damaged_and_cut_and_large_frames_are_refused() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, 9, &message()).unwrap();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x10;
            assert!(read_frame(&mut &damaged[..]).is_err(), "byte {place}");
        }
        for length in 1..bytes.len() {
            assert!(read_frame(&mut &bytes[..length]).is_err(), "{length} bytes");
        }
        let large = [(FRAME_BYTES_MAX as u32 + 1).to_le_bytes().to_vec(), vec![0; 99]].concat();
        assert!(read_frame(&mut &large[..]).is_err());
        let huge = Message { context: vec![0; FRAME_BYTES_MAX].into(), ..message() };
        let mut bytes = Vec::new();
        write_frame(&mut bytes, 9, &huge).unwrap();
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_greeting_names_both_replicas() {
        let mut greeting = Writer::default();
        let greeting = greeting.bytes(MAGIC).u8(VERSION).u64(3).u64(5).seal();
        assert_eq!(greeting.len(), GREETING_BYTES);
        assert_eq!(read_greeting(&greeting, 5), Some(3));
        assert_eq!(read_greeting(&greeting, 6), None);
        let mut other = greeting.clone();
        other[8] = 2;
        assert_eq!(read_greeting(&other, 5), None);
    }

    #[test]
    fn connections_that_end_are_forgotten_and_too_many_are_closed() {
        let transport = Transport::listen("127.0.0.1:0", 1, None).unwrap();
        let count = || locked(&transport.shared.incoming).len();
        let wait_for = |wanted: usize| {
            let began = std::time::Instant::now();
            while count() != wanted {
                assert!(began.elapsed() < Duration::from_secs(60), "{} of {wanted}", count());
                std::thread::yield_now();
            }
        };
        let connect = || TcpStream::connect(transport.address()).unwrap();
        let streams: Vec<TcpStream> = (0..INCOMING_MAX).map(|_| connect()).collect();
        wait_for(INCOMING_MAX);
        assert_eq!(connect().read(&mut [0; 1]).unwrap(), 0, "it is closed");
        drop(streams);
        wait_for(0);
        let mut stranger = connect();
        stranger.write_all(&[1; GREETING_BYTES]).unwrap();
        assert!(matches!(stranger.read(&mut [0; 1]), Ok(0) | Err(_)), "it said something wrong");
        wait_for(0);
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
        assert!(Transport::listen("0.0.0.0:0", 1, None).is_err());
    }
}
