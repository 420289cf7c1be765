//! The simulated clients of the worker's tests against the program: over TCP, with one process and with two, while a
//! client without fault asks for small files all the time.

#[path = "../../src/worker/simulated_peers/peer.rs"]
#[expect(dead_code, reason = "the worker's tests use the rest")]
mod peer;

use std::fs;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use test_kit::simulation::simulate;
use test_kit::{scaled, wait_until};

use self::peer::{CLIENTS, Event, FILES, Peer};
use crate::support::{Client, Daemon, LONG};

/// Steps of a world.
const STEPS: usize = 100;
/// Worlds of a full run.
const WORLDS: u64 = 400;
/// Looks at the sockets in which everybody must have been served at the end: 10 seconds of them.
const PAUSES: usize = 500;
/// Memory that the daemon may keep beyond what it had after its first worlds.
const KEPT: u64 = 16 << 20;

struct World<'a> {
    daemon: &'a Daemon,
    peers: [Option<Peer>; CLIENTS],
    requests: u64,
    sessions: u64,
}

impl World<'_> {
    fn step(&mut self, step: Event) -> Result<(), String> {
        use Event::*;
        match step {
            Connect(client, is_http2) if self.peers[client].is_none() => {
                self.sessions += 1;
                let socket = TcpStream::connect(self.daemon.http).unwrap();
                self.peers[client] = Some(Peer::new(socket.into(), is_http2));
            }
            Leave(client) => self.peers[client] = None,
            Request(client, ask, count) => {
                if let Some(peer) = &mut self.peers[client] {
                    for _ in 0..count {
                        self.requests += 1;
                        peer.request(ask, self.requests);
                    }
                }
            }
            // Its own time is the daemon's affair, and another thread is the client without fault.
            Turn | Probe | Timeout | Drain => thread::yield_now(),
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

    /// Lets everybody who is there finish, then leave.
    fn end(&mut self) -> Result<(), String> {
        for _ in 0..PAUSES {
            let mut is_waiting = false;
            for peer in self.peers.iter_mut().flatten() {
                peer.release_streams();
                peer.send(usize::MAX)?;
                peer.receive(usize::MAX)?;
                is_waiting |= peer.is_waiting();
            }
            if !is_waiting {
                self.peers = [const { None }; CLIENTS];
                return Ok(());
            }
            thread::sleep(Duration::from_millis(2));
        }
        let waiting = self.peers.iter().flatten().filter(|peer| peer.is_waiting());
        let states: Vec<_> = waiting.map(Peer::state).collect();
        Err(format!("unfinished: {states:?}"))
    }
}

fn draw(seed: u64) -> Vec<Event> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..STEPS).map(|_| Event::draw(&mut random)).collect()
}

/// Runs the steps of a world.
fn run<'a>(daemon: &'a Daemon, steps: &[Event]) -> Result<World<'a>, String> {
    let mut world = World {
        daemon,
        peers: [const { None }; CLIENTS],
        requests: 0,
        sessions: 0,
    };
    for step in steps {
        world.step(*step)?;
    }
    Ok(world)
}

fn open_files(daemon: &Daemon) -> usize {
    let count = |pid| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    daemon.processes().into_iter().map(count).sum()
}

/// Lets worlds come and go at a daemon of this shape, then ends it among clients.
fn serve(shape: &str) {
    let mut daemon = Daemon::start(&format!("{shape} --workers 1 --shutdown-grace 5"));
    for (name, content) in FILES.iter().enumerate() {
        fs::write(daemon.www().join(name.to_string()), content).unwrap();
    }
    let whole = |steps: &[Event]| {
        let mut world = run(&daemon, steps)?;
        world.end()?;
        Ok(world.sessions)
    };
    // Buffers and tables have their size then.
    for seed in 0..3 {
        whole(&draw(seed)).unwrap();
    }
    daemon.await_metric("http_connections_open", |open| open == 0);
    let (files, memory_before) = (open_files(&daemon), daemon.memory());
    let (is_over, http) = (AtomicBool::new(false), daemon.http);
    let sessions = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut client = Client::connect(http);
            while !is_over.load(Relaxed) {
                // Fails if it waits for longer than LONG.
                assert_eq!(client.get("/1kb.txt").status(), 200, "within {LONG:?}");
                assert_eq!(Client::connect(http).get("/healthz").status(), 200);
            }
        });
        // The other thread must end although this one panics.
        let sessions = catch_unwind(AssertUnwindSafe(|| simulate(WORLDS, draw, whole)));
        is_over.store(true, Relaxed);
        other.join().unwrap();
        sessions.unwrap_or_else(|panic| resume_unwind(panic))
    });
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
    daemon.await_metric("http_connections_open", |open| open == 0);
    wait_until("the descriptors that it had before", || {
        open_files(&daemon) <= files
    });
    let memory = daemon.memory();
    assert!(
        memory < memory_before + KEPT,
        "{memory} bytes, before {memory_before}"
    );
    let open = run(&daemon, &draw(sessions)).unwrap();
    daemon.signal(Signal::SIGTERM);
    drop(open);
    assert!(daemon.wait().success(), "{}", daemon.stderr());
}

#[test]
fn a_process_serves_whatever_its_clients_do_and_keeps_nothing_of_them() {
    serve("");
}

#[test]
fn two_processes_serve_whatever_their_clients_do_and_keep_nothing_of_them() {
    serve("--processes 2");
}
