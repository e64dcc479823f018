//! The connections that have come in to a site, so that there are not too many, and all end with it.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};

use crate::link::cut;
use crate::threads::locked;

/// All connections of a site.
pub const CONNECTIONS_MAX: usize = 256;
/// Connections for requests of one replica.
pub const REQUESTS_OF_ONE_MAX: usize = 64;
/// Connections for requests. The rest is for messages of the consensus.
const REQUESTS_MAX: usize = 192;

#[derive(Default)]
pub struct Incoming {
    open: Mutex<HashMap<u64, Open>>, // numbered as they came
    ended: Condvar,
}

struct Open {
    socket: TcpStream,
    asks: Option<u64>, // the replica that it brings requests of
}

/// A connection that has come in. It has ended when this is dropped.
pub struct Entry {
    incoming: Arc<Incoming>,
    number: u64,
}

impl Incoming {
    /// Takes a connection in, or returns `None` if there are too many.
    pub fn enter(self: &Arc<Self>, number: u64, socket: TcpStream) -> Option<Entry> {
        let mut open = locked(&self.open);
        if open.len() >= CONNECTIONS_MAX {
            return None;
        }
        open.insert(number, Open { socket, asks: None });
        Some(Entry { incoming: self.clone(), number })
    }

    /// Ends all connections. Their threads then find that out.
    pub fn cut_all(&self) {
        locked(&self.open).values().for_each(|open| cut(&open.socket));
    }

    /// Waits until the threads of all connections have ended.
    pub fn wait(&self) {
        let mut open = locked(&self.open);
        while !open.is_empty() {
            open = self.ended.wait(open).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    #[cfg(test)]
    pub fn count(&self) -> usize {
        locked(&self.open).len()
    }
}

impl Entry {
    /// Notes that the connection brings requests of a replica. Returns whether it may.
    pub fn admit(&self, replica: u64) -> bool {
        let mut open = locked(&self.incoming.open);
        let of_one = open.values().filter(|open| open.asks == Some(replica)).count();
        let of_all = open.values().filter(|open| open.asks.is_some()).count();
        let is_let_in = of_one < REQUESTS_OF_ONE_MAX && of_all < REQUESTS_MAX;
        if let Some(own) = open.get_mut(&self.number).filter(|_| is_let_in) {
            own.asks = Some(replica);
        }
        is_let_in
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        locked(&self.incoming.open).remove(&self.number);
        self.incoming.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_room_for_other_replicas_and_for_messages() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let incoming = Arc::new(Incoming::default());
        let enter = |number| incoming.enter(number, socket.try_clone().unwrap());
        let entries: Vec<Entry> = (0..CONNECTIONS_MAX as u64).map(|number| enter(number).unwrap()).collect();
        assert!(enter(1000).is_none());
        let mut let_in = HashMap::<u64, usize>::new();
        for (entry, replica) in entries.iter().zip((0..200).map(|at| 1 + at / 70)) {
            *let_in.entry(replica).or_default() += usize::from(entry.admit(replica));
        }
        assert_eq!((let_in[&1], let_in[&2]), (REQUESTS_OF_ONE_MAX, REQUESTS_OF_ONE_MAX));
        let last = entries[200..].iter().filter(|entry| entry.admit(4)).count();
        assert_eq!(let_in[&3] + last, REQUESTS_MAX - 2 * REQUESTS_OF_ONE_MAX);
        drop(entries);
        assert!(enter(1000).is_some_and(|entry| entry.admit(1)));
        incoming.wait();
    }
}
