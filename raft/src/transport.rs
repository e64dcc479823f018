//! The network of a site: it listens, takes connections in, and has one to each peer for what is sent to it.
//!
//! A message of the consensus that cannot be sent at once is lost: the consensus sends again what matters.
//! Requests have connections of their own (`requests.rs`, `answers.rs`).

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use raft::eraftpb::Message;

use crate::answers::{answer_all, Answerer};
use crate::error::{LogError, Result};
use crate::incoming::{Entry, Incoming};
use crate::link::{Kind, Links, PATIENCE};
use crate::messages;
use crate::requests::Requests;
use crate::site::{Handle, Network};
use crate::threads::{locked, spawn};
pub use crate::tls::TlsFiles;

const QUEUE_MAX: usize = 64; // messages that wait for a connection
const RETRY: Duration = Duration::from_millis(100);

/// What the threads of a transport share.
struct Shared {
    links: Arc<Links>,
    handle: Mutex<Option<Handle>>,     // once the site is open
    answerer: Mutex<Option<Answerer>>, // once requests are answered
    peers: Mutex<HashMap<u64, Peer>>,
    incoming: Arc<Incoming>,
    is_closed: AtomicBool,
}

struct Peer {
    queue: SyncSender<(u64, Message)>,
    address: String,
}

/// Owned by whoever opens the site; dropping it closes all connections and ends its threads.
pub struct Transport {
    shared: Arc<Shared>,
    requests: Arc<Requests>,
    address: SocketAddr,
    accepts: Mutex<Option<JoinHandle<()>>>,
}

/// Queues messages for the peers of a transport.
pub struct Sender {
    shared: Arc<Shared>,
    requests: Arc<Requests>,
}

impl Network for Sender {
    fn send(&mut self, group: u64, message: Message) {
        let (to, mut is_lost) = (message.to, true);
        if let Some(peer) = locked(&self.shared.peers).get(&to) {
            is_lost = matches!(peer.queue.try_send((group, message)), Err(TrySendError::Full(_)));
        }
        if is_lost {
            self.shared.unreachable(to);
        }
    }

    fn lost(&mut self, replica: u64) {
        self.requests.give_up(replica);
    }
}

impl Transport {
    /// Listens at an address, `host:port`. Port 0 takes a free one.
    pub fn listen(address: &str, replica: u64, tls: Option<&TlsFiles>) -> Result<Self> {
        let links = Arc::new(Links::new(replica, tls)?);
        links.check_address(address)?;
        let cannot = |error: io::Error| LogError::Refused(format!("{address}: cannot listen: {error}"));
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Arc::new(Shared {
            links: links.clone(),
            handle: Mutex::new(None),
            answerer: Mutex::new(None),
            peers: Mutex::new(HashMap::new()),
            incoming: Arc::default(),
            is_closed: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        let accepts = spawn("topicdb-accept", move || accepting.accept(&listener))?;
        let requests = Arc::new(Requests::new(links));
        Ok(Self { shared, requests, address, accepts: Mutex::new(Some(accepts)) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what the site sends by.
    pub fn sender(&self) -> Sender {
        Sender { shared: self.shared.clone(), requests: self.requests.clone() }
    }

    /// Returns what asks other replicas. It may be used by any thread, also after the transport is gone.
    pub fn requests(&self) -> &Arc<Requests> {
        &self.requests
    }

    /// Says which site takes the messages; those before are lost.
    pub fn serve(&self, handle: Handle) {
        *locked(&self.shared.handle) = Some(handle);
    }

    /// Says who answers requests; nobody is let in with one before.
    pub fn answer_by(&self, answerer: Answerer) {
        *locked(&self.shared.answerer) = Some(answerer);
    }

    /// Says where a peer is, or that it has moved, or with `None` that it is gone.
    pub fn set_peer(&self, replica: u64, address: Option<&str>) -> Result<()> {
        if let Some(address) = address {
            self.shared.links.check_address(address)?;
        }
        self.requests.set_peer(replica, address);
        let mut peers = locked(&self.shared.peers);
        let Some(address) = address else {
            peers.remove(&replica); // which ends its thread
            return Ok(());
        };
        if peers.get(&replica).is_some_and(|peer| peer.address == address) {
            return Ok(());
        }
        let (queue, messages) = sync_channel(QUEUE_MAX);
        let (shared, place) = (self.shared.clone(), address.to_owned());
        spawn("topicdb-send", move || shared.send_all(replica, &place, &messages))?;
        peers.insert(replica, Peer { queue, address: address.to_owned() });
        Ok(())
    }

    /// Closes all connections: nobody comes in any more, and whoever waits for an answer gets none.
    pub fn close(&self) {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        locked(&self.shared.peers).clear();
        *locked(&self.shared.handle) = None;
        self.requests.close();
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE); // wakes the thread that accepts
        if let Some(accepts) = locked(&self.accepts).take() {
            let _ = accepts.join();
        }
        self.shared.incoming.cut_all();
    }

    /// Waits until no request is being answered. REQUIRES: the transport is closed.
    pub fn wait(&self) {
        self.shared.incoming.wait();
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.close();
        self.wait();
    }
}

impl Shared {
    fn unreachable(&self, replica: u64) {
        if let Some(handle) = locked(&self.handle).as_ref() {
            handle.unreachable(replica);
        }
    }

    /// Sends to one peer until it is forgotten, and connects again when it must.
    fn send_all(&self, to: u64, address: &str, messages: &Receiver<(u64, Message)>) {
        while !self.is_closed.load(Ordering::Relaxed) {
            match self.links.connect(Kind::Messages, to, address) {
                Ok(link) => match messages::send_all(link, messages) {
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

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for (number, stream) in (0..).zip(listener.incoming()) {
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            let Ok((copy, socket)) = stream.and_then(|socket| Ok((socket.try_clone()?, socket))) else {
                std::thread::sleep(RETRY); // there are too many files open, say
                continue;
            };
            let Some(entry) = self.incoming.enter(number, copy) else {
                continue; // which closes it
            };
            let shared = self.clone();
            // Without a thread the connection is closed.
            let _ = spawn("topicdb-receive", move || {
                let _ = shared.receive_all(socket, &entry);
            });
        }
    }

    /// Does what a connection is for, until the peer closes it or says something wrong.
    fn receive_all(&self, socket: TcpStream, entry: &Entry) -> io::Result<()> {
        let (mut link, kind, from) = self.links.accept(socket)?;
        match kind {
            Kind::Messages => {
                link.relax(None)?;
                messages::receive_all(link, |group, message| {
                    let handle = locked(&self.handle).clone();
                    if let Some(handle) = handle.filter(|_| message.from == from) {
                        handle.receive(group, message);
                    }
                })
            }
            Kind::Requests => {
                let answerer = locked(&self.answerer).clone();
                let Some(answerer) = answerer.filter(|_| entry.admit(from)) else {
                    return Ok(()); // the peer tries again
                };
                self.links.greet(&mut link, kind, from)?;
                answer_all(link, from, &answerer, &self.is_closed)
            }
        }
    }
}

/// Connects to a peer as this transport does, and waits whether the peer lets it in.
#[cfg(test)]
pub fn try_greeting(transport: &Transport, to: u64, address: &str) -> io::Result<()> {
    use std::io::Read;
    let mut link = transport.shared.links.connect(Kind::Messages, to, address)?;
    link.relax(Some(PATIENCE))?;
    // A peer says nothing, so a refusal shows as an alert or the end of the connection.
    match link.read(&mut [0; 1]) {
        Ok(_) => Err(io::Error::other("the peer closed the connection")),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::incoming::CONNECTIONS_MAX;
    use crate::link::GREETING_BYTES;

    #[test]
    fn connections_that_end_are_forgotten_and_too_many_are_closed() {
        let transport = Transport::listen("127.0.0.1:0", 1, None).unwrap();
        let count = || transport.shared.incoming.count();
        let wait_for = |wanted: usize| {
            let began = std::time::Instant::now();
            while count() != wanted {
                assert!(began.elapsed() < Duration::from_secs(60), "{} of {wanted}", count());
                std::thread::yield_now();
            }
        };
        let connect = || TcpStream::connect(transport.address()).unwrap();
        let streams: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect()).collect();
        wait_for(CONNECTIONS_MAX);
        assert_eq!(connect().read(&mut [0; 1]).unwrap(), 0, "it is closed");
        drop(streams);
        wait_for(0);
        let mut stranger = connect();
        stranger.write_all(&[1; GREETING_BYTES]).unwrap();
        assert!(matches!(stranger.read(&mut [0; 1]), Ok(0) | Err(_)), "it said something wrong");
        wait_for(0);
    }

    #[test]
    fn a_site_listens_only_where_it_may() {
        assert!(Transport::listen("0.0.0.0:0", 1, None).is_err());
        let transport = Transport::listen("127.0.0.1:0", 1, None).unwrap();
        assert!(transport.set_peer(2, Some("10.0.0.1:80")).is_err());
    }
}
