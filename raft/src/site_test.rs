//! Tests of whole sites: real threads, disks and connections, in one process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use raft::eraftpb::Entry;
use tempfile::TempDir;

use crate::error::LogError;
use crate::fence::Identity;
use crate::outside::{Options, Role};
use crate::site::{Call, Client, Handle, Site, SiteOptions};
use crate::state::Manifest;
use crate::transport::{TlsFiles, Transport};
use crate::waiting::Answer;

const GROUP: u64 = 1;
const PATIENCE: Duration = Duration::from_secs(60);

/// The data of a replica: every entry that it applied. It survives its site, as a disk does.
#[derive(Clone, Default)]
struct Data(Arc<(Mutex<Kept>, Condvar)>);

#[derive(Default)]
struct Kept {
    entries: BTreeMap<u64, Vec<u8>>,
    applied: u64,
    leads: bool,
    handle: Option<Handle>,
    stopped: Option<LogError>,
    snapshots: u64,
}

impl Data {
    fn change<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let result = change(&mut self.0 .0.lock().unwrap());
        self.0 .1.notify_all();
        result
    }

    fn wait(&self, what: &str, until: impl Fn(&Kept) -> bool) {
        let kept = self.0 .0.lock().unwrap();
        let (_kept, waited) = self.0 .1.wait_timeout_while(kept, PATIENCE, |kept| !until(kept)).unwrap();
        assert!(!waited.timed_out(), "{what} did not come");
    }

    fn values(&self) -> Vec<Vec<u8>> {
        self.change(|kept| kept.entries.values().filter(|data| !data.is_empty()).cloned().collect())
    }
}

impl Client for Data {
    fn committed(&mut self, group: u64, entries: &[Entry]) {
        self.change(|kept| {
            for entry in entries {
                assert_eq!(entry.index, kept.applied + 1);
                let is_normal = entry.get_entry_type() == raft::eraftpb::EntryType::EntryNormal;
                let data = if is_normal { entry.data.to_vec() } else { Vec::new() };
                kept.entries.insert(entry.index, data);
                kept.applied = entry.index;
            }
            if let Some(handle) = &kept.handle {
                handle.applied(group, kept.applied);
            }
        });
    }

    fn role_changed(&mut self, _: u64, role: Role, _: u64, _: u64) {
        self.change(|kept| kept.leads = role == Role::Leader);
    }

    fn take_snapshot(&mut self, group: u64) {
        self.change(|kept| {
            let mut bytes = Vec::new();
            for (index, data) in &kept.entries {
                bytes.extend_from_slice(&index.to_le_bytes());
                bytes.extend_from_slice(&(data.len() as u64).to_le_bytes());
                bytes.extend_from_slice(data);
            }
            let taken = Some((kept.applied, bytes));
            kept.handle.as_ref().unwrap().snapshot_taken(group, taken);
        });
    }

    fn fetch_snapshot(&mut self, group: u64, _: &Manifest) -> bool {
        self.change(|kept| kept.handle.as_ref().unwrap().snapshot_fetched(group, true));
        false
    }

    fn install_snapshot(&mut self, _: u64, manifest: &Manifest) -> Result<(), String> {
        let mut rest = &manifest.data[..];
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().unwrap());
        self.change(|kept| {
            while !rest.is_empty() {
                let (index, size) = (number(rest), number(&rest[8..]) as usize);
                kept.entries.insert(index, rest[16..16 + size].to_vec());
                rest = &rest[16 + size..];
            }
            kept.applied = manifest.index;
            kept.snapshots += 1;
        });
        Ok(())
    }

    fn stopped(&mut self, error: &LogError) {
        self.change(|kept| kept.stopped = Some(error.clone()));
    }
}

struct Running {
    site: Site,
    transport: Transport,
}

struct Cluster {
    folder: TempDir,
    tls: bool,
    data: Vec<Data>,
    running: Vec<Option<Running>>,
}

impl Cluster {
    fn new(count: u64, tls: bool) -> Self {
        let folder = TempDir::new().unwrap();
        if tls {
            write_certificates(&folder);
        }
        let mut cluster = Self { folder, tls, data: Vec::new(), running: Vec::new() };
        for _ in 0..count {
            cluster.add();
        }
        let voters: Vec<u64> = (1..=count).collect();
        for at in 0..count as usize {
            cluster.data[at].change(|kept| kept.applied = 1); // where a new group begins
            cluster.handle(at).create(GROUP, voters.clone()).unwrap();
        }
        cluster
    }

    /// Adds a site without groups.
    fn add(&mut self) {
        self.data.push(Data::default());
        self.running.push(None);
        self.start(self.data.len() - 1);
    }

    fn start(&mut self, at: usize) {
        let replica = at as u64 + 1;
        let identity = Identity { site: [replica as u8; 16], incarnation: 1, replica };
        let files = self.tls.then(|| self.files("site"));
        let transport = Transport::listen("127.0.0.1:0", replica, files.as_ref()).unwrap();
        let driver = Options { election_ticks: 20, ..Options::default() }; // two cores may be busy
        let options = SiteOptions { tick: Duration::from_millis(25), driver, ..SiteOptions::default() };
        let directory = self.folder.path().join(format!("site{replica}"));
        let site =
            Site::open(&directory, identity, options, self.data[at].clone(), transport.sender()).unwrap();
        self.data[at].change(|kept| kept.handle = Some(site.handle().clone()));
        transport.serve(site.handle().clone());
        self.running[at] = Some(Running { site, transport });
        self.connect();
        let running = self.running[at].as_ref().unwrap();
        let applied = self.data[at].change(|kept| kept.applied);
        for group in running.site.groups().to_vec() {
            running.site.handle().open(group, applied).unwrap();
        }
    }

    fn files(&self, name: &str) -> TlsFiles {
        let path = |file: String| -> PathBuf { self.folder.path().join(file) };
        TlsFiles {
            authority: path("authority.pem".to_owned()),
            certificate: path(format!("{name}.pem")),
            key: path(format!("{name}.key")),
        }
    }

    fn connect(&self) {
        for from in self.running.iter().flatten() {
            for (at, to) in self.running.iter().enumerate() {
                let address = to.as_ref().map(|to| to.transport.address().to_string());
                from.transport.set_peer(at as u64 + 1, address.as_deref()).unwrap();
            }
        }
    }

    fn stop(&mut self, at: usize) {
        self.running[at] = None;
        self.data[at].change(|kept| {
            kept.leads = false;
            kept.handle = None;
        });
    }

    fn handle(&self, at: usize) -> &Handle {
        self.running[at].as_ref().unwrap().site.handle()
    }

    fn running(&self) -> Vec<usize> {
        (0..self.running.len()).filter(|at| self.running[*at].is_some()).collect()
    }

    /// Proposes at whoever leads until it is acknowledged. What is unknown would be proposed twice: a test
    /// that looks for that counts on it.
    fn propose(&self, data: &[u8]) -> usize {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for at in self.running() {
                let call = Call::Propose(vec![data.to_vec()]);
                match self.handle(at).call(GROUP, call, PATIENCE).unwrap() {
                    Answer::Committed { .. } => return at,
                    Answer::NotLeader { .. } => {}
                    answer => panic!("{answer:?}"),
                }
            }
            std::thread::sleep(Duration::from_millis(5)); // nobody leads yet
        }
        panic!("nobody leads");
    }

    /// Waits until all sites have as many values, and returns them.
    fn values(&self, count: usize) -> Vec<Vec<u8>> {
        for at in self.running() {
            let has_all =
                |kept: &Kept| kept.entries.values().filter(|data| !data.is_empty()).count() >= count;
            self.data[at].wait("the values", has_all);
        }
        let values = self.data[self.running()[0]].values();
        for at in self.running() {
            assert_eq!(self.data[at].values(), values);
        }
        values
    }
}

/// Writes an authority, a certificate of it, and one of another authority.
pub fn write_certificates(folder: &TempDir) {
    let authority = |name: &str| {
        let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap(), key)
    };
    let (ours, others) = (authority("ours"), authority("others"));
    std::fs::write(folder.path().join("authority.pem"), ours.0.pem()).unwrap();
    for (name, (issuer, issuer_key)) in [("site", &ours), ("stranger", &others)] {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, issuer, issuer_key).unwrap();
        std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

fn numbers(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    range.map(|number| number.to_le_bytes().to_vec()).collect()
}

#[test]
fn values_survive_the_leader_and_every_site() {
    let mut cluster = Cluster::new(3, false);
    let mut leader = 0;
    for data in numbers(0..50) {
        leader = cluster.propose(&data);
    }
    assert_eq!(cluster.values(50), numbers(0..50));
    cluster.stop(leader);
    for data in numbers(50..100) {
        assert_ne!(cluster.propose(&data), leader);
    }
    cluster.start(leader);
    assert_eq!(cluster.values(100), numbers(0..100));
    (0..3).for_each(|at| cluster.stop(at));
    (0..3).for_each(|at| cluster.start(at));
    for data in numbers(100..120) {
        cluster.propose(&data);
    }
    assert_eq!(cluster.values(120), numbers(0..120));
}

#[test]
fn sites_with_certificates_talk() {
    let cluster = Cluster::new(3, true);
    for data in numbers(0..20) {
        cluster.propose(&data);
    }
    assert_eq!(cluster.values(20), numbers(0..20));
}

#[test]
fn a_site_with_a_certificate_of_others_hears_and_says_nothing() {
    let cluster = Cluster::new(3, true);
    cluster.propose(b"one");
    let mut files = cluster.files("stranger");
    let stranger = Transport::listen("127.0.0.1:0", 3, Some(&files)).unwrap();
    let address = cluster.running[0].as_ref().unwrap().transport.address().to_string();
    let config = || crate::transport::try_greeting(&stranger, 1, &address);
    assert!(config().is_err(), "a stranger was let in");
    files = cluster.files("site");
    drop(stranger);
    let known = Transport::listen("127.0.0.1:0", 3, Some(&files)).unwrap();
    crate::transport::try_greeting(&known, 1, &address).unwrap();
}

#[test]
fn many_callers_and_every_value_once() {
    let cluster = Cluster::new(3, false);
    cluster.propose(b"first");
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let cluster = &cluster;
            scope.spawn(move || {
                numbers(thread * 50..thread * 50 + 50).iter().for_each(|data| {
                    cluster.propose(data);
                });
            });
        }
    });
    let mut values = cluster.values(401)[1..].to_vec();
    values.sort_by_key(|data| u32::from_le_bytes(data[..4].try_into().unwrap()));
    assert_eq!(values, numbers(0..400));
}

#[test]
fn a_site_that_joins_gets_a_snapshot() {
    let mut cluster = Cluster::new(3, false);
    let mut leader = 0;
    for data in numbers(0..30) {
        leader = cluster.propose(&data);
    }
    cluster.add();
    cluster.handle(3).create(GROUP, vec![]).unwrap();
    let change = |voters: Vec<u64>, learners: Vec<u64>| {
        let call = Call::Change { voters, learners };
        assert_eq!(cluster.handle(leader).call(GROUP, call, PATIENCE).unwrap(), Answer::Done);
    };
    change(vec![1, 2, 3], vec![4]);
    cluster.data[3].wait("the snapshot", |kept| kept.snapshots > 0);
    change(vec![1, 2, 3, 4], vec![]);
    for data in numbers(30..40) {
        cluster.propose(&data);
    }
    assert_eq!(cluster.values(40), numbers(0..40));
    let answer = cluster.handle(3).call(GROUP, Call::Read, PATIENCE).unwrap();
    assert!(matches!(answer, Answer::Read { .. }), "{answer:?}");
}

#[test]
fn leadership_moves_when_it_is_handed_over() {
    let cluster = Cluster::new(3, false);
    let leader = cluster.propose(b"one");
    let to = (leader + 1) % 3;
    let answer = cluster.handle(leader).call(GROUP, Call::Transfer(to as u64 + 1), PATIENCE).unwrap();
    assert_eq!(answer, Answer::Done);
    cluster.data[to].wait("leadership", |kept| kept.leads);
    let status = cluster.handle(to).status(GROUP).unwrap().unwrap();
    assert_eq!((status.role, status.leader), (Role::Leader, to as u64 + 1));
}

#[test]
fn a_closed_site_says_so() {
    let mut cluster = Cluster::new(1, false);
    cluster.propose(b"one");
    let handle = cluster.handle(0).clone();
    cluster.stop(0);
    let error = handle.call(GROUP, Call::Read, PATIENCE).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    assert!(handle.create(2, vec![1]).is_err());
}

#[test]
fn a_call_that_waits_when_its_site_closes_gets_an_answer() {
    let mut cluster = Cluster::new(3, false);
    let leader = cluster.propose(b"one");
    (0..3).filter(|at| *at != leader).for_each(|at| cluster.stop(at));
    let handle = cluster.handle(leader).clone();
    let last = handle.status(GROUP).unwrap().unwrap().last;
    let waits = {
        let handle = handle.clone();
        std::thread::spawn(move || handle.call(GROUP, Call::Propose(vec![b"two".to_vec()]), PATIENCE))
    };
    // The leader gives up without a majority, but what it proposed before waits on.
    while handle.status(GROUP).unwrap().unwrap().last == last && !waits.is_finished() {
        std::thread::yield_now();
    }
    cluster.stop(leader);
    let answer = waits.join().unwrap();
    let is_told = matches!(answer, Ok(Answer::Unknown { .. } | Answer::NotLeader { .. }));
    assert!(is_told, "{answer:?}");
}

#[test]
fn a_group_that_is_there_or_is_not_is_refused() {
    let cluster = Cluster::new(1, false);
    for result in [cluster.handle(0).create(GROUP, vec![1]), cluster.handle(0).open(7, 0)] {
        assert!(matches!(result, Err(LogError::Refused(_))), "{result:?}");
    }
    cluster.propose(b"one"); // and it goes on
    cluster.handle(0).remove(GROUP).unwrap();
    assert!(cluster.handle(0).status(GROUP).unwrap().is_none());
}
