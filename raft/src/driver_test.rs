//! The rules of the driver, one test each.

use std::sync::{Arc, Mutex};

use raft::eraftpb::{Entry, Message, MessageType};

use crate::driver::Driver;
use crate::error::{LogError, Result};
use crate::fence::{Fence, Identity};
use crate::log::{Disk, GroupWrite, Log, LogOptions};
use crate::outside::{Options, Outside, Role, ENTRY_BYTES_MAX};
use crate::sim::SimDisk;
use crate::state::Manifest;
use crate::waiting::Answer;

const GROUP: u64 = 1;

/// What happened at a site, in order: `write`, `sent MsgAppend`, `committed 3`, `answer 7 …`.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A disk that keeps a diary.
struct DiaryDisk(SimDisk, Diary);

impl Disk for DiaryDisk {
    fn write(&self, writes: &[GroupWrite]) -> Result<()> {
        self.1.add("write".to_owned());
        self.0.write(writes)
    }
    fn states(&self) -> Result<Vec<(u64, Vec<u8>)>> {
        self.0.states()
    }
    fn read(&self, group: u64, low: u64, high: u64, max_bytes: usize) -> Result<Vec<Entry>> {
        self.0.read(group, low, high, max_bytes)
    }
    fn write_fence(&self, fence: &[u8]) -> Result<()> {
        self.1.add("fence".to_owned());
        self.0.write_fence(fence)
    }
    fn read_fence(&self) -> Result<Option<Vec<u8>>> {
        self.0.read_fence()
    }
    fn took_new_file(&self) -> bool {
        false
    }
    fn place(&self) -> &str {
        "diary"
    }
}

#[derive(Default)]
struct Surroundings {
    diary: Diary,
    sent: Vec<Message>,
    committed: Vec<Entry>,
    answers: Vec<(u64, Answer)>,
}

impl Outside for Surroundings {
    fn send(&mut self, _: u64, message: Message) {
        self.diary.add(format!("sent {:?}", message.get_msg_type()));
        self.sent.push(message);
    }
    fn committed(&mut self, _: u64, entries: Vec<Entry>) {
        self.diary.add(format!("committed {}", entries.last().unwrap().index));
        self.committed.extend(entries);
    }
    fn role_changed(&mut self, _: u64, role: Role, _: u64, _: u64) {
        self.diary.add(format!("role {role:?}"));
    }
    fn answer(&mut self, token: u64, answer: Answer) {
        self.diary.add(format!("answer {token}"));
        self.answers.push((token, answer));
    }
    fn take_snapshot(&mut self, _: u64) {
        self.diary.add("take".to_owned());
    }
    fn fetch_snapshot(&mut self, _: u64, _: &Manifest) -> bool {
        self.diary.add("fetch".to_owned());
        false
    }
    fn install_snapshot(&mut self, _: u64, manifest: &Manifest) -> std::result::Result<(), String> {
        self.diary.add(format!("install {}", manifest.index));
        Ok(())
    }
}

struct TestSite {
    driver: Driver<DiaryDisk>,
    around: Surroundings,
    disk: SimDisk,
}

/// Sites with replicas 1 and up, and a network that loses nothing unless a test takes messages away.
struct Cluster(Vec<TestSite>);

impl Cluster {
    fn new(count: u64) -> Self {
        let voters: Vec<u64> = (1..=count).collect();
        Self(voters.iter().map(|replica| site(*replica, &voters)).collect())
    }

    /// Returns three sites of which the first leads.
    fn led() -> Self {
        let mut cluster = Self::new(3);
        cluster.elect(0);
        cluster
    }

    fn elect(&mut self, at: usize) {
        for _ in 0..25 {
            self.0[at].driver.tick().unwrap();
            self.settle();
            if self.status(at).role == Role::Leader {
                return;
            }
        }
        panic!("site {at} was not elected");
    }

    fn status(&self, at: usize) -> crate::outside::Status {
        self.0[at].driver.status(GROUP).unwrap()
    }

    /// Lets one site do what there is to do; what it sends stays in `around.sent`.
    fn turn(&mut self, at: usize) -> Result<()> {
        let site = &mut self.0[at];
        while site.driver.turn(&mut site.around)? {}
        if let Some(last) = site.around.committed.last() {
            site.driver.applied(GROUP, last.index)?;
            while site.driver.turn(&mut site.around)? {}
        }
        Ok(())
    }

    /// Delivers all messages, until there are none.
    fn settle(&mut self) {
        loop {
            (0..self.0.len()).for_each(|at| self.turn(at).unwrap());
            let sent: Vec<Message> =
                self.0.iter_mut().flat_map(|s| std::mem::take(&mut s.around.sent)).collect();
            if sent.is_empty() {
                return;
            }
            for message in sent {
                self.deliver(message);
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        if let Some(site) = self.0.get_mut(message.to as usize - 1) {
            site.driver.receive(GROUP, message, &mut site.around).unwrap();
        }
    }

    fn propose(&mut self, at: usize, token: u64, data: &[u8]) {
        let site = &mut self.0[at];
        let deadline = site.driver.now() + 1000;
        site.driver.propose(GROUP, token, vec![data.to_vec()], deadline).unwrap();
    }

    fn answer(&self, at: usize, token: u64) -> Option<&Answer> {
        self.0[at].around.answers.iter().find(|answer| answer.0 == token).map(|answer| &answer.1)
    }

    fn diary(&self, at: usize) -> Vec<String> {
        self.0[at].around.diary.take()
    }

    /// Commits this many entries.
    fn fill(&mut self, count: u64) {
        for token in 1_000..1_000 + count {
            self.propose(0, token, b"entry");
            self.settle();
        }
    }

    /// Starts a site again whose client has lost its data.
    fn restart_damaged(&mut self, at: usize) {
        let disk = self.0[at].disk.clone();
        let identity = identity_of(at as u64 + 1);
        let around = Surroundings::default();
        let diary_disk = DiaryDisk(disk.clone(), around.diary.clone());
        let (log, mut groups) = Log::open(diary_disk, identity, &LogOptions::default()).unwrap();
        let mut driver = Driver::new(log, options_of(identity.replica));
        driver.open_damaged(groups.pop().unwrap()).unwrap();
        self.0[at] = TestSite { driver, around, disk };
    }

    /// Returns the indexes that a client got since this was last asked.
    fn got(&mut self, at: usize) -> Vec<u64> {
        std::mem::take(&mut self.0[at].around.committed).iter().map(|entry| entry.index).collect()
    }
}

fn identity_of(replica: u64) -> Identity {
    Identity { site: [replica as u8; 16], incarnation: 1, replica }
}

fn options_of(replica: u64) -> Options {
    let exact_election_ticks = Some(10 + replica as usize);
    Options { exact_election_ticks, run: replica, ..Options::default() }
}

fn site(replica: u64, voters: &[u64]) -> TestSite {
    let identity = identity_of(replica);
    let disk = SimDisk::new(replica, Fence::default().encode(&identity));
    let around = Surroundings::default();
    let diary_disk = DiaryDisk(disk.clone(), around.diary.clone());
    let (log, _) = Log::open(diary_disk, identity, &LogOptions::default()).unwrap();
    let mut driver = Driver::new(log, options_of(replica));
    driver.create(GROUP, voters).unwrap();
    TestSite { driver, around, disk }
}

fn place(diary: &[String], text: &str) -> usize {
    diary.iter().position(|line| line == text).unwrap_or_else(|| panic!("no {text} in {diary:?}"))
}

#[test]
fn a_leader_sends_at_once_and_a_follower_once_it_is_durable() {
    let mut cluster = Cluster::led();
    cluster.diary(0);
    cluster.diary(1);
    cluster.propose(0, 1, b"one");
    cluster.turn(0).unwrap();
    let diary = cluster.diary(0);
    assert!(place(&diary, "sent MsgAppend") < place(&diary, "write"), "{diary:?}");

    for message in std::mem::take(&mut cluster.0[0].around.sent) {
        cluster.deliver(message);
    }
    cluster.turn(1).unwrap();
    let diary = cluster.diary(1);
    assert!(place(&diary, "write") < place(&diary, "sent MsgAppendResponse"), "{diary:?}");
    assert!(cluster.answer(0, 1).is_none());
    cluster.settle();
    assert!(matches!(cluster.answer(0, 1), Some(Answer::Committed { index: 3, .. })));
}

#[test]
fn a_vote_goes_once_it_is_durable() {
    let mut cluster = Cluster::new(3);
    for _ in 0..11 {
        cluster.0[0].driver.tick().unwrap();
        cluster.0[1].driver.tick().unwrap();
    }
    for _ in 0..3 {
        cluster.turn(0).unwrap();
        cluster.diary(1);
        for message in std::mem::take(&mut cluster.0[0].around.sent) {
            cluster.deliver(message);
        }
        cluster.turn(1).unwrap();
        let diary = cluster.diary(1);
        if diary.contains(&"sent MsgRequestVoteResponse".to_owned()) {
            assert!(place(&diary, "write") < place(&diary, "sent MsgRequestVoteResponse"), "{diary:?}");
            return;
        }
        for message in std::mem::take(&mut cluster.0[1].around.sent) {
            cluster.deliver(message);
        }
    }
    panic!("no vote was given");
}

#[test]
fn a_failed_write_ends_the_driver() {
    let mut cluster = Cluster::led();
    cluster.propose(0, 1, b"one");
    cluster.turn(0).unwrap();
    let messages = std::mem::take(&mut cluster.0[0].around.sent);
    cluster.0[1].disk.set_fails(1000);
    for message in messages.iter().filter(|m| m.to == 2) {
        cluster.deliver(message.clone());
    }
    cluster.diary(1);
    assert!(matches!(cluster.turn(1), Err(LogError::Disk(_))));
    assert_eq!(cluster.diary(1), ["write"]);

    cluster.0[1].disk.set_fails(0); // too late
    let TestSite { driver, around, .. } = &mut cluster.0[1];
    assert!(driver.turn(around).is_err() && driver.tick().is_err());
    assert!(driver.receive(GROUP, messages[0].clone(), around).is_err());
    assert!(driver.propose(GROUP, 2, vec![b"two".to_vec()], 99).is_err());
    assert!(driver.read_barrier(GROUP, 3, 99).is_err() && driver.transfer(GROUP, 4, 1, 99).is_err());
    assert!(driver.applied(GROUP, 9).is_err() && driver.flushed(GROUP, 9).is_err());
    assert!(around.sent.is_empty());
}

#[test]
fn a_fence_that_cannot_be_written_ends_the_driver() {
    let mut cluster = Cluster::led();
    cluster.0[0].disk.set_fails(1000);
    let ticks = (0..20).map(|_| cluster.0[0].driver.tick()).collect::<Vec<_>>();
    assert!(ticks.last().is_some_and(Result::is_err));
}

#[test]
fn the_fence_is_written_once_a_second_if_something_changed() {
    let mut cluster = Cluster::led();
    cluster.diary(0);
    let fences = |cluster: &mut Cluster| {
        for _ in 0..60 {
            for site in &mut cluster.0 {
                site.driver.tick().unwrap();
            }
            cluster.settle();
        }
        cluster.diary(0).iter().filter(|line| *line == "fence").count()
    };
    assert_eq!(fences(&mut cluster), 1);
    assert_eq!(fences(&mut cluster), 0);
}

#[test]
fn proposals_of_peers_are_dropped() {
    let mut cluster = Cluster::led();
    let mut message = Message { from: 2, to: 1, ..Message::default() };
    message.set_msg_type(MessageType::MsgPropose);
    message.set_entries(vec![Entry { data: b"forwarded".to_vec().into(), ..Entry::default() }].into());
    let last = cluster.status(0).last;
    cluster.deliver(message);
    cluster.settle();
    assert_eq!(cluster.status(0).last, last);
}

#[test]
fn only_the_leader_proposes() {
    let mut cluster = Cluster::led();
    cluster.diary(1);
    cluster.propose(1, 7, b"one");
    cluster.turn(1).unwrap();
    assert_eq!(cluster.diary(1), ["answer 7"]);
    assert_eq!(cluster.answer(1, 7), Some(&Answer::NotLeader { leader: 1 }));
}

#[test]
fn wrong_calls_are_refused_and_do_nothing() {
    let mut cluster = Cluster::led();
    let before = cluster.status(0).last;
    cluster.propose(0, 1, b"");
    cluster.propose(0, 2, &vec![0; ENTRY_BYTES_MAX + 1]);
    let driver = &mut cluster.0[0].driver;
    driver.change(GROUP, 3, &[], &[], 99).unwrap();
    driver.change(GROUP, 4, &[1, 2], &[2], 99).unwrap();
    driver.transfer(GROUP, 5, 9, 99).unwrap();
    driver.propose(2, 6, vec![b"one".to_vec()], 99).unwrap();
    driver.read_barrier(2, 7, 99).unwrap();
    cluster.turn(0).unwrap();
    for token in 1..=7 {
        assert!(matches!(cluster.answer(0, token), Some(Answer::Refused(_))), "{token}");
    }
    assert_eq!(cluster.status(0).last, before);
    cluster.propose(0, 8, &vec![0; ENTRY_BYTES_MAX]);
    cluster.settle();
    assert!(matches!(cluster.answer(0, 8), Some(Answer::Committed { .. })));
}

#[test]
fn entries_of_one_call_are_neighbours() {
    let mut cluster = Cluster::led();
    let parts = (0..5u8).map(|number| vec![number]).collect();
    cluster.0[0].driver.propose(GROUP, 1, parts, 99).unwrap();
    cluster.propose(0, 2, b"other");
    cluster.settle();
    let data: Vec<_> = cluster.0[2].around.committed.iter().map(|e| e.data.to_vec()).collect();
    assert_eq!(data[data.len() - 6..], [&[0][..], &[1], &[2], &[3], &[4], b"other"]);
    let Some(Answer::Committed { index, .. }) = cluster.answer(0, 1) else { panic!() };
    assert_eq!(cluster.0[2].around.committed[*index as usize - 2].data[..], [4]);
}

#[test]
fn a_commit_index_alone_is_not_worth_a_write() {
    let mut cluster = Cluster::led();
    cluster.propose(0, 1, b"one");
    cluster.settle();
    cluster.diary(1);
    for _ in 0..2 {
        cluster.0[0].driver.tick().unwrap();
    }
    cluster.settle();
    assert!(!cluster.diary(1).contains(&"write".to_owned()));
    assert_eq!(cluster.status(1).commit, cluster.status(0).commit);
}

#[test]
fn a_leader_that_hears_nobody_answers_unknown_and_leads_no_more() {
    let mut cluster = Cluster::led();
    let deadline = cluster.0[0].driver.now() + 5;
    cluster.0[0].driver.propose(GROUP, 1, vec![b"one".to_vec()], deadline).unwrap();
    for _ in 0..25 {
        cluster.0[0].driver.tick().unwrap();
        cluster.turn(0).unwrap();
    }
    assert!(matches!(cluster.answer(0, 1), Some(Answer::Unknown { index: 3, .. })));
    assert_ne!(cluster.status(0).role, Role::Leader);
}

#[test]
fn a_replaced_proposal_is_answered_when_its_place_is_taken_for_good() {
    let mut cluster = Cluster::led();
    cluster.propose(0, 1, b"lost");
    cluster.turn(0).unwrap();
    cluster.0[0].around.sent.clear(); // nobody hears of it
    for _ in 0..30 {
        cluster.0[1].driver.tick().unwrap();
        cluster.0[2].driver.tick().unwrap();
        (1..3).for_each(|at| cluster.turn(at).unwrap());
        let sent: Vec<_> = (1..3).flat_map(|at| std::mem::take(&mut cluster.0[at].around.sent)).collect();
        sent.into_iter().filter(|m| m.to != 1).for_each(|m| cluster.deliver(m));
    }
    assert!(cluster.answer(0, 1).is_none());
    for _ in 0..3 {
        cluster.0[1].driver.tick().unwrap();
        cluster.0[2].driver.tick().unwrap();
        cluster.settle();
    }
    assert!(matches!(cluster.answer(0, 1), Some(Answer::NotLeader { .. })), "{:?}", cluster.status(0));
}

#[test]
fn a_barrier_ends_when_its_entries_are_applied() {
    let mut cluster = Cluster::led();
    cluster.propose(0, 1, b"one");
    cluster.settle();
    cluster.0[2].driver.read_barrier(GROUP, 5, 99).unwrap();
    cluster.settle();
    assert_eq!(cluster.answer(2, 5), Some(&Answer::Read { index: 3 }));
    cluster.0[2].driver.read_barrier(GROUP, 6, 99).unwrap();
    for _ in 0..99 {
        cluster.0[2].driver.tick().unwrap(); // alone
        cluster.turn(2).unwrap();
        cluster.0[2].around.sent.clear();
    }
    assert_eq!(cluster.answer(2, 6), Some(&Answer::TimedOut));
}

#[test]
fn a_barrier_whose_question_is_lost_asks_again() {
    let mut cluster = Cluster::led();
    cluster.0[2].driver.read_barrier(GROUP, 5, 99).unwrap();
    cluster.turn(2).unwrap();
    assert!(cluster.0[2].around.sent.drain(..).any(|m| m.get_msg_type() == MessageType::MsgReadIndex));
    for _ in 0..20 {
        cluster.0.iter_mut().for_each(|site| site.driver.tick().unwrap());
        cluster.settle();
    }
    assert!(matches!(cluster.answer(2, 5), Some(Answer::Read { .. })));
}

#[test]
fn who_waits_for_a_group_that_is_removed_gets_an_answer() {
    let mut cluster = Cluster::led();
    cluster.propose(0, 1, b"one");
    cluster.0[0].driver.read_barrier(GROUP, 2, 99).unwrap();
    cluster.turn(0).unwrap();
    cluster.0[0].driver.remove(GROUP).unwrap();
    cluster.turn(0).unwrap();
    assert!(matches!(cluster.answer(0, 1), Some(Answer::Unknown { index: 3, .. })));
    assert_eq!(cluster.answer(0, 2), Some(&Answer::TimedOut));
    assert!(cluster.0[0].driver.status(GROUP).is_none());
}

#[test]
fn leadership_is_handed_over() {
    let mut cluster = Cluster::led();
    cluster.0[0].driver.transfer(GROUP, 1, 3, 99).unwrap();
    cluster.settle();
    assert_eq!(cluster.answer(0, 1), Some(&Answer::Done));
    assert_eq!((cluster.status(2).role, cluster.status(0).leader), (Role::Leader, 3));
}

#[test]
fn members_change_and_a_leader_that_is_none_steps_down() {
    let mut cluster = Cluster::led();
    cluster.0[0].driver.change(GROUP, 1, &[2, 3], &[], 99).unwrap();
    cluster.settle();
    assert_eq!(cluster.answer(0, 1), Some(&Answer::Done));
    assert_eq!(cluster.status(0).role, Role::Follower);
    for _ in 0..12 {
        cluster.0[2].driver.tick().unwrap(); // so that it, too, misses its leader
    }
    cluster.elect(1);
    let mut voters = cluster.status(1).conf.voters;
    voters.sort_unstable();
    assert_eq!(voters, [2, 3]);
    cluster.propose(1, 2, b"one");
    cluster.settle();
    assert!(matches!(cluster.answer(1, 2), Some(Answer::Committed { .. })));
}

#[test]
fn a_learner_gets_a_snapshot_and_votes_once_it_is_told() {
    let mut cluster = Cluster::led();
    cluster.propose(0, 1, b"one");
    cluster.settle();
    cluster.0.push(site(4, &[]));
    cluster.0[0].driver.change(GROUP, 2, &[1, 2, 3], &[4], 99).unwrap();
    cluster.settle();
    assert_eq!(cluster.answer(0, 2), Some(&Answer::Done));
    for _ in 0..4 {
        cluster.0[0].driver.tick().unwrap();
        cluster.settle();
    }
    let at = cluster.status(0).applied;
    assert!(cluster.diary(0).contains(&"take".to_owned()));
    cluster.0[0].driver.snapshot_taken(GROUP, Some((at, b"files".to_vec()))).unwrap();
    for _ in 0..4 {
        cluster.0[0].driver.tick().unwrap();
        cluster.settle();
    }
    assert!(cluster.status(0).peers.iter().any(|peer| peer.replica == 4 && peer.gets_snapshot));
    assert_eq!(cluster.status(3).last, 0, "nothing happens before the data are here");
    cluster.0[3].driver.snapshot_fetched(GROUP, true).unwrap();
    cluster.settle();
    let diary = cluster.diary(3);
    assert!(place(&diary, "write") < place(&diary, &format!("install {at}")), "{diary:?}");
    cluster.0[0].driver.change(GROUP, 3, &[1, 2, 3, 4], &[], 99).unwrap();
    cluster.settle();
    cluster.propose(0, 4, b"two");
    cluster.settle();
    assert_eq!(cluster.status(3).last, cluster.status(0).last);
    assert_eq!(cluster.status(3).conf.voters.len(), 4);
}

#[test]
fn the_log_is_cut_behind_what_is_flushed_and_what_living_replicas_have() {
    let mut cluster = Cluster::led();
    for token in 1..=20 {
        cluster.propose(0, token, b"entry");
        cluster.settle();
    }
    cluster.0[0].driver.flushed(GROUP, 15).unwrap();
    assert_eq!(cluster.status(0).first, 16);
    cluster.0[1].driver.flushed(GROUP, 15).unwrap();
    assert_eq!(cluster.status(1).first, 2, "a follower does not know what others have");
    cluster.0[0].driver.flushed(GROUP, 1000).unwrap();
    assert_eq!(cluster.status(0).first, cluster.status(0).applied + 1);
}

#[test]
fn the_engine_is_set_up_by_the_rules() {
    let cluster = Cluster::new(1);
    let config = cluster.0[0].driver.config(0);
    assert!(config.pre_vote && config.check_quorum);
    assert_eq!((config.election_tick, config.heartbeat_tick), (10, 2));
    assert_eq!((config.max_size_per_msg, config.max_inflight_msgs), (4 << 20, 256));
    assert_eq!(ENTRY_BYTES_MAX, 1 << 20);
    assert_eq!(LogOptions::default().cache_bytes, 64 << 20);
}

#[test]
fn a_single_voter_leads_at_once() {
    let mut cluster = Cluster::new(1);
    cluster.settle();
    assert_eq!(cluster.status(0).role, Role::Leader);
    cluster.propose(0, 1, b"one");
    cluster.settle();
    assert!(matches!(cluster.answer(0, 1), Some(Answer::Committed { .. })));
}

#[test]
fn a_client_that_was_refilled_gets_the_entries_behind_that_again() {
    let mut cluster = Cluster::led();
    cluster.fill(10);
    let last = cluster.status(1).commit;
    assert_eq!(cluster.got(1).last(), Some(&last));
    cluster.0[1].driver.refilled(GROUP, 5).unwrap();
    cluster.settle();
    assert_eq!(cluster.got(1), (6..=last).collect::<Vec<_>>());
    cluster.fill(1);
    assert_eq!(cluster.got(1), [last + 1]);
}

#[test]
fn entries_that_a_refilled_client_has_already_do_not_come() {
    let mut cluster = Cluster::led();
    cluster.fill(3);
    let last = cluster.status(1).commit;
    cluster.got(1);
    cluster.0[1].driver.refilled(GROUP, last + 2).unwrap();
    cluster.fill(4);
    assert_eq!(cluster.got(1), [last + 3, last + 4]);
}

#[test]
fn a_replica_that_lost_its_data_votes_and_takes_entries_and_reads_nothing() {
    let mut cluster = Cluster::led();
    cluster.fill(10);
    cluster.restart_damaged(1);
    cluster.0.truncate(2); // the third one is gone, so the damaged one is needed for a majority
    cluster.propose(0, 7, b"more");
    cluster.settle();
    assert!(matches!(cluster.answer(0, 7), Some(Answer::Committed { .. })));
    let last = cluster.status(0).commit;
    cluster.got(1);

    let now = cluster.0[1].driver.now();
    cluster.0[1].driver.read_barrier(GROUP, 8, now + 5).unwrap();
    cluster.settle();
    assert_eq!(cluster.answer(1, 8), None, "it has nothing of what was acknowledged");
    cluster.0[1].driver.refilled(GROUP, 4).unwrap();
    cluster.settle();
    assert_eq!(cluster.got(1), (5..=last).collect::<Vec<_>>());
    assert!(matches!(cluster.answer(1, 8), Some(Answer::Read { .. })));
}

#[test]
fn the_fence_has_everything_when_a_driver_is_closed() {
    let mut cluster = Cluster::led();
    cluster.fill(3);
    cluster.diary(0);
    cluster.0[0].driver.close();
    assert_eq!(cluster.diary(0), ["fence"]);
    cluster.0[0].driver.close();
    assert!(cluster.diary(0).is_empty());
}

#[test]
fn what_left_together_is_no_majority_for_those_that_stayed() {
    let mut cluster = Cluster::led();
    for other in [2, 3] {
        cluster.0[0].driver.exclude(other);
    }
    let before = cluster.status(0).term;
    for _ in 0..40 {
        cluster.0[1].driver.tick().unwrap();
        cluster.0[2].driver.tick().unwrap();
        cluster.settle();
    }
    assert!(cluster.status(1).term > before || cluster.status(2).term > before, "they elect a leader");
    assert_eq!(cluster.status(0).term, before);
}
