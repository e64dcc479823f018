//! Tests of the log on a real disk.

use std::fs;
use std::path::{Path, PathBuf};

use raft::eraftpb::{ConfState, Entry};
use raft::{GetEntriesContext, Storage};
use tempfile::TempDir;

use crate::alone::be_alone;
use crate::engine::{EngineDisk, EngineOptions};
use crate::error::{LogError, Result};
use crate::fence::Identity;
use crate::log::{by_id, gather, GroupLog, Log, LogOptions};
use crate::state::Manifest;

type TestGroup = GroupLog<EngineDisk>;

const IDENTITY: Identity = Identity { site: [3; 16], incarnation: 1, replica: 1 };

fn small_files() -> EngineOptions {
    EngineOptions { file_bytes: 64 << 10, purge_bytes: 64 << 10 }
}

struct Site {
    folder: TempDir,
    options: LogOptions,
}

impl Site {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), options: LogOptions::default() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("raft")
    }

    fn open(&self) -> Result<(Log<EngineDisk>, Vec<TestGroup>)> {
        let disk = EngineDisk::open(&self.path(), &IDENTITY, &small_files())?;
        Log::open(disk, IDENTITY, &self.options)
    }

    /// Makes group 1 with entries 2 to `last` of term 1, with a fence behind them.
    fn filled(last: u64) -> Self {
        let site = Self::new();
        let (mut log, _) = site.open().unwrap();
        let mut group = log.create(1, 1, voters()).unwrap();
        for index in 2..=last {
            group.append(vec![entry(index, 1)]);
            write(&mut log, &mut [&mut group]).unwrap();
        }
        log.write_fence().unwrap();
        site
    }

    fn newest_file(&self) -> PathBuf {
        let files = fs::read_dir(self.path().join("log")).unwrap();
        let mut names: Vec<_> = files.map(|f| f.unwrap().path()).collect();
        names.retain(|name| name.extension().is_some_and(|e| e == "raftlog"));
        names.sort();
        names.pop().unwrap()
    }
}

fn voters() -> ConfState {
    ConfState::from((vec![1, 2, 3], vec![4]))
}

fn entry(index: u64, term: u64) -> Entry {
    let mut entry = Entry::default();
    (entry.index, entry.term) = (index, term);
    entry.data = format!("{term}/{index}/").repeat(1 + index as usize % 7).into();
    entry
}

fn write(log: &mut Log<EngineDisk>, groups: &mut [&mut TestGroup]) -> Result<()> {
    log.write(&gather(groups.iter_mut().map(|group| &mut **group)))
}

fn read(group: &TestGroup, low: u64, high: u64, bytes: u64) -> Vec<Entry> {
    group.entries(low, high, bytes, GetEntriesContext::empty(false)).unwrap()
}

fn all(group: &TestGroup) -> Vec<Entry> {
    let (low, high) = (group.first_index().unwrap(), group.last_index().unwrap() + 1);
    read(group, low, high, u64::MAX)
}

fn error_of<T>(result: Result<T>) -> LogError {
    result.err().expect("an error")
}

/// Changes a file, and puts it back as it was when dropped.
struct Damage {
    path: PathBuf,
    before: Vec<u8>,
}

impl Damage {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), before: fs::read(path).unwrap() }
    }

    fn flip(&self, place: usize) {
        let mut bytes = self.before.clone();
        bytes[place] ^= 1 << (place % 8);
        fs::write(&self.path, bytes).unwrap();
    }
}

#[test]
fn groups_are_as_they_were_when_opened_again() {
    let site = Site::new();
    let (mut log, groups) = site.open().unwrap();
    assert!(groups.is_empty());
    let mut first = log.create(1, 1, voters()).unwrap();
    let mut second = log.create(2, 0, ConfState::default()).unwrap();
    first.append((2..=500).map(|index| entry(index, 1 + index / 100)).collect());
    let mut hard = first.hard_state().clone();
    (hard.term, hard.vote, hard.commit) = (6, 2, 490);
    first.set_hard_state(hard.clone());
    first.set_conf(ConfState::from((vec![1, 2], vec![])), 300);
    write(&mut log, &mut [&mut first, &mut second]).unwrap();
    assert!(first.take_write().is_none(), "nothing changed since");
    drop((log, first, second));

    let groups = by_id(site.open().unwrap().1);
    let first = &groups[&1];
    assert_eq!(all(first), (2..=500).map(|i| entry(i, 1 + i / 100)).collect::<Vec<_>>());
    assert_eq!(*first.hard_state(), hard);
    assert_eq!(first.conf(), (&ConfState::from((vec![1, 2], vec![])), 300));
    assert_eq!((first.term(1).unwrap(), first.term(99).unwrap(), first.term(500).unwrap()), (1, 1, 6));
    assert_eq!((groups[&2].last(), groups[&2].hard_state().term), (0, 0));
}

#[test]
fn a_new_leader_replaces_the_end_of_the_log() {
    let site = Site::new();
    let (mut log, _) = site.open().unwrap();
    let mut group = log.create(1, 1, voters()).unwrap();
    group.append((2..=50).map(|index| entry(index, 1)).collect());
    write(&mut log, &mut [&mut group]).unwrap();
    log.write_fence().unwrap();
    // Two changes in one write: the second replaces a part of the first.
    group.append((30..=40).map(|index| entry(index, 2)).collect());
    group.append((35..=36).map(|index| entry(index, 3)).collect());
    write(&mut log, &mut [&mut group]).unwrap();
    let expected: Vec<_> = (2..=36)
        .map(|i| {
            entry(
                i,
                if i < 30 {
                    1
                } else if i < 35 {
                    2
                } else {
                    3
                },
            )
        })
        .collect();
    assert_eq!(all(&group), expected);
    drop((log, group));
    let groups = site.open().unwrap().1; // shorter than its fence, but not behind it
    assert_eq!(all(&groups[0]), expected);
    assert_eq!(groups[0].term_at(34), Some(2));
}

#[test]
fn entries_that_are_cut_are_compacted() {
    let site = Site::filled(100);
    let (mut log, mut groups) = site.open().unwrap();
    let group = &mut groups[0];
    group.cut_to(60);
    write(&mut log, &mut [group]).unwrap();
    check_cut(&groups[0]);
    drop((log, groups));
    check_cut(&site.open().unwrap().1[0]);
}

/// Checks a group whose entries up to 60 are cut, of 100.
fn check_cut(group: &TestGroup) {
    assert_eq!((group.first_index().unwrap(), group.last()), (61, 100));
    assert_eq!(group.term(60).unwrap(), 1);
    assert_eq!(group.term(59).unwrap_err(), raft::StorageError::Compacted.into());
    assert!(group.entries(60, 70, None, GetEntriesContext::empty(false)).is_err());
    assert_eq!(all(group).len(), 40);
}

#[test]
fn the_log_begins_anew_behind_a_snapshot() {
    for index in [70, 100, 2000] {
        let site = Site::filled(100);
        let (mut log, mut groups) = site.open().unwrap();
        let group = &mut groups[0];
        let manifest = Manifest { index, term: 5, conf: voters(), conf_index: 3, data: "files".into() };
        group.begin_install(&manifest);
        write(&mut log, &mut [group]).unwrap();
        group.reset(&manifest);
        group.append((index + 1..index + 9).map(|i| entry(i, 5)).collect());
        write(&mut log, &mut [group]).unwrap();
        let expected: Vec<_> = (index + 1..index + 9).map(|i| entry(i, 5)).collect();
        assert_eq!(all(group), expected);
        drop((log, groups));
        let mut groups = site.open().unwrap().1;
        assert_eq!(all(&groups[0]), expected);
        assert_eq!(groups[0].term(index).unwrap(), 5);
        groups[0].start(index).unwrap();
    }
}

#[test]
fn a_crash_while_a_snapshot_is_installed_is_put_right() {
    let manifest = Manifest { index: 700, term: 5, conf: voters(), conf_index: 650, data: "files".into() };
    for (applied, first) in [(700, 701), (50, 2)] {
        let site = Site::filled(100);
        let (mut log, mut groups) = site.open().unwrap();
        groups[0].begin_install(&manifest);
        write(&mut log, &mut [&mut groups[0]]).unwrap();
        drop((log, groups));
        let (mut log, mut groups) = site.open().unwrap();
        groups[0].start(applied).unwrap();
        write(&mut log, &mut [&mut groups[0]]).unwrap();
        drop((log, groups));
        let mut groups = site.open().unwrap().1;
        assert_eq!(groups[0].first_index().unwrap(), first);
        groups[0].start(applied).unwrap();
    }
}

#[test]
fn data_that_does_not_fit_the_log_is_refused() {
    let site = Site::filled(100);
    let (mut log, mut groups) = site.open().unwrap();
    groups[0].cut_to(20);
    write(&mut log, &mut [&mut groups[0]]).unwrap();
    for applied in [0, 19, 101] {
        let text = error_of(groups[0].start(applied)).to_string();
        assert!(text.contains(&format!("applied entry {applied}")), "{text}");
    }
    groups[0].start(77).unwrap();
    assert_eq!(groups[0].hard_state().commit, 77);
}

#[test]
fn reads_across_the_cache_are_those_of_the_disk() {
    let mut site = Site::filled(100);
    site.options.cache_bytes = 1000;
    let (_log, groups) = site.open().unwrap();
    let expected: Vec<_> = (2..=100).map(|i| entry(i, 1)).collect();
    for low in 2..=100 {
        for high in [low + 1, (low + 40).min(101), 101] {
            for bytes in [0, 1, 300, 1500, 5000, u64::MAX] {
                let found = read(&groups[0], low, high, bytes);
                let wanted = &expected[low as usize - 2..high as usize - 2];
                assert!(!found.is_empty() && wanted.starts_with(&found), "{low} {high} {bytes}");
                assert!(bytes < u64::MAX || found.len() == wanted.len());
            }
        }
    }
}

#[test]
fn how_far_back_a_number_of_bytes_is() {
    let site = Site::new();
    let (mut log, _) = site.open().unwrap();
    let mut group = log.create(1, 1, voters()).unwrap();
    for index in 2..=40 {
        let mut entry = entry(index, 1);
        entry.data = vec![7; 1 << 20].into();
        group.append(vec![entry]);
    }
    assert_eq!(group.index_behind(1 << 30), 1);
    let found = group.index_behind(10 << 20);
    assert!((30..=32).contains(&found), "{found}");
    write(&mut log, &mut [&mut group]).unwrap();
}

#[test]
fn a_lost_end_before_the_fence_is_refused() {
    let site = Site::filled(60);
    let file = site.newest_file();
    let damage = Damage::new(&file);
    let used = damage.before.iter().rposition(|b| *b != 0).unwrap() + 1;
    for length in (0..used).rev().step_by(97) {
        fs::write(&file, &damage.before[..length]).unwrap();
        let error = error_of(site.open());
        assert!(matches!(error, LogError::Damaged(_)), "{length}: {error}");
        assert!(error.to_string().contains("new replica"), "{error}");
    }
}

#[test]
fn a_lost_end_behind_the_fence_is_taken_for_a_torn_one() {
    let site = Site::filled(60);
    let (mut log, mut groups) = site.open().unwrap();
    let before = fs::read(site.newest_file()).unwrap();
    let used = before.iter().rposition(|b| *b != 0).unwrap() + 1;
    groups[0].append(vec![entry(61, 1)]);
    write(&mut log, &mut [&mut groups[0]]).unwrap();
    drop((log, groups));
    let bytes = fs::read(site.newest_file()).unwrap();
    fs::write(site.newest_file(), &bytes[..used + 10]).unwrap();
    assert_eq!(site.open().unwrap().1[0].last(), 60);
}

#[test]
fn a_flipped_bit_before_the_fence_is_refused_or_harmless() {
    let site = Site::filled(40);
    let expected = all(&site.open().unwrap().1[0]);
    let file = site.newest_file();
    let damage = Damage::new(&file);
    let used = damage.before.iter().rposition(|b| *b != 0).unwrap() + 1;
    let mut refused = 0;
    for place in (0..used).step_by(7) {
        damage.flip(place);
        match site.open() {
            Ok((_, groups)) => assert_eq!(all(&groups[0]), expected, "byte {place}"),
            Err(LogError::Damaged(_)) => refused += 1,
            Err(error) => panic!("byte {place}: {error}"),
        }
    }
    assert!(refused * 3 > used / 7 * 2, "{refused} of {}", used / 7);
}

#[test]
fn without_its_fence_or_identity_a_log_is_refused() {
    for name in ["fence", "identity"] {
        let site = Site::filled(20);
        fs::remove_file(site.path().join(name)).unwrap();
        let error = error_of(site.open());
        assert!(matches!(error, LogError::Damaged(_)), "{error}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let site = Site::filled(20);
    fs::remove_dir_all(site.path().join("log")).unwrap();
    let error = error_of(site.open());
    assert!(error.to_string().contains("group 1 is gone"), "{error}");
}

#[test]
fn the_log_of_another_replica_is_refused() {
    let site = Site::filled(20);
    let other = Identity { incarnation: 2, replica: 5, ..IDENTITY };
    let error = error_of(EngineDisk::open(&site.path(), &other, &small_files()));
    assert!(matches!(error, LogError::Foreign(_)), "{error}");
    site.open().unwrap();
}

#[test]
fn a_fence_is_written_when_a_file_is_begun() {
    let site = Site::new();
    let (mut log, _) = site.open().unwrap();
    let mut group = log.create(1, 1, voters()).unwrap();
    let first = site.newest_file();
    let fence = fs::read(site.path().join("fence")).unwrap();
    for index in 2.. {
        assert_eq!(fs::read(site.path().join("fence")).unwrap(), fence);
        let mut entry = entry(index, 1);
        entry.data = vec![index as u8; 4096].into();
        group.append(vec![entry]);
        write(&mut log, &mut [&mut group]).unwrap();
        if site.newest_file() != first {
            break;
        }
    }
    assert_ne!(fs::read(site.path().join("fence")).unwrap(), fence);
}

#[test]
fn files_of_cut_entries_go_and_the_rest_stays() {
    let site = Site::new();
    let (mut log, _) = site.open().unwrap();
    let mut quiet = log.create(2, 1, voters()).unwrap();
    quiet.append(vec![entry(2, 1)]);
    let mut group = log.create(1, 1, voters()).unwrap();
    write(&mut log, &mut [&mut group, &mut quiet]).unwrap();
    drop((log, group, quiet));
    let disk = EngineDisk::open(&site.path(), &IDENTITY, &small_files()).unwrap();
    disk.purge().unwrap();
    drop(disk);
    let (mut log, groups) = site.open().unwrap();
    let mut groups = by_id(groups);
    let first = site.newest_file();
    for index in 2..200 {
        let group = groups.get_mut(&1).unwrap();
        let mut entry = entry(index, 1);
        entry.data = vec![index as u8; 4096].into();
        group.append(vec![entry]);
        group.cut_to(index.saturating_sub(5).max(1));
        log.write(&gather(groups.values_mut())).unwrap();
    }
    drop((log, groups));
    EngineDisk::open(&site.path(), &IDENTITY, &small_files()).unwrap().purge().unwrap();
    assert!(!first.exists(), "old files stay");
    let groups = by_id(site.open().unwrap().1);
    assert_eq!((groups[&1].first_index().unwrap(), groups[&1].last()), (195, 199));
    assert_eq!(all(&groups[&2]), [entry(2, 1)]);
}

#[test]
fn a_group_that_is_removed_stays_away_and_may_come_again() {
    let site = Site::filled(20);
    let (mut log, mut groups) = site.open().unwrap();
    assert!(matches!(log.create(1, 1, voters()), Err(LogError::Refused(_))));
    groups.clear();
    log.remove(1).unwrap();
    let mut group = log.create(1, 0, ConfState::default()).unwrap();
    write(&mut log, &mut [&mut group]).unwrap();
    drop((log, group));
    let (mut log, groups) = site.open().unwrap();
    assert_eq!((groups.len(), groups[0].last()), (1, 0));
    drop(groups);
    log.remove(1).unwrap();
    drop(log);
    assert!(site.open().unwrap().1.is_empty());
}

#[test]
fn a_failed_write_is_an_error_of_the_disk() {
    let site = Site::filled(20);
    let (mut log, _groups) = site.open().unwrap();
    fs::create_dir(site.path().join("fence.new")).unwrap();
    let mut group = log.create(2, 1, voters()).unwrap();
    write(&mut log, &mut [&mut group]).unwrap();
    let error = error_of(log.write_fence());
    assert!(matches!(error, LogError::Disk(_)), "{error}");
    let disk = EngineDisk::open(&site.path(), &IDENTITY, &small_files());
    assert!(matches!(error_of(disk), LogError::Disk(_)), "a second one has it open");
}

#[test]
fn a_replica_that_is_alone_goes_on_with_all_that_it_has() {
    let site = Site::filled(9);
    be_alone(&site.path(), IDENTITY).unwrap();
    be_alone(&site.path(), IDENTITY).unwrap();
    let (_, groups) = site.open().unwrap();
    let (conf, index) = groups[0].conf();
    assert_eq!((conf.voters.as_slice(), index), ([1].as_slice(), 9), "changes in the log count no more");
    assert!(conf.learners.is_empty() && conf.voters_outgoing.is_empty());
    assert_eq!(groups[0].last(), 9);
}

#[test]
fn a_snapshot_that_is_being_installed_leaves_a_replica_alone() {
    let site = Site::filled(9);
    let (mut log, mut groups) = site.open().unwrap();
    groups[0].begin_install(&Manifest {
        index: 20,
        term: 3,
        conf: voters(),
        conf_index: 15,
        ..Manifest::default()
    });
    write(&mut log, &mut [&mut groups[0]]).unwrap();
    drop((log, groups));
    be_alone(&site.path(), IDENTITY).unwrap();
    let (_, mut groups) = site.open().unwrap();
    groups[0].start(20).unwrap(); // the client has installed it
    let (conf, index) = groups[0].conf();
    assert_eq!((conf.voters.as_slice(), index), ([1].as_slice(), 20));
}

#[test]
fn a_replica_that_does_not_vote_is_not_left_alone() {
    let site = Site::filled(3);
    let (mut log, mut groups) = site.open().unwrap();
    let conf = ConfState { voters: vec![2, 3], learners: vec![1], ..ConfState::default() };
    groups[0].set_conf(conf.clone(), 3);
    write(&mut log, &mut [&mut groups[0]]).unwrap();
    drop((log, groups));
    let refused = be_alone(&site.path(), IDENTITY).unwrap_err();
    assert!(matches!(&refused, LogError::Refused(text) if text.contains("does not vote in group 1")));
    assert_eq!(site.open().unwrap().1[0].conf().0, &conf);
    let nowhere = be_alone(&site.path().join("nowhere"), IDENTITY).unwrap_err();
    assert!(matches!(nowhere, LogError::Refused(_)));
}
