//! Clients drawn from a seed at the program, by TCP: with little memory, and with a data folder while it is killed.

#[path = "../../src/broker/tests/simulated_peers/ask.rs"]
mod ask;
#[path = "../../src/broker/tests/simulated_peers/channel.rs"]
mod channel;
#[path = "../../src/broker/tests/simulated_peers/ledger.rs"]
mod ledger;
#[path = "../../src/broker/tests/simulated_peers/peer.rs"]
mod peer;
#[path = "../../src/broker/tests/simulated_peers/world.rs"]
mod world;

use std::cell::Cell;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use test_kit::simulation::simulate;
use test_kit::{metrics, wait_until};

use self::world::{Event, Server, World, draw};
use crate::process::Process;

/// Worlds of a full run, of each kind.
const WORLDS: u64 = 1_000;
/// Bytes by which the memory of a broker may grow, once it has served the clients of a world.
const GROWTH: usize = 32 << 20;

/// A broker that is a program.
struct Program {
    process: Option<Process>,
    arguments: Vec<String>,
    metrics: String,
    has_little_memory: bool,
    /// Its descriptors and its memory with one client.
    usual: Option<(usize, usize)>,
}

impl Program {
    fn start(arguments: &[&str], port: u16) -> Self {
        // An address of this process alone, on which all ports are free.
        let [a, b, c, d] = std::process::id().to_be_bytes();
        let metrics = format!("127.{}.{c}.{d}:{port}", 16 * a + b + 1);
        let common = ["--shutdown-grace", "50ms", "--metrics-addr", &metrics];
        let all = common.iter().chain(arguments).map(ToString::to_string);
        let mut program = Self {
            process: None,
            arguments: all.collect(),
            metrics,
            has_little_memory: arguments.contains(&"--memory-limit"),
            usual: None,
        };
        program.launch();
        program
    }

    fn launch(&mut self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.process = Some(Process::start(&arguments));
        self.usual = None;
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it is running")
    }

    /// Waits until it uses no more than after the first world.
    fn check_usage(&mut self) {
        wait_until("the last client has left", || self.connection_count() == 0);
        let process = self.process();
        let (files, memory) = *self
            .usual
            .get_or_insert((process.open_files(), process.rss_bytes()));
        wait_until("no more files and memory than before", || {
            self.process().open_files() <= files && self.process().rss_bytes() <= memory + GROWTH
        });
    }
}

impl Server for Program {
    type Socket = TcpStream;

    /// Of 200 µs or more: 10 s.
    const TURNS: usize = 50_000;

    fn connect(&mut self) -> TcpStream {
        let stream = TcpStream::connect(&self.process().address).unwrap();
        stream.set_nonblocking(true).unwrap();
        if self.has_little_memory {
            // While memory is short, nobody reads what precedes the end of a client's stream. A reset is seen at once.
            let linger = nix::libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            setsockopt(&stream, sockopt::Linger, &linger).unwrap();
        }
        stream
    }

    fn turn(&mut self) {
        // Some client waits for something to arrive; there may be none for which the broker would wake it.
        thread::sleep(Duration::from_micros(200));
    }

    fn pass(&mut self, _: u64) {}

    fn restart(&mut self, gracefully: bool) {
        let (signal, code) =
            [(Signal::SIGKILL, None), (Signal::SIGTERM, Some(0))][usize::from(gracefully)];
        let process = self.process.take().expect("it is running");
        assert_eq!(process.end(signal), code);
        self.launch();
    }

    fn connection_count(&self) -> usize {
        metrics::read(&self.metrics, "broker_connections") as usize
    }

    fn check_idle(&self, _: usize) -> Result<(), String> {
        Ok(())
    }
}

/// Runs worlds at one broker, whose metrics have this port. One that has failed is not used again.
fn run_all(arguments: &[&str], port: u16, draw: impl Fn(u64) -> Vec<Event>) {
    let running = Cell::new(None);
    let sessions = simulate(WORLDS, draw, |steps| {
        let program = running
            .take()
            .unwrap_or_else(|| Program::start(arguments, port));
        let mut world = World::new(program)?;
        for step in steps {
            world.step(*step)?;
        }
        world.leave()?;
        let sessions = world.sessions;
        let mut program = world.end()?;
        program.check_usage();
        running.set(Some(program));
        Ok(sessions)
    });
    assert!(sessions > test_kit::scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn clients_leave_nothing_behind_and_others_are_served_when_memory_is_short() {
    run_all(&["--memory-limit", "1MB"], 9001, |seed| draw(seed, false));
}

#[test]
fn nothing_confirmed_is_lost_when_the_broker_ends_in_the_middle() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    run_all(&["--data-dir", folder], 9002, |seed| draw(seed, true));
}
