//! Measures three sites in one process, with connections and disks: how much is acknowledged, and how long
//! it takes after the leader is gone. Arguments: bytes of an entry, callers at once, seconds, directory.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use raft::eraftpb::Entry;
use topicdb_raft::error::LogError;
use topicdb_raft::fence::Identity;
use topicdb_raft::outside::Role;
use topicdb_raft::site::{Call, Client, Handle, Site, SiteOptions};
use topicdb_raft::state::Manifest;
use topicdb_raft::transport::Transport;
use topicdb_raft::waiting::Answer;

const GROUP: u64 = 1;
const FLUSH_EVERY: u64 = 1000; // entries; as if the data were on disk
const PATIENCE: Duration = Duration::from_secs(10);

/// Applies at once, and keeps nothing.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Option<Handle>>>);

impl Client for Sink {
    fn committed(&mut self, group: u64, entries: &[Entry]) {
        if let (Some(handle), Some(last)) = (&*self.0.lock().unwrap(), entries.last()) {
            handle.applied(group, last.index);
            if entries.iter().any(|entry| entry.index % FLUSH_EVERY == 0) {
                handle.flushed(group, last.index);
            }
        }
    }
    fn role_changed(&mut self, _: u64, _: Role, _: u64, _: u64) {}
    fn take_snapshot(&mut self, group: u64) {
        if let Some(handle) = &*self.0.lock().unwrap() {
            handle.snapshot_taken(group, None);
        }
    }
    fn fetch_snapshot(&mut self, _: u64, _: &Manifest) -> bool {
        false
    }
    fn install_snapshot(&mut self, _: u64, _: &Manifest) -> Result<(), String> {
        Ok(())
    }
    fn stopped(&mut self, error: &LogError) {
        eprintln!("{error}");
    }
}

fn open(directory: &Path, replica: u64) -> (Transport, Site) {
    let identity = Identity { site: [replica as u8; 16], incarnation: 1, replica };
    let transport = Transport::listen("127.0.0.1:0", replica, None).unwrap();
    let sink = Sink::default();
    let place = directory.join(format!("site{replica}"));
    let site =
        Site::open(&place, identity, SiteOptions::default(), sink.clone(), transport.sender()).unwrap();
    *sink.0.lock().unwrap() = Some(site.handle().clone());
    transport.serve(site.handle().clone());
    (transport, site)
}

/// Proposes an entry once at each site, and returns which acknowledged it.
fn try_all(handles: &[Handle], data: &[u8]) -> Option<usize> {
    handles.iter().position(|handle| {
        let answer = handle.call(GROUP, Call::Propose(vec![data.to_vec()]), PATIENCE);
        matches!(answer, Ok(Answer::Committed { .. }))
    })
}

fn wait_for_leader(handles: &[Handle]) -> usize {
    loop {
        if let Some(leader) = try_all(handles, b"one") {
            return leader;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bytes, callers, seconds, directory] = &arguments[..] else {
        eprintln!("throughput BYTES CALLERS SECONDS DIRECTORY");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let (bytes, callers, seconds) = (number(bytes), number(callers), number(seconds));
    let mut sites: Vec<_> = (1..=3).map(|replica| open(Path::new(directory), replica)).collect();
    for from in &sites {
        for (at, to) in sites.iter().enumerate() {
            from.0.set_peer(at as u64 + 1, Some(&to.0.address().to_string())).unwrap();
        }
    }
    sites.iter().for_each(|site| site.1.handle().create(GROUP, vec![1, 2, 3]).unwrap());
    let mut handles: Vec<Handle> = sites.iter().map(|site| site.1.handle().clone()).collect();
    let leader = wait_for_leader(&handles);

    let data = vec![7; bytes as usize];
    let (done, began) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| {
                while began.elapsed() < Duration::from_secs(seconds) {
                    let answer = handles[leader].call(GROUP, Call::Propose(vec![data.clone()]), PATIENCE);
                    assert!(matches!(answer, Ok(Answer::Committed { .. })), "{answer:?}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (count, elapsed) = (done.into_inner() as f64, began.elapsed().as_secs_f64());
    let megabytes = count * bytes as f64 / 1e6 / elapsed;
    println!("{bytes} bytes × {callers}: {megabytes:.0} MB/s, {:.0} entries/s", count / elapsed);

    handles.remove(leader);
    let began = Instant::now();
    drop(sites.remove(leader));
    wait_for_leader(&handles);
    println!("leader gone → next acknowledgement: {:.2} s", began.elapsed().as_secs_f64());
}
