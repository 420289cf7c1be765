//! A simulated client: sends requests without waiting for answers, and checks that each answer is its own.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use issue_rpc::VERSION;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};

/// Clients at the same time. Few, so that they reuse what others have left.
pub(crate) const CLIENTS: usize = 4;
/// Steps of the shortest world. The longest has `DOUBLINGS` times twice as many, and most are short.
const STEPS: usize = 4;
const DOUBLINGS: u32 = 7;
/// The length of a request that another thread parses.
const LONG: usize = 32 << 10;

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
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
pub(crate) enum Event {
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
    /// The daemon is ended, at once or gracefully, and started again.
    Restart(bool),
}

/// Returns the steps of a seed, among them a restart of the daemon if it `restarts`.
pub(crate) fn draw(seed: u64, restarts: bool) -> Vec<Event> {
    let mut random = StdRng::seed_from_u64(seed);
    let longest = STEPS << random.random_range(0..DOUBLINGS);
    let length = random.random_range(STEPS..=longest);
    let mut steps: Vec<Event> = (0..length).map(|_| draw_event(&mut random)).collect();
    if restarts {
        let at = random.random_range(0..length);
        steps.insert(at, Event::Restart(random.random_ratio(1, 2)));
    }
    steps
}

fn draw_event(random: &mut StdRng) -> Event {
    let client = random.random_range(0..CLIENTS);
    match random.random_range(0..100) {
        0..12 => Event::Connect(client),
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
            Event::Send(client, asks[random.random_range(0..asks.len())], count)
        }
        35..37 => Event::SendHalf(client),
        37..45 => Event::Receive(client),
        45..47 => Event::HalfClose(client),
        47..55 => Event::Leave(client),
        55..66 => Event::Commit,
        66..77 => Event::Read,
        77 => Event::Stall,
        78 => Event::Send(client, Ask::HugeList, 1),
        _ => Event::Turn,
    }
}

/// A client that is connected.
pub(crate) struct Peer {
    pub(crate) stream: UnixStream,
    received: Vec<u8>,
    /// The ids of its requests that are not answered.
    pub(crate) expected: VecDeque<String>,
    /// The bytes that its socket had no room for.
    pub(crate) unsent: Vec<u8>,
    has_ended: bool,
    /// The daemon told it that it is too slow, so its connection may end early.
    pub(crate) is_refused: bool,
    /// Its number among all sessions, and the number of its requests.
    session: u64,
    asked: u64,
    /// The ids of issues that the daemon has returned.
    pub(crate) known: Vec<String>,
}

impl Peer {
    pub(crate) fn new(stream: UnixStream, session: u64) -> Self {
        Self {
            stream,
            received: Vec::new(),
            expected: VecDeque::new(),
            unsent: Vec::new(),
            has_ended: false,
            is_refused: false,
            session,
            asked: 0,
            known: Vec::new(),
        }
    }

    /// Does what it does in a step.
    pub(crate) fn step(&mut self, step: Event) -> Result<(), String> {
        match step {
            Event::Send(_, ask, count) if !self.has_ended => {
                self.ask(ask, count);
                self.send()
            }
            Event::SendHalf(_) if !self.has_ended => {
                // All that follows is a part of this line, which is not a request then.
                self.unsent.extend_from_slice(b"{\"operation\":\"pi");
                self.expected.push_back(String::new());
                self.has_ended = true;
                self.is_refused = true;
                self.send()
            }
            Event::Receive(_) => self.receive().map(drop),
            Event::HalfClose(_) if self.unsent.is_empty() => {
                // It may have been closed by the other side.
                let _ = self.stream.shutdown(Shutdown::Write);
                self.has_ended = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Adds requests to what it sends.
    pub(crate) fn ask(&mut self, ask: Ask, count: usize) {
        for _ in 0..count {
            self.asked += 1;
            let id = format!("{}-{}", self.session, self.asked);
            let (operation, args) = match ask {
                Ask::Ping => ("ping", json!({})),
                Ask::Create => ("create", json!({"title": "t"})),
                Ask::Show => ("show", json!({"id": "a"})),
                Ask::List => ("list", json!({"limit": 1_000})),
                Ask::HugeList => ("list", json!({})),
                Ask::LongCreate => ("create", json!({"title": "t", "description": ""})),
                Ask::Wrong => {
                    self.unsent.extend_from_slice(b"hello\n");
                    self.expected.push_back(String::new());
                    continue;
                }
            };
            let request = json!({"operation": operation, "args": args, "request_id": id, "client_version": VERSION});
            let mut line = format!("{request}\n");
            if ask == Ask::LongCreate {
                line = lengthen(&line, LONG);
            }
            self.unsent.extend_from_slice(line.as_bytes());
            self.expected.push_back(id);
        }
    }

    pub(crate) fn send(&mut self) -> Result<(), String> {
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
    pub(crate) fn receive(&mut self) -> Result<bool, String> {
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
        if let Some(issue) = answer["data"]["id"].as_str() {
            self.known.push(issue.to_owned());
        }
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

/// Replaces the empty string in a line by a long one. Without optimisation, a serializer takes a millisecond for it.
pub(crate) fn lengthen(line: &str, length: usize) -> String {
    line.replacen("\"\"", &format!("\"{}\"", "d".repeat(length)), 1)
}
