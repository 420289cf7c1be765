//! The simulated senders and clients of the shard's tests against the program, on both types of handoff socket. Clients
//! without fault are handed over between them, and must be served.

#[path = "../../src/shard/simulated_peers/peer.rs"]
#[expect(dead_code, reason = "the shard's tests use the rest")]
mod peer;

use std::collections::BTreeMap;
use std::fs;
use std::process;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::SockType;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use streaming_daemon::SocketType;
use tempfile::TempDir;
use test_kit::metrics::page;
use test_kit::simulation::simulate;
use test_kit::{becomes_true, scaled, wait_until};

use self::peer::{Event, PEERS, Payload, Peer, Rights, Tally, Witness, counters};
use crate::golden::default_answer;
use crate::process::Process;

/// Steps of a world.
const STEPS: usize = 100;
/// Worlds of a full run.
const WORLDS: u64 = 200;
/// Memory that the daemon may keep beyond what it had after its first worlds.
const KEPT: u64 = 16 << 20;

/// A time that nothing here takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(20);

struct Daemon {
    process: Process,
    kind: SockType,
    metrics: String,
}

impl Daemon {
    fn start(socket_type: SocketType) -> Self {
        let (kind, name, port) = match socket_type {
            SocketType::Seqpacket => (SockType::SeqPacket, "seqpacket", 9090),
            SocketType::Stream => (SockType::Stream, "stream", 9091),
        };
        // No other test process has these addresses.
        let [_, first, second, third] = process::id().to_be_bytes();
        let metrics = format!("127.{}.{second}.{third}:{port}", first | 64);
        let arguments = format!(
            "--socket-type {name} --metrics-addr {metrics} --message-delay 1ms --write-timeout 60s"
        );
        let process = Process::start_with("", &arguments, &[("DAEMON_SHUTDOWN_GRACE", "5s")]);
        // The connection that showed that it listens belongs to no world.
        let probes = u64::from(kind == SockType::SeqPacket);
        wait_until("the end of the probe", || {
            counters(&page(&metrics).unwrap())["daemon_connections_total"] == probes
        });
        Self {
            process,
            kind,
            metrics,
        }
    }

    /// Returns the counters once nobody is connected.
    fn counters(&self) -> Result<BTreeMap<String, u64>, String> {
        let mut last = BTreeMap::new();
        let is_calm = becomes_true(LONG, || {
            last = counters(&page(&self.metrics).unwrap());
            last["daemon_active_connections"] == 0
        });
        let wrong = || "unfinished: a connection stays".to_owned();
        is_calm.then_some(last).ok_or_else(wrong)
    }

    /// Runs a world. Returns the number of its sessions, or what went wrong.
    fn run(&self, steps: &[Event]) -> Result<u64, String> {
        let before = self.counters()?;
        World::new(self, steps)?.end(&before)
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id()))
            .unwrap()
            .count()
    }

    /// Returns the anonymous memory in bytes.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<u64>().unwrap() << 10
    }
}

/// The peers of a world.
struct World<'a> {
    daemon: &'a Daemon,
    folder: TempDir,
    peers: [Option<Peer>; PEERS],
    /// Peers whose slot others use.
    former: Vec<Peer>,
    connected: u64,
}

impl<'a> World<'a> {
    /// Performs steps, and leaves the peers as they are then.
    fn new(daemon: &'a Daemon, steps: &[Event]) -> Result<Self, String> {
        let mut world = Self {
            daemon,
            folder: tempfile::tempdir().unwrap(),
            peers: [const { None }; PEERS],
            former: Vec::new(),
            connected: 0,
        };
        for step in steps {
            world.step(*step)?;
        }
        Ok(world)
    }

    fn connect(&mut self) -> Peer {
        self.connected += 1;
        let peer = Peer::connect(
            &self.daemon.process.socket,
            self.daemon.kind,
            self.connected,
        );
        peer.expect("the daemon listens")
    }

    fn step(&mut self, step: Event) -> Result<(), String> {
        use Event::*;
        match step {
            Connect(index) if self.peers[index].is_none() => {
                self.peers[index] = Some(self.connect());
            }
            Probe => self.probe()?,
            // Its own time is the daemon's affair.
            Turn | Stop => thread::yield_now(),
            Connect(index)
            | Send(index, ..)
            | Close(index)
            | Receive(index, _)
            | Write(index)
            | HalfClose(index)
            | Leave(index) => {
                if let Some(peer) = &mut self.peers[index] {
                    peer.step(step, self.folder.path())?;
                    if matches!(step, Leave(_)) && peer.outcome.is_some() {
                        self.former.extend(self.peers[index].take());
                    }
                }
            }
        }
        Ok(())
    }

    /// Hands over a client without fault, which must be served whatever the others do.
    fn probe(&mut self) -> Result<(), String> {
        let mut probe = self.connect();
        probe.send(
            Payload::Right,
            Rights::Client,
            usize::MAX,
            self.folder.path(),
        )?;
        let client = probe.client.as_mut().unwrap();
        if !becomes_true(LONG, || {
            client.receive(usize::MAX).is_err() || client.has_ended
        }) {
            return Err("unfinished: a client without fault waits".to_owned());
        }
        self.former.push(probe);
        Ok(())
    }

    /// Lets all come to their end, and compares the counters. Returns the number of sessions.
    fn end(mut self, before: &BTreeMap<String, u64>) -> Result<u64, String> {
        let mut peers = self.former;
        peers.extend(self.peers.iter_mut().filter_map(Option::take));
        for peer in &mut peers {
            peer.step(Event::Close(0), self.folder.path())?;
        }
        let mut problem = None;
        let all_end = becomes_true(LONG, || {
            let mut clients = peers.iter_mut().filter_map(|peer| peer.client.as_mut());
            clients.all(|client| {
                problem = client.receive(usize::MAX).err().or(problem.take());
                client.has_ended
            })
        });
        if !all_end {
            return Err(problem.unwrap_or_else(|| "unfinished: a client waits".to_owned()));
        }
        let mut tally = Tally::default();
        for peer in &peers {
            tally.add(peer, stream(peer).as_bytes(), false)?;
        }
        let witnesses: Vec<_> = peers.into_iter().flat_map(|peer| peer.witnesses).collect();
        if !becomes_true(LONG, || witnesses.iter().all(Witness::is_closed)) {
            return Err("descriptors stay open".to_owned());
        }
        let mut after = self.daemon.counters()?;
        for (name, count) in &mut after {
            *count -= before.get(name).copied().unwrap_or(0).min(*count);
        }
        tally.compare(&after, self.connected, false)?;
        Ok(self.connected)
    }
}

/// Returns the stream of a peer.
fn stream(peer: &Peer) -> String {
    let id = peer.id.to_string();
    let (prompt, user) = if peer.is_right() {
        (format!("p{id}"), id.as_str())
    } else {
        (String::new(), "0")
    };
    default_answer()
        .replace("Prompt: benchmark test", &format!("Prompt: {prompt}"))
        .replace("User ID: 1", &format!("User ID: {user}"))
}

fn draw(seed: u64) -> Vec<Event> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..STEPS).map(|_| Event::draw(&mut random)).collect()
}

/// Lets worlds come and go at a daemon, then ends it among clients.
fn serve(socket_type: SocketType) {
    let mut daemon = Daemon::start(socket_type);
    // Buffers and tables have their size then.
    for seed in 0..3 {
        daemon.run(&draw(seed)).unwrap();
    }
    let (files, memory_before) = (daemon.open_files(), daemon.memory());
    let sessions = simulate(WORLDS, draw, |steps| daemon.run(steps));
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
    wait_until("the descriptors that it had before", || {
        daemon.open_files() <= files
    });
    let memory = daemon.memory();
    assert!(
        memory < memory_before + KEPT,
        "{memory} bytes, before {memory_before}"
    );
    let open = World::new(&daemon, &draw(sessions)).unwrap();
    daemon.process.signal(Signal::SIGTERM);
    drop(open);
    let (code, _) = daemon.process.wait();
    assert_eq!(code, Some(0), "{}", daemon.process.notes());
}

#[test]
fn senders_of_records_get_their_streams_and_the_daemon_keeps_nothing_of_them() {
    serve(SocketType::Seqpacket);
}

#[test]
fn senders_of_bytes_get_their_streams_and_the_daemon_keeps_nothing_of_them() {
    serve(SocketType::Stream);
}
