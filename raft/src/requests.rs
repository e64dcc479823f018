//! Requests to other replicas: bytes go there, and bytes come back.
//!
//! A request has a connection of its own while it is under way, so that a slow answer holds up no other
//! request, and a large one no message of the consensus. Connections are kept for later requests. Whoever asks
//! writes and reads; only connecting has a thread, since nothing else could end it in time. A request is sent
//! at most once: what is not sent yet waits for a connection, and what is sent fails with its connection.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::bytes_io::{Reader, Writer};
use crate::link::{cut, read_frame, write_frame, Kind, Link, Links, FRAME_BYTES_MAX, NO_REPLICA};
use crate::threads::{locked, spawn};

/// The largest request, and the largest answer: a frame without its other fields.
pub const PAYLOAD_BYTES_MAX: usize = FRAME_BYTES_MAX - 8 - 1 - 4;
/// A connection without requests for so long is used no more.
pub const IDLE_MAX: Duration = Duration::from_secs(30);

/// Connections to one replica, and so requests that are under way to it.
pub const CONNECTIONS_MAX: usize = 16;
const RETRY: Duration = Duration::from_millis(100);
const LIMIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// No answer came in time, or none can come any more. The replica may have been asked.
    TimedOut(String),
    /// No connection came in time, or nobody knows where the replica is. It was not asked.
    NotAsked(String),
    /// The replica was asked, and said that it has no answer.
    NoAnswer(String),
    /// The request cannot be asked. Nothing was sent.
    Refused(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(text) | Self::NotAsked(text) | Self::NoAnswer(text) | Self::Refused(text) => {
                f.write_str(text)
            }
        }
    }
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    Request = 1,
    Answer = 2,
    /// The payload is a text that says why.
    NoAnswer = 3,
}

/// Asks other replicas. Shared by all threads that ask.
pub struct Requests {
    links: Arc<Links>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    peers: HashMap<u64, Peer>,
    last: u64, // number of a request, or of a peer
}

impl State {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns a replica if it is still at the same address.
    fn peer(&mut self, replica: u64, number: u64) -> Option<&mut Peer> {
        self.peers.get_mut(&replica).filter(|peer| peer.number == number)
    }
}

/// A replica at an address.
struct Peer {
    number: u64, // another one at another address
    address: String,
    idle: Vec<(Link, Instant)>,    // since when
    busy: HashMap<u64, TcpStream>, // what ends them, by the number of the request
    connecting: usize,
    waiting: usize, // requests without a connection
    failed: Option<Failed>,
}

/// The last attempt to connect, if it failed.
struct Failed {
    why: String,
    again: Instant, // not earlier
}

impl Peer {
    fn new(number: u64, address: &str) -> Self {
        let (idle, busy) = (Vec::new(), HashMap::new());
        Self { number, address: address.to_owned(), idle, busy, connecting: 0, waiting: 0, failed: None }
    }

    /// Takes a connection that has no request, if there is one.
    fn take_idle(&mut self) -> Option<(Link, TcpStream)> {
        self.idle.retain(|(_, since)| since.elapsed() < IDLE_MAX);
        while let Some((link, _)) = self.idle.pop() {
            if let (false, Ok(socket)) = (link.is_stale(), link.socket()) {
                return Some((link, socket));
            }
        }
        None
    }

    /// Says whether another connection is to be made, for a request that waits.
    fn wants_connection(&self, now: Instant) -> bool {
        self.connecting <= self.waiting
            && self.busy.len() + self.connecting < CONNECTIONS_MAX
            && self.failed.as_ref().is_none_or(|failed| failed.again <= now && self.connecting == 0)
    }

    /// Notes how an attempt to connect ended.
    fn connected(&mut self, made: Result<Link, String>) {
        self.connecting -= 1;
        self.failed = None;
        match made {
            Ok(link) => self.idle.push((link, Instant::now())),
            Err(why) => self.failed = Some(Failed { why, again: Instant::now() + RETRY }),
        }
    }

    /// Ends the requests that are under way.
    fn cut(&self) {
        self.busy.values().for_each(cut);
    }
}

/// A connection with the request that has it.
struct Taken {
    link: Link,
    number: u64,
    peer: u64,
    address: String,
}

impl Requests {
    pub fn new(links: Arc<Links>) -> Self {
        Self { links, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Says where a replica is, or that it is nowhere. Requests under way to another address end.
    pub fn set_peer(&self, replica: u64, address: Option<&str>) {
        let mut state = locked(&self.state);
        let is_same = state.peers.get(&replica).is_some_and(|peer| address == Some(&peer.address));
        if is_same || state.is_closed {
            return;
        }
        if let Some(old) = state.peers.remove(&replica) {
            old.cut();
        }
        if let Some(address) = address {
            let number = state.next();
            state.peers.insert(replica, Peer::new(number, address));
        }
        self.changed.notify_all();
    }

    /// Ends the requests that are under way to a replica, and its connections. Later ones connect anew.
    pub fn give_up(&self, replica: u64) {
        let mut state = locked(&self.state);
        if let Some(peer) = state.peers.get_mut(&replica) {
            peer.cut();
            peer.idle.clear();
        }
    }

    /// Ends all requests: whoever waits gets an answer, and so does whoever asks later.
    pub fn close(&self) {
        let mut state = locked(&self.state);
        state.is_closed = true;
        state.peers.drain().for_each(|(_, peer)| peer.cut());
        self.changed.notify_all();
    }

    /// Sends a request to a replica, and waits for the answer: for a connection at most for
    /// `connect_limit`, and for both at most for `limit`.
    pub fn ask(
        self: &Arc<Self>,
        replica: u64,
        request: &[u8],
        connect_limit: Duration,
        limit: Duration,
    ) -> Result<Vec<u8>, Unanswered> {
        if request.len() > PAYLOAD_BYTES_MAX {
            let text = format!("a request has {} bytes, of at most {PAYLOAD_BYTES_MAX}", request.len());
            return Err(Unanswered::Refused(format!("{text}: ask for less at once")));
        }
        let limit = limit.min(LIMIT_MAX);
        let until = Instant::now() + limit;
        let connect_limit = connect_limit.min(limit);
        let mut taken = self.take(replica, connect_limit, Instant::now() + connect_limit)?;
        let answer = exchange(&mut taken.link, taken.number, request, until);
        let place = format!("replica {replica} at {}", taken.address);
        let is_closed = self.give_back(replica, taken, answer.is_ok());
        match answer {
            Ok((Said::Answer, payload)) => Ok(payload),
            Ok((_, why)) => {
                let why = String::from_utf8_lossy(&why);
                Err(Unanswered::NoAnswer(format!("{place} has no answer: {why}")))
            }
            Err(_) if is_closed => Err(closed()),
            Err(error) if is_late(&error) => {
                let text = format!(
                    "{place} does not answer: nothing came within {limit:?}, and it may have been asked"
                );
                Err(Unanswered::TimedOut(text))
            }
            Err(error) => {
                let text = format!("{place} does not answer: the connection broke after it was asked");
                Err(Unanswered::TimedOut(format!("{text}: {}", text_of(&error))))
            }
        }
    }

    /// Waits for a connection.
    fn take(self: &Arc<Self>, replica: u64, limit: Duration, until: Instant) -> Result<Taken, Unanswered> {
        let mut state = locked(&self.state);
        loop {
            if state.is_closed {
                return Err(closed());
            }
            let number = state.next();
            let Some(peer) = state.peers.get_mut(&replica) else {
                let text = format!("the address of replica {replica} is not known: it was not asked");
                return Err(Unanswered::NotAsked(text));
            };
            if let Some((link, socket)) = peer.take_idle() {
                peer.busy.insert(number, socket);
                return Ok(Taken { link, number, peer: peer.number, address: peer.address.clone() });
            }
            let now = Instant::now();
            if now >= until {
                let why = match &peer.failed {
                    Some(failed) => failed.why.clone(),
                    None if peer.busy.len() == CONNECTIONS_MAX => {
                        "too many requests are under way".to_owned()
                    }
                    None => "it does not take the connection".to_owned(),
                };
                let text = format!("replica {replica} at {} does not answer: it was not asked", peer.address);
                return Err(Unanswered::NotAsked(format!("{text} within {limit:?}: {why}")));
            }
            if peer.wants_connection(now) {
                peer.connecting += 1;
                let (own, number, address) = (self.clone(), peer.number, peer.address.clone());
                if let Err(error) = spawn("topicdb-connect", move || own.connect(replica, number, &address)) {
                    peer.connected(Err(error.to_string()));
                }
            }
            let again = peer.failed.as_ref().map(|failed| failed.again).filter(|again| *again > now);
            let wait = again.map_or(until, |again| again.min(until)) - now;
            peer.waiting += 1;
            let number = peer.number;
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
            if let Some(peer) = state.peer(replica, number) {
                peer.waiting -= 1;
            }
        }
    }

    /// Makes one more connection.
    fn connect(&self, replica: u64, number: u64, address: &str) {
        let made = self.links.connect(Kind::Requests, replica, address);
        if let Some(peer) = locked(&self.state).peer(replica, number) {
            peer.connected(made.map_err(|error| text_of(&error)));
        }
        self.changed.notify_all();
    }

    /// Keeps a connection for later requests if it is sound. Returns whether the site is closed.
    fn give_back(&self, replica: u64, taken: Taken, is_sound: bool) -> bool {
        let mut state = locked(&self.state);
        if let Some(peer) = state.peer(replica, taken.peer) {
            peer.busy.remove(&taken.number);
            if is_sound {
                peer.idle.push((taken.link, Instant::now()));
            }
        }
        self.changed.notify_all();
        state.is_closed
    }

    /// Returns how many connections there are to a replica, and how many of them are idle.
    #[cfg(test)]
    pub fn connections(&self, replica: u64) -> (usize, usize) {
        let state = locked(&self.state);
        let peer = &state.peers[&replica];
        (peer.busy.len() + peer.idle.len() + peer.connecting, peer.idle.len())
    }

    #[cfg(test)]
    pub fn waiting(&self, replica: u64) -> usize {
        locked(&self.state).peers[&replica].waiting
    }
}

/// Asks whichever replica is at an address, and waits for the answer. For programs that have no replica yet.
pub fn ask_at(links: &Links, address: &str, request: &[u8], limit: Duration) -> Result<Vec<u8>, Unanswered> {
    let until = Instant::now() + limit.min(LIMIT_MAX);
    let made = links.connect(Kind::Requests, NO_REPLICA, address);
    let not_asked =
        |error: io::Error| Unanswered::NotAsked(format!("{address} does not answer: {}", text_of(&error)));
    let mut link = made.map_err(not_asked)?;
    match exchange(&mut link, 1, request, until) {
        Ok((Said::Answer, payload)) => Ok(payload),
        Ok((_, why)) => {
            let why = String::from_utf8_lossy(&why);
            Err(Unanswered::NoAnswer(format!("{address} has no answer: {why}")))
        }
        Err(error) => {
            let text = format!("{address} does not answer after it was asked: {}", text_of(&error));
            Err(Unanswered::TimedOut(text))
        }
    }
}

fn closed() -> Unanswered {
    Unanswered::TimedOut("the site is closed: open it again".to_owned())
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Returns what an error of a connection means.
fn text_of(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ if is_late(error) => "it takes the connection, and says nothing".to_owned(),
        _ => error.to_string(),
    }
}

/// Sends a request, and reads what comes back.
fn exchange(link: &mut Link, asked: u64, request: &[u8], until: Instant) -> io::Result<(Said, Vec<u8>)> {
    link.hurry(until);
    link.write_all(&request_frame(asked, Said::Request, request))?;
    link.flush()?;
    let (number, said, payload) = read_request(link)?.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
    if number != asked || said == Said::Request {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it answers what was not asked"));
    }
    Ok((said, payload))
}

/// Returns the frame of a request or an answer.
pub fn request_frame(number: u64, said: Said, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + 8 + 1 + payload.len() + 4);
    let mut frame = Writer(Vec::with_capacity(8 + 1 + payload.len() + 4));
    let written = write_frame(&mut bytes, frame.u64(number).u8(said as u8).bytes(payload));
    debug_assert!(written.is_ok() && payload.len() <= PAYLOAD_BYTES_MAX);
    bytes
}

/// Reads the number of a request, what the frame is, and the payload. Returns `None` at the end of the
/// connection.
pub fn read_request(stream: &mut impl Read) -> io::Result<Option<(u64, Said, Vec<u8>)>> {
    let Some(frame) = read_frame(stream)? else {
        return Ok(None);
    };
    let mut reader = Reader(&frame);
    let said = |byte| match byte {
        1 => Some(Said::Request),
        2 => Some(Said::Answer),
        3 => Some(Said::NoAnswer),
        _ => None,
    };
    match (reader.u64(), reader.u8().and_then(said)) {
        (Some(number), Some(said)) => Ok(Some((number, said, reader.0.to_vec()))),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is no request and no answer")),
    }
}
