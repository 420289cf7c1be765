//! Clients that connect, speak, stop in the middle of a line, pipeline, half-close, never read, leave and come back:
//! drawn from a seed, over socket pairs, in one thread. The test does the work of the writer and the readers, so the
//! order of all events is the order of the steps.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use issue_rpc::{RequestId, VERSION};
use issue_store::Durability;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use test_kit::scaled;
use test_kit::simulation::simulate;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet, yield_now};

use super::*;
use crate::committer::Health;
use crate::counts::{Counts, get};
use crate::database_files::DatabaseFiles;
use crate::service::Identity;
use crate::workers::Pending;

/// Clients at the same time. Few, so that they reuse what others have left.
const CLIENTS: usize = 4;
/// The clients of the test of many that never read.
const MANY: usize = 24;
/// Steps of the shortest world. The longest has `DOUBLINGS` times twice as many, and most are short.
const STEPS: usize = 4;
const DOUBLINGS: u32 = 7;
/// Worlds of a full run.
const WORLDS: u64 = 100_000;
/// Turns of the loop. Each looks for events of the sockets once.
const TURNS: usize = 3;
/// Rounds in which everybody must have been served at the end. Each does all work that waits.
const ROUNDS: usize = 1_000;
/// Groups and reads of a round.
const ROUND: usize = 16;
/// The length of the answer to `list`: more than a socket takes.
const LONG_ANSWER: usize = 250_000;
/// The length of the answer to a `list` of everything: two of them fill an outbox.
const HUGE_ANSWER: usize = 1 << 20;
/// The bound on the answers that wait for all clients.
const ALL_ANSWERS: usize = 4 << 20;

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Ping,
    Create,
    Show,
    List,
    /// Its answer is longer than a socket takes, and as long as an outbox.
    HugeList,
    /// So long that a reader parses it.
    LongCreate,
    /// Is not a request.
    Wrong,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Connect(usize),
    /// A client sends this many requests at once.
    Send(usize, Ask, usize),
    /// A client sends the begin of a line.
    SendHalf(usize),
    /// A client reads all that has arrived.
    Receive(usize),
    /// A client ends its side.
    HalfClose(usize),
    /// A client closes its connection.
    Leave(usize),
    /// The writer stores a group.
    Commit,
    /// A reader does one thing.
    Read,
    /// The time of the stall timeout passes.
    Stall,
    /// The connections do what they can.
    Turn,
    /// A client has got all its answers.
    MustBeAnswered(usize),
}

use Event::*;

fn draw(random: &mut StdRng) -> Event {
    let client = random.random_range(0..CLIENTS);
    match random.random_range(0..100) {
        0..12 => Connect(client),
        12..35 => {
            let asks = [
                Ask::Ping,
                Ask::Create,
                Ask::Create,
                Ask::Show,
                Ask::Show,
                Ask::List,
                Ask::LongCreate,
                Ask::Wrong,
            ];
            let count = [1, 1, 2, 20][random.random_range(0..4)];
            Send(client, asks[random.random_range(0..asks.len())], count)
        }
        35..37 => SendHalf(client),
        37..45 => Receive(client),
        45..47 => HalfClose(client),
        47..55 => Leave(client),
        55..66 => Commit,
        66..77 => Read,
        77 => Stall,
        _ => Turn,
    }
}

/// A client that is connected.
struct Peer {
    stream: net::UnixStream,
    received: Vec<u8>,
    /// The ids of its requests that are not answered.
    expected: VecDeque<String>,
    /// The bytes that its socket had no room for.
    unsent: Vec<u8>,
    has_ended: bool,
    /// The daemon told it that it is too slow, so its connection may end early.
    is_refused: bool,
}

impl Peer {
    fn send(&mut self) -> Result<(), String> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) if self.is_refused => self.unsent.clear(),
                Err(error) => return Err(format!("a client that did nothing wrong: {error}")),
            }
        }
        Ok(())
    }

    /// Receives what has arrived. Returns true if it was something.
    fn receive(&mut self) -> Result<bool, String> {
        let mut bytes = [0; 64 << 10];
        let mut is_progress = false;
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    let missing = self.expected.len();
                    return if self.is_refused || missing == 0 {
                        Ok(is_progress)
                    } else {
                        Err(format!("the end came before {missing} answers"))
                    };
                }
                Ok(length) => self.received.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(is_progress),
                Err(_) if self.is_refused => return Ok(is_progress),
                Err(error) => return Err(format!("a client that did nothing wrong: {error}")),
            }
            is_progress = true;
            while let Some(end) = memchr::memchr(b'\n', &self.received) {
                let rest = self.received.split_off(end + 1);
                let line = mem::replace(&mut self.received, rest);
                self.check(&line)?;
            }
        }
    }

    fn check(&mut self, line: &[u8]) -> Result<(), String> {
        let answer: Value =
            serde_json::from_slice(line).map_err(|error| format!("an answer: {error}"))?;
        let Some(id) = answer["request_id"].as_str() else {
            // Of a line that is not a request, or that did not arrive in time.
            if self.expected.front().is_some_and(String::is_empty) {
                self.expected.pop_front();
            } else {
                self.is_refused = true;
            }
            return Ok(());
        };
        match self.expected.pop_front() {
            Some(expected) if expected == id => Ok(()),
            expected => Err(format!("expected the answer {expected:?}, got {id:?}")),
        }
    }
}

struct World {
    connections: Rc<Connections>,
    pending: Pending,
    serving: JoinSet<()>,
    peers: [Option<Peer>; MANY],
    asked: u64,
    sessions: u64,
}

impl World {
    fn new() -> Self {
        let identity = Identity {
            is_compatible: false,
            database: PathBuf::from("/issues.db"),
            socket: PathBuf::from("/issues.sock"),
            durability: Durability::None,
            files: Arc::new(DatabaseFiles::new(Path::new("/issues.db"))),
        };
        let health = Arc::new(Mutex::new(Health::Healthy));
        let services = Services::new(Arc::new(identity), Arc::<Counts>::default(), health);
        let limits = Limits {
            stall_timeout: Duration::ZERO,
            queued: 30,
            in_flight: 40,
            answer_bytes: ALL_ANSWERS,
            ..Limits::default()
        };
        let (workers, pending) = Workers::without_threads(limits.queued);
        Self {
            connections: Rc::new(Connections::new(limits, services, workers)),
            pending,
            serving: JoinSet::new(),
            peers: [const { None }; MANY],
            asked: 0,
            sessions: 0,
        }
    }

    async fn step(&mut self, step: Event) -> Result<(), String> {
        match step {
            Connect(client) if self.peers[client].is_none() => self.connect(client),
            Send(client, ask, count) => self.send(client, ask, count)?,
            SendHalf(client) => {
                if let Some(peer) = self.peers[client].as_mut().filter(|peer| !peer.has_ended) {
                    // All that follows is a part of this line, which is not a request then.
                    peer.unsent.extend_from_slice(b"{\"operation\":\"pi");
                    peer.expected.push_back(String::new());
                    peer.has_ended = true;
                    peer.is_refused = true;
                    peer.send()?;
                }
            }
            Receive(client) => {
                if let Some(peer) = &mut self.peers[client] {
                    peer.receive()?;
                }
            }
            HalfClose(client) => {
                if let Some(peer) = &mut self.peers[client]
                    && peer.unsent.is_empty()
                {
                    // It may have been closed by the other side.
                    let _ = peer.stream.shutdown(Shutdown::Write);
                    peer.has_ended = true;
                }
            }
            Leave(client) => self.peers[client] = None,
            Commit => self.commit(),
            Read => self.read(),
            Stall => {
                for peer in self.peers.iter_mut().flatten() {
                    // Only those that do not read are closed; that is checked where nobody stalls.
                    peer.is_refused = true;
                }
                self.connections.sweep();
            }
            Turn => self.turn().await?,
            MustBeAnswered(client) => {
                let peer = self.peers[client].as_ref();
                let waiting = peer.map_or(0, |peer| peer.expected.len());
                if waiting > 0 {
                    return Err(format!("waits for {waiting} answers"));
                }
            }
            Connect(_) => {}
        }
        self.check_memory()
    }

    /// Checks the bytes of answers, of each connection and of all.
    fn check_memory(&self) -> Result<(), String> {
        let open = self.connections.open.borrow();
        let kept = open
            .values()
            .map(|connection| connection.state.borrow().outbox.bytes.len());
        let kept: Vec<usize> = kept.collect();
        let (longest, all) = (kept.iter().max().copied(), kept.iter().sum::<usize>());
        // The part that was sent may be kept for a while.
        let is_bounded = longest < Some(2 * OUTBOX + HUGE_ANSWER + SCRATCH)
            && all < ALL_ANSWERS + HUGE_ANSWER + MANY * OUTBOX;
        if is_bounded {
            Ok(())
        } else {
            Err(format!(
                "answers of {longest:?} and {all} bytes are in memory"
            ))
        }
    }

    async fn turn(&mut self) -> Result<(), String> {
        for _ in 0..TURNS {
            yield_now().await;
        }
        while let Some(ended) = self.serving.try_join_next() {
            ended.map_err(|panic| format!("the task of a connection: {panic}"))?;
        }
        Ok(())
    }

    fn connect(&mut self, client: usize) {
        let (stream, other) = net::UnixStream::pair().unwrap();
        for stream in [&stream, &other] {
            stream.set_nonblocking(true).unwrap();
        }
        let other = UnixStream::from_std(other).unwrap();
        let connections = Rc::clone(&self.connections);
        self.serving
            .spawn_local(async move { connections.serve(other).await });
        self.sessions += 1;
        self.peers[client] = Some(Peer {
            stream,
            received: Vec::new(),
            expected: VecDeque::new(),
            unsent: Vec::new(),
            has_ended: false,
            is_refused: false,
        });
    }

    fn send(&mut self, client: usize, ask: Ask, count: usize) -> Result<(), String> {
        let peer = self.peers[client].as_mut();
        let Some(peer) = peer.filter(|peer| !peer.has_ended) else {
            return Ok(());
        };
        for _ in 0..count {
            self.asked += 1;
            let id = format!("{client}-{}", self.asked);
            let (operation, args) = match ask {
                Ask::Ping => ("ping", json!({})),
                Ask::Create => ("create", json!({"title": "t"})),
                Ask::Show => ("show", json!({"id": "a"})),
                Ask::List => ("list", json!({"limit": 1_000})),
                Ask::HugeList => ("list", json!({})),
                Ask::LongCreate => ("create", json!({"title": "t", "description": ""})),
                Ask::Wrong => {
                    peer.unsent.extend_from_slice(b"hello\n");
                    peer.expected.push_back(String::new());
                    continue;
                }
            };
            let request = json!({"operation": operation, "args": args, "request_id": id, "client_version": VERSION});
            let mut line = format!("{request}\n");
            if ask == Ask::LongCreate {
                line = lengthen(&line, LARGE_LINE);
            }
            peer.unsent.extend_from_slice(line.as_bytes());
            peer.expected.push_back(id);
        }
        peer.send()
    }

    fn commit(&mut self) {
        let group = self.pending.take_group();
        let outcomes = group.jobs.iter().map(|job| Outcome {
            connection: job.connection,
            result: WorkResult::Answered(line(job.request.header.request_id.as_ref(), 10)),
        });
        self.connections.complete(outcomes.collect());
    }

    fn read(&mut self) {
        let Some((connection, work)) = self.pending.take_read() else {
            return;
        };
        let result = match work {
            ReadWork::Parse(text) => {
                let Services {
                    identity, counts, ..
                } = &self.connections.services;
                WorkResult::Parsed(Box::new(identity.understand(&text, counts)), text.len())
            }
            ReadWork::Read(read) => {
                let length = match &read.1 {
                    issue_rpc::Read::List(filter) if filter.limit.is_none() => HUGE_ANSWER,
                    issue_rpc::Read::List(_) => LONG_ANSWER,
                    _ => 100,
                };
                WorkResult::Answered(line(read.0.request_id.as_ref(), length))
            }
        };
        self.connections
            .complete(vec![Outcome { connection, result }]);
    }

    fn work(&mut self) {
        for _ in 0..ROUND {
            self.commit();
            self.read();
        }
    }

    /// Lets everybody who is there finish, then leave. Nothing of them may stay.
    async fn end(&mut self) -> Result<(), String> {
        let mut rounds = 0;
        let mut is_waiting = true;
        while is_waiting {
            rounds += 1;
            if rounds > ROUNDS {
                let waiting: HashMap<_, _> = (self.peers.iter().flatten())
                    .map(|peer| (peer.expected.front(), peer.expected.len()))
                    .collect();
                return Err(format!("somebody waits for ever: {waiting:?}"));
            }
            self.work();
            is_waiting = false;
            for peer in self.peers.iter_mut().flatten() {
                peer.send()?;
                peer.receive()?;
                is_waiting |=
                    !(peer.is_refused || peer.expected.is_empty() && peer.unsent.is_empty());
            }
            self.turn().await?;
        }
        self.peers = [const { None }; MANY];
        for _ in 0..ROUNDS {
            self.work();
            self.turn().await?;
            if self.serving.is_empty() && self.pending.is_empty() {
                break;
            }
        }
        let counts = &self.connections.services.counts;
        let left = [
            ("tasks", self.serving.len()),
            ("connections", self.connections.open.borrow().len()),
            ("counted connections", get(&counts.open) as usize),
            (
                "counted requests in flight",
                get(&counts.in_flight) as usize,
            ),
            ("bytes of requests", self.connections.held.get()),
        ];
        match left.iter().find(|(_, left)| *left != 0) {
            Some((name, left)) => Err(format!("{left} {name} stay after everybody has left")),
            None => Ok(()),
        }
    }
}

fn line(id: Option<&RequestId>, length: usize) -> String {
    lengthen(&Answer::success(&"").line(id), length)
}

/// Replaces the empty string in a line by a long one. Without optimisation, a serializer takes a millisecond for it.
fn lengthen(line: &str, length: usize) -> String {
    line.replacen("\"\"", &format!("\"{}\"", "d".repeat(length)), 1)
}

/// Runs a world. Returns the number of its sessions, or what went wrong.
fn run(steps: &[Event]) -> Result<u64, String> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut world = World::new();
        for step in steps {
            world.step(*step).await?;
        }
        world.end().await?;
        Ok(world.sessions)
    })
}

#[test]
fn clients_get_their_own_answers_and_leave_nothing_behind_whatever_they_do() {
    let steps = |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let longest = STEPS << random.random_range(0..DOUBLINGS);
        (0..random.random_range(STEPS..=longest))
            .map(|_| draw(&mut random))
            .collect()
    };
    let sessions = simulate(WORLDS, steps, run);
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn nothing_of_clients_that_leave_before_their_answers_stays_or_reaches_others() {
    // Each has failed: a connection that stayed, a panic, and an answer to another client.
    for steps in [
        &[Connect(0), Send(0, Ask::Create, 1), Leave(0)][..],
        &[Connect(0), Stall, Send(0, Ask::Show, 20)],
        &[
            Connect(0),
            Send(0, Ask::Create, 1),
            Turn,
            Send(0, Ask::Show, 1),
            Leave(0),
        ],
        &[
            Connect(0),
            Send(0, Ask::Create, 1),
            Turn,
            Send(0, Ask::Show, 1),
            Leave(0),
            Commit,
            Connect(1),
            Turn,
            Read,
            Receive(1),
        ],
    ] {
        run(steps).unwrap();
    }
}

#[test]
fn clients_that_never_read_their_lists_take_bounded_memory_and_others_do_not_wait() {
    let (last, readers) = (MANY - 1, 0..MANY - 1);
    let mut steps = Vec::new();
    for client in readers {
        steps.extend([Connect(client), Send(client, Ask::HugeList, 2), Turn]);
    }
    steps.extend([Read; 100]);
    // Its own request is the only one that is not long.
    steps.extend([
        Connect(last),
        Send(last, Ask::Show, 1),
        Turn,
        Read,
        Receive(last),
    ]);
    steps.push(MustBeAnswered(last));
    run(&steps).unwrap();
}

#[test]
fn a_client_that_is_always_a_little_behind_takes_bounded_memory() {
    let mut steps = vec![Connect(0)];
    for _ in 0..40 {
        steps.extend([
            Send(0, Ask::List, 2),
            Turn,
            Read,
            Turn,
            Read,
            Turn,
            Receive(0),
        ]);
    }
    run(&steps).unwrap();
}
