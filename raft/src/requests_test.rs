//! Tests of requests between sites, over real connections.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::answers::Answerer;
use crate::incoming::REQUESTS_OF_ONE_MAX;
use crate::link::{greeting, Kind, Links, FRAME_BYTES_MAX, GREETING_BYTES, NO_REPLICA};
use crate::requests::{
    ask_at, read_request, request_frame, Requests, Said, Unanswered, CONNECTIONS_MAX, PAYLOAD_BYTES_MAX,
};
use crate::site::Network;
use crate::site_test::write_certificates;
use crate::transport::{TlsFiles, Transport};

const ASKS: u64 = 1;
const ANSWERS: u64 = 2;
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(50);

fn listen(replica: u64) -> Transport {
    Transport::listen("127.0.0.1:0", replica, None).unwrap()
}

fn answering(answerer: impl Fn(u64, &[u8]) -> Result<Vec<u8>, String> + Send + Sync + 'static) -> Transport {
    let transport = listen(ANSWERS);
    transport.answer_by(Arc::new(answerer));
    transport
}

fn echo() -> Answerer {
    Arc::new(|from, request| Ok([&from.to_le_bytes()[..], request].concat()))
}

/// Returns what asks replica 2, which is at that address.
fn asking(address: &str) -> Transport {
    let transport = listen(ASKS);
    transport.set_peer(ANSWERS, Some(address)).unwrap();
    transport
}

fn place_of(transport: &Transport) -> String {
    transport.address().to_string()
}

fn ask(transport: &Transport, request: &[u8], limit: Duration) -> Result<Vec<u8>, Unanswered> {
    transport.requests().ask(ANSWERS, request, limit, limit)
}

/// Asks in a thread of its own.
fn ask_later(
    transport: &Transport,
    request: &'static [u8],
) -> thread::JoinHandle<Result<Vec<u8>, Unanswered>> {
    let requests: Arc<Requests> = transport.requests().clone();
    thread::spawn(move || requests.ask(ANSWERS, request, LONG, LONG))
}

fn echoed(request: &[u8]) -> Vec<u8> {
    [&ASKS.to_le_bytes()[..], request].concat()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LONG, "{what} did not come");
        thread::yield_now();
    }
}

/// Requires that nobody was asked, or that no answer came, and returns the text.
fn unanswered(answer: Result<Vec<u8>, Unanswered>) -> String {
    match answer {
        Err(Unanswered::TimedOut(text) | Unanswered::NotAsked(text)) => text,
        answer => panic!("{answer:?}"),
    }
}

/// Requires that nobody was asked, and returns the text.
fn not_asked(answer: Result<Vec<u8>, Unanswered>) -> String {
    match answer {
        Err(Unanswered::NotAsked(text)) => text,
        answer => panic!("{answer:?}"),
    }
}

/// Requires that no answer came, and returns the text.
fn timed_out(answer: Result<Vec<u8>, Unanswered>) -> String {
    match answer {
        Err(Unanswered::TimedOut(text)) => text,
        answer => panic!("{answer:?}"),
    }
}

/// Holds up whoever passes, until it is opened, or so long that the test has failed.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_timeout_while(is_open, LONG, |is_open| !*is_open).unwrap());
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn holds(&self, count: usize) -> bool {
        self.inside.load(Ordering::SeqCst) == count
    }
}

/// Answers "slow" once the gate is open, and all else at once.
fn answering_behind(gate: &Arc<Gate>) -> Transport {
    let gate = gate.clone();
    answering(move |_, request| {
        if request == b"slow" {
            gate.pass();
        }
        Ok(request.to_vec())
    })
}

/// A peer that does the same with each connection for requests, once it has heard the greeting.
fn impostor(act: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, act) = (listener.local_addr().unwrap().to_string(), Arc::new(act));
    let serve = move |mut stream: TcpStream, act: &dyn Fn(&mut TcpStream)| {
        let mut heard = [0; GREETING_BYTES];
        if stream.read_exact(&mut heard).is_ok() && heard[9] == Kind::Requests as u8 {
            act(&mut stream);
        }
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, act) = (stream.unwrap(), act.clone());
            thread::spawn(move || serve(stream, &*act));
        }
    });
    address
}

fn let_in(stream: &mut TcpStream) {
    stream.write_all(&greeting(Kind::Requests, ANSWERS, ASKS)).unwrap();
}

/// Connects to a transport as replica 1 does for requests. Returns whether it is let in.
fn greet(transport: &Transport) -> (TcpStream, bool) {
    let mut stream = TcpStream::connect(transport.address()).unwrap();
    stream.write_all(&greeting(Kind::Requests, ASKS, ANSWERS)).unwrap();
    let mut heard = [0; GREETING_BYTES];
    let is_let_in = stream.read_exact(&mut heard).is_ok();
    (stream, is_let_in && heard[..] == greeting(Kind::Requests, ANSWERS, ASKS))
}

#[test]
fn a_frame_has_these_bytes() {
    let golden = [13, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 139, 60, 147, 22];
    let frame = request_frame(9, Said::Answer, b"");
    assert_eq!(frame, golden);
}

#[test]
fn a_damaged_or_cut_frame_is_refused() {
    let frame = request_frame(9, Said::Request, b"payload");
    assert_eq!(read_request(&mut &frame[..]).unwrap(), Some((9, Said::Request, b"payload".to_vec())));
    assert_eq!(read_request(&mut &[][..]).unwrap(), None);
    for place in 0..frame.len() {
        let mut damaged = frame.clone();
        damaged[place] ^= 0x10;
        assert!(read_request(&mut &damaged[..]).is_err(), "byte {place}");
        assert!(place == 0 || read_request(&mut &frame[..place]).is_err(), "{place} bytes");
    }
}

#[test]
fn answers_come_back_over_one_connection() {
    let answers = listen(ANSWERS);
    answers.answer_by(echo());
    let asks = asking(&place_of(&answers));
    for request in [&b"one"[..], b"two", b""] {
        assert_eq!(ask(&asks, request, LONG).unwrap(), echoed(request));
    }
    assert_eq!(asks.requests().connections(ANSWERS), (1, 1));
}

#[test]
fn a_program_without_a_replica_asks_whoever_is_at_an_address() {
    let answers = listen(ANSWERS);
    let links = Links::new(NO_REPLICA, None).unwrap();
    let place = place_of(&answers);
    match ask_at(&links, &place, b"one", LONG) {
        Err(Unanswered::NotAsked(text)) => assert!(text.contains(&place), "{text}"),
        answer => panic!("nobody answers yet: {answer:?}"),
    }
    answers.answer_by(echo());
    let expected = [&NO_REPLICA.to_le_bytes()[..], b"one"].concat();
    assert_eq!(ask_at(&links, &place, b"one", LONG).unwrap(), expected);
    let refuses = answering(|_, _| Err("it knows nothing".to_owned()));
    match ask_at(&links, &place_of(&refuses), b"one", LONG) {
        Err(Unanswered::NoAnswer(text)) => assert!(text.contains("it knows nothing"), "{text}"),
        answer => panic!("{answer:?}"),
    }
    let gate = Arc::new(Gate::default());
    let slow = answering_behind(&gate);
    timed_out(ask_at(&links, &place_of(&slow), b"slow", SHORT));
    gate.open();
}

#[test]
fn many_askers_get_each_its_own_answer() {
    let answers = listen(ANSWERS);
    answers.answer_by(echo());
    let asks = asking(&place_of(&answers));
    thread::scope(|scope| {
        for thread in 0..64u32 {
            let asks = &asks;
            scope.spawn(move || {
                for number in 0..20u32 {
                    let request = (thread * 20 + number).to_le_bytes().repeat(1 + number as usize * 100);
                    assert_eq!(ask(asks, &request, LONG).unwrap(), echoed(&request));
                }
            });
        }
    });
    let (all, idle) = asks.requests().connections(ANSWERS);
    assert!(all <= CONNECTIONS_MAX && idle <= all, "{all} connections");
}

#[test]
fn some_requests_are_under_way_and_others_wait() {
    let gate = Arc::new(Gate::default());
    let answers = answering_behind(&gate);
    let asks = asking(&place_of(&answers));
    let all: Vec<_> = (0..CONNECTIONS_MAX + 4).map(|_| ask_later(&asks, b"slow")).collect();
    wait_until("requests", || gate.holds(CONNECTIONS_MAX) && asks.requests().waiting(ANSWERS) == 4);
    let text = not_asked(ask(&asks, b"one more", SHORT));
    assert!(text.contains("too many requests are under way"), "{text}");
    gate.open();
    for asked in all {
        assert_eq!(asked.join().unwrap().unwrap(), b"slow");
    }
    assert_eq!(gate.most.load(Ordering::SeqCst), CONNECTIONS_MAX);
}

#[test]
fn the_largest_payloads_pass_and_larger_ones_do_not() {
    let answers = answering(|_, request| match request {
        b"too large" => Ok(vec![7; PAYLOAD_BYTES_MAX + 1]),
        _ => Ok(request.iter().rev().copied().collect()),
    });
    let asks = asking(&place_of(&answers));
    let request: Vec<u8> = (0..PAYLOAD_BYTES_MAX).map(|at| (at / 251) as u8).collect();
    let answer = ask(&asks, &request, LONG).unwrap();
    assert!(answer.iter().rev().eq(&request), "the answer is another one");
    match ask(&asks, &vec![7; PAYLOAD_BYTES_MAX + 1], LONG) {
        Err(Unanswered::Refused(text)) => assert!(text.contains("8388596 bytes"), "{text}"),
        answer => panic!("{answer:?}"),
    }
    match ask(&asks, b"too large", LONG) {
        Err(Unanswered::NoAnswer(text)) => assert!(text.contains("8388596 bytes"), "{text}"),
        answer => panic!("{answer:?}"),
    }
    assert_eq!(asks.requests().connections(ANSWERS), (1, 1));
}

#[test]
fn who_has_no_answer_says_why() {
    let answers = answering(|_, _| Err("it is busy".to_owned()));
    let asks = asking(&place_of(&answers));
    let text = format!("replica 2 at {} has no answer: it is busy", place_of(&answers));
    assert_eq!(ask(&asks, b"one", LONG), Err(Unanswered::NoAnswer(text)));
}

#[test]
fn a_slow_answer_is_not_waited_for_and_holds_up_no_other() {
    let gate = Arc::new(Gate::default());
    let answers = answering_behind(&gate);
    let asks = asking(&place_of(&answers));
    assert_eq!(ask(&asks, b"fast", LONG).unwrap(), b"fast"); // so that there is a connection
    let text = timed_out(ask(&asks, b"slow", SHORT));
    let place = format!("replica 2 at {} does not answer", place_of(&answers));
    assert!(text.contains(&place) && text.contains("may have been asked"), "{text}");
    assert_eq!(asks.requests().connections(ANSWERS), (0, 0), "a late answer would be that of another");
    assert_eq!(ask(&asks, b"fast", LONG).unwrap(), b"fast");
    gate.open();
}

#[test]
fn a_replica_that_is_nowhere_is_not_asked() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let asks = asking(&silent.local_addr().unwrap().to_string());
    let waits = ask_later(&asks, b"one");
    wait_until("a request", || asks.requests().waiting(ANSWERS) == 1);
    asks.set_peer(ANSWERS, None).unwrap();
    for answer in [waits.join().unwrap(), ask(&asks, b"two", LONG)] {
        match answer {
            Err(Unanswered::NotAsked(text)) => assert!(text.contains("replica 2 is not known"), "{text}"),
            answer => panic!("{answer:?}"),
        }
    }
}

#[test]
fn a_replica_that_moves_is_asked_where_it_is() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let asks = asking(&silent.local_addr().unwrap().to_string());
    let waits = ask_later(&asks, b"one");
    wait_until("a request", || asks.requests().waiting(ANSWERS) == 1);
    let gate = Arc::new(Gate::default());
    let first = answering_behind(&gate);
    asks.set_peer(ANSWERS, Some(&place_of(&first))).unwrap();
    assert_eq!(waits.join().unwrap().unwrap(), b"one");
    // What the old one was asked is lost.
    let lost = ask_later(&asks, b"slow");
    wait_until("a request", || gate.holds(1));
    let second = answering_behind(&gate);
    asks.set_peer(ANSWERS, Some(&place_of(&second))).unwrap();
    let text = timed_out(lost.join().unwrap());
    assert!(text.contains(&place_of(&first)) && text.contains("broke"), "{text}");
    assert_eq!(ask(&asks, b"two", LONG).unwrap(), b"two");
    gate.open();
}

#[test]
fn nobody_waits_for_a_replica_that_is_given_up() {
    let gate = Arc::new(Gate::default());
    let answers = answering_behind(&gate);
    let asks = asking(&place_of(&answers));
    let waits = [ask_later(&asks, b"slow"), ask_later(&asks, b"slow")];
    wait_until("two requests", || gate.holds(2));
    asks.sender().lost(ANSWERS);
    for lost in waits {
        let text = timed_out(lost.join().unwrap());
        assert!(text.contains("broke"), "{text}");
    }
    assert_eq!(ask(&asks, b"two", LONG).unwrap(), b"two", "it may have come back");
    gate.open();
}

#[test]
fn a_replica_that_goes_and_comes_back_is_asked_again() {
    let gate = Arc::new(Gate::default());
    let answers = answering_behind(&gate);
    let address = place_of(&answers);
    let asks = asking(&address);
    assert_eq!(ask(&asks, b"one", LONG).unwrap(), b"one");
    drop(answers);
    let again = Transport::listen(&address, ANSWERS, None).unwrap();
    again.answer_by(echo());
    assert_eq!(ask(&asks, b"two", LONG).unwrap(), echoed(b"two")); // not over the connection that has ended
    drop(again);
    wait_until("a refusal", || unanswered(ask(&asks, b"three", SHORT)).contains("refused"));
    let back = Transport::listen(&address, ANSWERS, None).unwrap();
    let waits = ask_later(&asks, b"four");
    wait_until("a request", || asks.requests().waiting(ANSWERS) == 1);
    assert!(!greet(&back).1, "it is let in before anybody answers");
    back.answer_by(echo());
    assert_eq!(waits.join().unwrap().unwrap(), echoed(b"four"));
}

#[test]
fn who_waits_when_its_site_closes_gets_an_answer() {
    let gate = Arc::new(Gate::default());
    let answers = answering_behind(&gate);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let asks = asking(&place_of(&answers));
    asks.set_peer(3, Some(&silent.local_addr().unwrap().to_string())).unwrap();
    let was_asked = ask_later(&asks, b"slow");
    let requests = asks.requests().clone();
    let was_not = thread::spawn(move || requests.ask(3, b"one", LONG, LONG));
    wait_until("both", || gate.holds(1) && asks.requests().waiting(3) == 1);
    let requests = asks.requests().clone();
    drop(asks);
    let later = requests.ask(ANSWERS, b"one", LONG, LONG);
    for answer in [was_asked.join().unwrap(), was_not.join().unwrap(), later] {
        assert!(timed_out(answer).contains("the site is closed"));
    }
    gate.open();
}

#[test]
fn a_site_that_closes_waits_for_who_answers() {
    let (gate, left) = (Arc::new(Gate::default()), Arc::new(AtomicUsize::new(0)));
    let (held, counted) = (gate.clone(), left.clone());
    let answers = answering(move |_, request| {
        held.pass();
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(request.to_vec())
    });
    let asks = asking(&place_of(&answers));
    let asked = ask_later(&asks, b"one");
    wait_until("a request", || gate.holds(1));
    let (began, seen) = (Arc::new(AtomicUsize::new(0)), left.clone());
    let closing = began.clone();
    let closes = thread::spawn(move || {
        answers.close();
        closing.store(1, Ordering::SeqCst);
        drop(answers);
        seen.load(Ordering::SeqCst)
    });
    let text = timed_out(asked.join().unwrap()); // its connection is closed at once
    assert!(text.contains("broke"), "{text}");
    wait_until("closing", || began.load(Ordering::SeqCst) == 1);
    gate.open();
    assert_eq!(closes.join().unwrap(), 1, "it closed before the callback returned");
}

#[test]
fn who_is_silent_or_says_something_wrong_is_given_up() {
    let letting_in = |after: Vec<u8>| {
        impostor(move |stream| {
            let_in(stream);
            if read_request(stream).is_ok() {
                let _ = stream.write_all(&after);
                let _ = stream.read(&mut [0; 1]); // until the other side closes it
            }
        })
    };
    let mut damaged = request_frame(1, Said::Answer, b"answer");
    *damaged.last_mut().unwrap() ^= 1;
    let large = (FRAME_BYTES_MAX as u32 + 1).to_le_bytes().to_vec();
    let wrong = [
        (damaged, "damaged"),
        (large, "too large"),
        (request_frame(99, Said::Answer, b"answer"), "not asked"),
        (vec![13, 0, 0, 0], "nothing came"),
        (Vec::new(), "nothing came"),
    ];
    for (said, why) in wrong {
        let asks = asking(&letting_in(said));
        let limit = if why == "nothing came" { SHORT } else { LONG };
        wait_until(why, || unanswered(ask(&asks, b"one", limit)).contains(why));
        assert_eq!(asks.requests().connections(ANSWERS), (0, 0));
        let answers = listen(ANSWERS);
        answers.answer_by(echo());
        asks.set_peer(ANSWERS, Some(&place_of(&answers))).unwrap();
        assert_eq!(ask(&asks, b"two", LONG).unwrap(), echoed(b"two"));
    }
}

#[test]
fn who_greets_as_another_is_not_asked() {
    let greetings = [
        vec![b'x'; GREETING_BYTES],
        greeting(Kind::Requests, 3, ASKS),
        greeting(Kind::Requests, ANSWERS, 3),
        greeting(Kind::Messages, ANSWERS, ASKS),
        Vec::new(),
    ];
    for said in greetings {
        let (heard, counted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (hears, counts) = (heard.clone(), counted.clone());
        let asks = asking(&impostor(move |stream| {
            let _ = stream.write_all(&said);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            hears.fetch_add(stream.read(&mut [0; 1]).unwrap_or(0), Ordering::SeqCst);
            counts.fetch_add(1, Ordering::SeqCst);
        }));
        wait_until("attempts", || {
            not_asked(ask(&asks, b"one", SHORT)).contains("was not asked")
                && counted.load(Ordering::SeqCst) > 1
        });
        assert_eq!(heard.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn who_is_not_there_is_given_up_before_the_answer_would_be_late() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap(); // it takes connections, and greets nobody
    let asks = asking(&silent.local_addr().unwrap().to_string());
    let began = Instant::now();
    let text = not_asked(asks.requests().ask(ANSWERS, b"one", SHORT, LONG));
    assert!(text.contains("was not asked within 50ms"), "{text}");
    assert!(began.elapsed() < LONG, "it waited for the answer");
}

#[test]
fn who_asks_something_wrong_gets_no_answer() {
    let answered = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = answered.clone();
    let answers = answering(move |_, request| {
        noted.lock().unwrap().insert(request.to_vec());
        Ok(request.to_vec())
    });
    let mut damaged = request_frame(1, Said::Request, b"damaged");
    *damaged.last_mut().unwrap() ^= 1;
    let large = (FRAME_BYTES_MAX as u32 + 1).to_le_bytes().to_vec();
    for said in [damaged, large, request_frame(1, Said::Answer, b"answer"), vec![0; 64]] {
        let (mut stream, is_let_in) = greet(&answers);
        assert!(is_let_in);
        stream.write_all(&said).unwrap();
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)), "the connection goes on");
    }
    let asks = asking(&place_of(&answers));
    assert_eq!(ask(&asks, b"one", LONG).unwrap(), b"one");
    assert_eq!(*answered.lock().unwrap(), BTreeSet::from([b"one".to_vec()]));
}

#[test]
fn a_replica_has_not_too_many_connections() {
    let answers = answering(|_, request| Ok(request.to_vec()));
    let mut streams: Vec<_> = (0..REQUESTS_OF_ONE_MAX).map(|_| greet(&answers)).collect();
    assert!(streams.iter().all(|(_, is_let_in)| *is_let_in));
    assert!(!greet(&answers).1);
    streams.pop();
    wait_until("an end", || greet(&answers).1);
}

#[test]
fn only_sites_of_one_authority_ask_each_other() {
    let folder = TempDir::new().unwrap();
    write_certificates(&folder);
    let open = |replica: u64, name: &str| {
        let path = |file: &str| folder.path().join(file);
        let (certificate, key) = (path(&format!("{name}.pem")), path(&format!("{name}.key")));
        let files = TlsFiles { authority: path("authority.pem"), certificate, key };
        let transport = Transport::listen("127.0.0.1:0", replica, Some(&files)).unwrap();
        transport.answer_by(echo());
        transport
    };
    let connect = |from: &Transport, to: &Transport| from.set_peer(ANSWERS, Some(&place_of(to))).unwrap();
    let (asks, answers) = (open(ASKS, "site"), open(ANSWERS, "site"));
    connect(&asks, &answers);
    let large = vec![7; 3 << 20];
    for request in [&b"one"[..], &large, b"two"] {
        assert_eq!(ask(&asks, request, LONG).unwrap(), echoed(request));
    }
    assert_eq!(asks.requests().connections(ANSWERS), (1, 1));
    let stranger = open(ASKS, "stranger");
    connect(&stranger, &answers);
    let strange = open(ANSWERS, "stranger");
    connect(&asks, &strange);
    for asks in [&stranger, &asks] {
        wait_until("a refusal", || unanswered(ask(asks, b"one", SHORT)).to_lowercase().contains("unknown"));
    }
}
