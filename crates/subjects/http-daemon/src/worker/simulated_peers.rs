//! Clients of both versions that connect, pipeline, stop in mid-message, never read, half-close, reset, leave and come
//! back: drawn from a seed, over socket pairs, in one thread. Time passes by a step, so the order of all events is the
//! order of the steps.

pub(crate) mod peer;

use std::fs;
use std::os::unix::net::UnixStream as StdUnixStream;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tempfile::TempDir;
use test_kit::metrics::value;
use test_kit::scaled;
use test_kit::simulation::simulate;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::sleep;

use self::peer::{Ask, CLIENTS, Event, FILES, Peer};
use super::tests::resources;
use super::*;

/// Steps of a world.
const STEPS: usize = 60;
/// Worlds of a full run.
const WORLDS: u64 = 100_000;
/// The connections that the daemon admits: one less than there are clients.
const ADMITTED: u64 = CLIENTS as u64 - 1;
/// Looks at the sockets after which the daemon has done all that it can without its clients.
const ALL: usize = 24;
/// Looks at the sockets after which a small file must have arrived, whatever the others do.
const BOUND: usize = 8;
/// Pauses of a millisecond in which everybody must have been served at the end. Each is a tick of the clock, and nobody
/// is idle for too long.
const PAUSES: usize = 200;

struct World {
    worker: Rc<Worker>,
    peers: [Option<Peer>; CLIENTS],
    requests: u64,
    sessions: u64,
    /// Connections that the daemon has admitted and refused.
    admitted: u64,
    refused: u64,
}

impl World {
    fn new(resources: &Resources) -> Self {
        let counts = resources.counters.worker(0, 1, 0);
        let root = resources.root.clone().unwrap();
        let worker = Rc::new(Worker::new(resources.clone(), root, counts));
        spawn_local(worker.common.queue.clone().run());
        Self {
            worker,
            peers: [const { None }; CLIENTS],
            requests: 0,
            sessions: 0,
            admitted: 0,
            refused: 0,
        }
    }

    async fn step(&mut self, step: Event) -> Result<(), String> {
        use Event::*;
        match step {
            Connect(client, is_http2) if self.peers[client].is_none() => {
                self.peers[client] = Some(self.connect(is_http2));
            }
            Leave(client) => self.peers[client] = None,
            Turn => yield_now().await,
            Probe => self.probe().await?,
            Timeout => self.timeout().await?,
            Drain => {
                self.settle().await;
                self.peers.iter_mut().flatten().for_each(Peer::drain);
                let worker = Rc::clone(&self.worker);
                spawn_local(async move { worker.drain().await });
                // The daemon does not listen any more: those that come from now on are not meant.
                yield_now().await;
            }
            Request(client, ask, count) => {
                if let Some(peer) = &mut self.peers[client] {
                    for _ in 0..count {
                        self.requests += 1;
                        peer.request(ask, self.requests);
                    }
                }
            }
            Connect(client, _)
            | Send(client, _)
            | Receive(client, _)
            | Withhold(client)
            | ResetStream(client)
            | HalfClose(client) => {
                if let Some(peer) = &mut self.peers[client] {
                    peer.step(step)?;
                }
            }
        }
        Ok(())
    }

    fn connect(&mut self, is_http2: bool) -> Peer {
        let (client, server) = StdUnixStream::pair().unwrap();
        server.set_nonblocking(true).unwrap();
        let stream = Stream::Unix(UnixStream::from_std(server).unwrap());
        let worker = &self.worker;
        let connection = Connection::new(stream, Rc::clone(&worker.common));
        let is_refused = worker.connections.borrow().len() as u64 >= ADMITTED;
        worker.admit(connection, false);
        self.sessions += 1;
        if is_refused {
            self.refused += 1;
            return Peer::refused(client.into());
        }
        self.admitted += 1;
        Peer::new(client.into(), is_http2)
    }

    /// Lets the daemon do all that it can.
    async fn settle(&self) {
        for _ in 0..ALL {
            yield_now().await;
        }
    }

    /// Lets a further client ask for a small file, which must not wait for the others.
    async fn probe(&mut self) -> Result<(), String> {
        let mut probe = self.connect(false);
        self.requests += 1;
        probe.request(Ask::File(2), self.requests);
        probe.send(usize::MAX)?;
        for _ in 0..BOUND {
            yield_now().await;
            probe.receive(usize::MAX)?;
            if !probe.is_waiting() {
                return Ok(());
            }
        }
        Err(format!(
            "a client without fault waits for more than {BOUND} turns"
        ))
    }

    /// Lets the time of all timeouts pass. Those that are idle or slow must be closed.
    async fn timeout(&mut self) -> Result<(), String> {
        self.settle().await;
        // The rest of a preface that came in parts is looked at after 5 ms.
        if self.peers.iter().flatten().any(Peer::speaks_http2) {
            sleep(Duration::from_millis(6)).await;
            self.settle().await;
        }
        for peer in self.peers.iter_mut().flatten() {
            peer.expire();
        }
        for _ in 0..=self.worker.timeouts.idle {
            self.worker.tick();
        }
        self.settle().await;
        for peer in self.peers.iter_mut().flatten() {
            peer.receive(usize::MAX)?;
            if peer.may_end && !peer.has_ended {
                return Err("an idle connection outlives its time".to_owned());
            }
        }
        Ok(())
    }

    /// Lets everybody who is there finish, then leave. Nothing of them may stay.
    async fn end(&mut self, resources: &Resources) -> Result<(), String> {
        let mut pauses = 0;
        loop {
            let (mut is_waiting, mut is_progress) = (false, false);
            // Closes those that have half-closed and get no response.
            self.worker.tick();
            self.settle().await;
            for peer in self.peers.iter_mut().flatten() {
                peer.release_streams();
                is_progress |= peer.send(usize::MAX)?;
                is_progress |= peer.receive(usize::MAX)?;
                is_waiting |= peer.is_waiting();
            }
            if !is_waiting {
                break;
            }
            // Half a preface is looked at again after a while.
            if !is_progress {
                pauses += 1;
                sleep(Duration::from_millis(1)).await;
            }
            if pauses > PAUSES {
                let waiting = self.peers.iter().flatten().filter(|peer| peer.is_waiting());
                let states: Vec<_> = waiting.map(Peer::state).collect();
                return Err(format!("unfinished: {states:?}"));
            }
        }
        self.peers = [const { None }; CLIENTS];
        for _ in 0..PAUSES {
            self.worker.tick();
            self.settle().await;
            if Rc::strong_count(&self.worker) == 1 {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        let page = resources.metrics();
        let left = [
            ("connections", self.worker.connections.borrow().len()),
            (
                "connections that are being closed",
                self.worker.lingering.get(),
            ),
            ("owners of the worker", Rc::strong_count(&self.worker) - 1),
            (
                "owners of the common state",
                Rc::strong_count(&self.worker.common) - 1,
            ),
            // The other one schedules bodies.
            ("tasks", Handle::current().metrics().num_alive_tasks() - 1),
            (
                "open on the page",
                value(&page, "http_connections_open") as usize,
            ),
        ];
        match left.iter().find(|(_, left)| *left != 0) {
            Some((name, left)) => Err(format!("{left} {name} stay after everybody has left")),
            None => Ok(()),
        }
    }
}

/// The runner of worlds, which share what is expensive.
struct Runner {
    resources: Resources,
    _folder: TempDir,
}

impl Runner {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in FILES.iter().enumerate() {
            fs::write(folder.path().join(name.to_string()), content).unwrap();
        }
        Self {
            resources: resources(folder.path(), ADMITTED),
            _folder: folder,
        }
    }

    fn counted(&self) -> [u64; 2] {
        let page = self.resources.metrics();
        let names = [
            "http_connections_accepted_total",
            "http_connections_refused_total",
        ];
        names.map(|name| value(&page, name))
    }

    /// Runs a world. Returns the number of its sessions, or what went wrong.
    fn run(&self, steps: &[Event]) -> Result<u64, String> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap();
        let before = self.counted();
        runtime.block_on(async {
            let mut world = World::new(&self.resources);
            for step in steps {
                world.step(*step).await?;
            }
            world.end(&self.resources).await?;
            let after = self.counted();
            let counted = [0, 1].map(|index| after[index] - before[index]);
            if counted != [world.admitted, world.refused] {
                return Err(format!("counted {counted:?} connections"));
            }
            Ok(world.sessions)
        })
    }
}

fn draw(seed: u64) -> Vec<Event> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut steps: Vec<Event> = (0..STEPS).map(|_| Event::draw(&mut random)).collect();
    // At most once: what follows is of little interest.
    match seed % 6 {
        0 => steps.insert(STEPS / 2, Event::Timeout),
        1 => steps.insert(STEPS / 2, Event::Drain),
        _ => {}
    }
    steps
}

#[test]
fn clients_get_their_own_answers_and_leave_nothing_behind_whatever_they_do() {
    let runner = Runner::new();
    let sessions = simulate(WORLDS, draw, |steps| runner.run(steps));
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn half_a_preface_before_the_end_of_a_client_does_not_hold_its_connection() {
    use Event::*;
    // It was looked at every 5 ms, until the connection was idle for too long.
    let steps = [Connect(0, true), Send(0, 1), HalfClose(0)];
    Runner::new().run(&steps).unwrap();
}

#[test]
fn responses_are_not_lost_by_what_the_client_sends_behind_their_requests() {
    use Event::*;
    let all = Send(0, usize::MAX);
    let long = Request(0, Ask::File(5), 1);
    // Each has closed the connection with unread bytes: a reset, with which the end of the file is lost.
    let post = Request(0, Ask::Post(3_000), 1);
    let echo = Request(0, Ask::Echo, 5);
    for steps in [
        &[Connect(0, false), Request(0, Ask::Chunked, 2), long, post][..],
        &[Connect(0, false), long, echo, all, Drain],
    ] {
        Runner::new().run(steps).unwrap();
    }
}

#[test]
fn a_head_that_begins_with_the_request_before_is_answered_with_408_too() {
    use Event::*;
    // The first request, and some bytes of the second one.
    let sent = Send(0, 40);
    let file = Request(0, Ask::File(2), 2);
    let mut steps = vec![Connect(0, false), file, sent];
    steps.extend([Turn; ALL]);
    steps.extend([Receive(0, usize::MAX), Timeout]);
    Runner::new().run(&steps).unwrap();
}
