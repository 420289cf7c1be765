//! Clients that connect, speak, stop in the middle of a line, pipeline, half-close, never read, leave and come back:
//! drawn from a seed, over socket pairs, in one thread. The test does the work of the writer and the readers, so the
//! order of all events is the order of the steps.

mod peer;

use std::collections::HashMap;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use issue_rpc::RequestId;
use issue_store::Durability;
use test_kit::scaled;
use test_kit::simulation::simulate;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet, yield_now};

use self::peer::Event::*;
use self::peer::{Ask, Event, Peer, draw, lengthen};
use super::*;
use crate::committer::Health;
use crate::counts::{Counts, get};
use crate::database_files::DatabaseFiles;
use crate::service::Identity;
use crate::workers::Pending;

/// The clients of the test of many that never read.
const MANY: usize = 24;
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

struct World {
    connections: Rc<Connections>,
    pending: Pending,
    serving: JoinSet<()>,
    peers: [Option<Peer>; MANY],
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
            sessions: 0,
        }
    }

    async fn step(&mut self, step: Event) -> Result<(), String> {
        match step {
            Connect(client) if self.peers[client].is_none() => self.connect(client),
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
            Restart(_) => self.connections.end_input(),
            Connect(client)
            | Send(client, ..)
            | SendHalf(client)
            | Receive(client)
            | HalfClose(client) => {
                if let Some(peer) = &mut self.peers[client] {
                    peer.step(step)?;
                }
            }
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
        self.peers[client] = Some(Peer::new(stream, self.sessions));
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

/// Runs a world. Returns the number of its sessions, or what went wrong.
fn run(steps: &[Event]) -> Result<u64, String> {
    run_and_check(steps, |_| Ok(()))
}

/// Runs a world, and checks it before everybody leaves.
fn run_and_check(
    steps: &[Event],
    check: impl Fn(&World) -> Result<(), String>,
) -> Result<u64, String> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut world = World::new();
        for step in steps {
            world.step(*step).await?;
        }
        check(&world)?;
        world.end().await?;
        Ok(world.sessions)
    })
}

#[test]
fn clients_get_their_own_answers_and_leave_nothing_behind_whatever_they_do() {
    let sessions = simulate(WORLDS, |seed| draw(seed, false), run);
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
    let is_answered = |world: &World| {
        let last = world.peers[last].as_ref();
        let is_answered = last.is_some_and(|peer| peer.expected.is_empty());
        is_answered
            .then_some(())
            .ok_or_else(|| "it waits".to_owned())
    };
    run_and_check(&steps, is_answered).unwrap();
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

#[test]
fn a_client_that_was_only_just_accepted_does_not_delay_the_end() {
    // Its task has not begun when the daemon ends.
    run_and_check(&[Connect(0), Restart(true), Turn], |world| {
        let waiting = world.serving.len();
        (waiting == 0)
            .then_some(())
            .ok_or_else(|| format!("{waiting} connections wait"))
    })
    .unwrap();
}
