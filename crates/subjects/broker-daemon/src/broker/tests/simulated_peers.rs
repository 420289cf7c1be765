//! Clients drawn from a seed at a broker without sockets: what a socket holds is in memory, and the test does the work
//! of the server's tasks, so the order of all events is the order of the steps.

mod ask;
mod channel;
mod ledger;
mod peer;
mod world;

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::mem;

use test_kit::scaled;
use test_kit::simulation::simulate;

use self::world::{Event, Server, World, draw};
use super::*;

type Outcome<T> = std::result::Result<T, String>;

/// Worlds of a full run.
const WORLDS: u64 = 100_000;
/// Bytes that a socket holds in each direction.
const SOCKET: usize = 32 << 10;
/// Less than some clients publish, and more than the output of a connection may take.
const MEMORY: usize = 1_000_000;

/// The bytes that a socket holds.
#[derive(Debug, Default)]
struct Pipe {
    to_broker: Vec<u8>,
    to_client: Vec<u8>,
    /// The client has closed it.
    has_left: bool,
    /// The broker has closed it.
    is_closed: bool,
}

/// The socket of a client.
struct Socket(Rc<RefCell<Pipe>>);

impl io::Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut pipe = self.0.borrow_mut();
        if pipe.to_client.is_empty() && !pipe.is_closed {
            return Err(ErrorKind::WouldBlock.into());
        }
        let length = into.len().min(pipe.to_client.len());
        into[..length].copy_from_slice(&pipe.to_client[..length]);
        pipe.to_client.drain(..length);
        Ok(length)
    }
}

impl io::Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut pipe = self.0.borrow_mut();
        if pipe.is_closed {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let length = bytes.len().min(SOCKET - pipe.to_broker.len());
        pipe.to_broker.extend_from_slice(&bytes[..length]);
        if length == 0 {
            Err(ErrorKind::WouldBlock.into())
        } else {
            Ok(length)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.borrow_mut().has_left = true;
    }
}

/// A broker, and the sockets of its connections.
struct InProcess {
    broker: Broker,
    sockets: Vec<(ConnectionId, Rc<RefCell<Pipe>>)>,
    /// All bytes that were sent to clients.
    sent: Vec<u8>,
}

impl InProcess {
    fn new() -> Self {
        let config = Config {
            memory_limit: MEMORY,
            ..Config::default()
        };
        Self {
            broker: Broker::new(Rc::new(config)),
            sockets: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Serves a connection once, as its task does. Returns false at its end.
    fn serve(&mut self, id: ConnectionId, pipe: &mut Pipe) -> bool {
        let broker = &mut self.broker;
        let Some(connection) = broker
            .connections
            .get_mut(id)
            .filter(|connection| !connection.is_over())
        else {
            return false;
        };
        if let Some(backlog) = connection.take_held_frames() {
            broker.receive(id, &backlog);
        }
        let connection = &mut broker.connections[id];
        match connection.interest() {
            None if pipe.has_left => return false,
            Some(interest) if interest.is_readable() => {
                if !pipe.to_broker.is_empty() {
                    let mut input = connection.backlog().to_vec();
                    input.append(&mut pipe.to_broker);
                    broker.receive(id, &input);
                } else if pipe.has_left {
                    return false;
                }
            }
            _ => {}
        }
        if broker.connections[id].outbox.pending() > 0 {
            self.write(id, pipe);
        }
        true
    }

    fn write(&mut self, id: ConnectionId, pipe: &mut Pipe) {
        let room = SOCKET.saturating_sub(pipe.to_client.len());
        self.broker.connections[id].begin_write(room > 0);
        let sent = &mut self.sent;
        self.broker.write_output(id, |slices| {
            if pipe.has_left {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let before = pipe.to_client.len();
            for slice in slices {
                let room = SOCKET - pipe.to_client.len();
                pipe.to_client
                    .extend_from_slice(&slice[..slice.len().min(room)]);
            }
            sent.extend_from_slice(&pipe.to_client[before..]);
            match pipe.to_client.len() - before {
                0 => Err(ErrorKind::WouldBlock.into()),
                length => Ok(length),
            }
        });
        self.broker.finish_turn();
    }

    /// Checks that nothing of the clients is left.
    fn check_empty(mut self) -> Outcome<()> {
        for _ in 0..Self::TURNS {
            self.turn();
        }
        let exchanges = Broker::new(Rc::new(Config::default())).gauges().exchanges;
        let gauges = self.broker.gauges();
        let left = [
            ("connections", gauges.connections),
            ("channels", gauges.channels),
            ("consumers", gauges.consumers),
            ("exchanges", gauges.exchanges - exchanges),
            ("queues", gauges.queues),
            ("ready messages", gauges.messages_ready),
            ("unacknowledged messages", gauges.messages_unacked),
            ("bytes of memory", gauges.memory_bytes),
            ("bytes of input", gauges.backlog_bytes),
            ("timers", self.broker.scheduler.timer_count() as u64),
            (
                "channels that wait for confirms",
                self.broker.confirming.len() as u64,
            ),
        ];
        match left.iter().find(|(_, left)| *left != 0) {
            Some((name, left)) => Err(format!("leak: {left} {name} stay after everybody has left")),
            None => Ok(()),
        }
    }
}

impl Server for InProcess {
    type Socket = Socket;

    const TURNS: usize = 100;

    fn connect(&mut self) -> Socket {
        let pipe = Rc::default();
        let (id, _) = self.broker.connect(None);
        self.sockets.push((id, Rc::clone(&pipe)));
        Socket(pipe)
    }

    fn turn(&mut self) {
        let mut sockets = mem::take(&mut self.sockets);
        sockets.retain(|(id, pipe)| {
            let mut pipe = pipe.borrow_mut();
            let goes_on = self.serve(*id, &mut pipe);
            if !goes_on {
                self.broker.disconnect(*id);
                pipe.is_closed = true;
            }
            goes_on
        });
        self.sockets = sockets;
        self.broker.flush_all();
        self.broker.finish_turn();
    }

    fn pass(&mut self, milliseconds: u64) {
        self.broker.now += milliseconds;
        self.broker.expire();
        self.broker.sweep();
    }

    fn restart(&mut self, _: bool) {}

    fn connection_count(&self) -> usize {
        self.broker.connections.len()
    }

    fn check_idle(&self, waiting: usize) -> Outcome<()> {
        let is_short = self.broker.memory.is_short();
        if waiting > 0 && !is_short {
            return Err(format!("slow: {waiting} clients wait for ever"));
        }
        let connections = || self.broker.connections.iter();
        let channels = || connections().flat_map(|(_, connection)| connection.channels());
        for (id, queue) in self.broker.topology.queues() {
            let (unacked, ready) = (queue.counts().unacked, queue.len());
            let unsettled = channels().flat_map(Channel::unsettled);
            let held = unsettled.filter(|held| held.queue == id).count();
            if unacked != held {
                return Err(format!(
                    "count: {unacked} unacknowledged of {}, channels hold {held}",
                    queue.name
                ));
            }
            if ready > 0 && queue.consumer_count() > 0 && !is_short {
                return Err(format!(
                    "starved: {ready} messages of {} although consumers wait",
                    queue.name
                ));
            }
        }
        Ok(())
    }
}

/// Runs a world to its end. Returns its broker and the number of its sessions.
fn run_world(steps: &[Event]) -> Outcome<(InProcess, u64)> {
    let mut world = World::new(InProcess::new())?;
    for step in steps {
        world.step(*step)?;
    }
    world.leave()?;
    let sessions = world.sessions;
    Ok((world.end()?, sessions))
}

fn run(steps: &[Event]) -> Outcome<u64> {
    let (server, sessions) = run_world(steps)?;
    server.check_empty()?;
    Ok(sessions)
}

#[test]
fn clients_get_what_is_theirs_and_leave_nothing_behind_whatever_they_do() {
    let sessions = simulate(WORLDS, |seed| draw(seed, false), run);
    assert!(sessions > 2 * scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn the_same_seed_has_the_same_steps_and_the_same_bytes() {
    for seed in 0..20 {
        let sent = || run_world(&draw(seed, false)).unwrap().0.sent;
        assert!(sent() == sent(), "seed {seed}");
    }
}
