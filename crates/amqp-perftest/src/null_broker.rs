//! A broker that does next to nothing, on one thread: what a driver can do at most, and, with a [`Script`], how a broker
//! behaves that does something wrong. It is the instrument's own test weight and no subject: what it knows of AMQP is
//! what the driver says to it.
//!
//! In the mode `queue` it routes through the default exchange and direct bindings into queues in memory, and honours
//! prefetch, acknowledgements and confirms. `discard` takes messages and forgets them; `stream` gives every consumer
//! messages without end. Both are for the ceiling.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use harness::clock;
use harness::driver::Stop;
use harness::reactor::Reactor;
use harness::slots::{Id, Slots};

mod delays;
mod frames;
mod messages;
mod methods;
mod queues;
mod script;
mod stream;

pub use script::{Mode, Script};

use queues::Queues;

/// The shared read buffer.
const BUFFER: usize = 256 << 10;
/// Octets that are written to a consumer before others are looked at.
const BATCH: usize = 128 << 10;
/// How often a broker that does nothing looks whether it is to end.
const HALTED: Duration = Duration::from_millis(5);
/// Token of the listener, which no connection has.
const LISTENER: u64 = u64::MAX - 2;

/// A broker on a thread of its own, which ends when this is dropped.
#[derive(Debug)]
pub struct NullBroker {
    address: SocketAddr,
    stop: Arc<Stop>,
    taken: Arc<AtomicU64>,
    stalled: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl NullBroker {
    /// Starts it on a free port of the loopback interface.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start(script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(Stop::new()?);
        let taken = Arc::new(AtomicU64::new(0));
        let broker = Broker::new(listener, script, Arc::clone(&stop), Arc::clone(&taken))?;
        let stalled = Arc::clone(&broker.stalled);
        let thread = std::thread::Builder::new()
            .name("null-broker".to_owned())
            // Its listener is gone with it: whoever talks to it sees the end.
            .spawn(move || drop(broker.run()))?;
        Ok(Self {
            address,
            stop,
            taken,
            stalled,
            thread: Some(thread),
        })
    }

    /// Its URI.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("amqp://guest:guest@{}/", self.address)
    }

    /// How many messages were published to it.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How long after its intended start the message was that it last stalled upon, when it went on.
    #[must_use]
    pub fn stalled(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.stalled.load(Ordering::Relaxed))
    }
}

impl Drop for NullBroker {
    fn drop(&mut self) {
        self.stop.ask(0);
        if let Some(thread) = self.thread.take() {
            // It has nobody to tell why it ended.
            let _ = thread.join();
        }
    }
}

/// Serves on an address until `stop` is asked; says on stdout where it listens.
///
/// # Errors
/// What the system refuses.
pub fn serve(address: SocketAddr, mode: Mode) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    harness::output::print(&format!("listening on {}", listener.local_addr()?))?;
    let script = Script {
        mode,
        ..Script::default()
    };
    Broker::new(listener, script, Arc::new(Stop::new()?), Arc::default())?.run()
}

/// A connection.
#[derive(Debug)]
struct Peer {
    stream: TcpStream,
    /// The beginning of a frame.
    unread: Vec<u8>,
    unwritten: Vec<u8>,
    written: usize,
    greeted: bool,
    channels: BTreeMap<u16, Channel>,
    /// To be closed once all is written.
    closing: bool,
    /// When something last came.
    heard: u64,
}

/// A channel.
#[derive(Debug, Default)]
struct Channel {
    confirms: bool,
    /// Messages published on it.
    published: u64,
    /// Those that were confirmed or refused.
    confirmed: u64,
    /// Those whose confirms are delayed, and until when.
    unconfirmed: std::collections::VecDeque<(u64, u64)>,
    prefetch: u64,
    /// Its consumers' queue, tag, and whether they acknowledge nothing.
    consumes: Option<(String, String, bool)>,
    delivered: u64,
    unacknowledged: std::collections::VecDeque<(u64, String, queues::Message)>,
    /// What is said after the next confirm.
    afterwards: Vec<u8>,
    /// Closed: what comes on it is passed over.
    closed: bool,
    /// What its consumer is given in the mode `stream`.
    streamed: Option<stream::Streamed>,
    /// A message of which the content has not come whole.
    publish: Option<frames::Publish>,
}

#[derive(Debug)]
struct Broker {
    listener: TcpListener,
    script: Script,
    stop: Arc<Stop>,
    taken: Arc<AtomicU64>,
    stalled: Arc<AtomicU64>,
    reactor: Reactor,
    peers: Slots<Peer>,
    queues: Queues,
    buffer: Vec<u8>,
    /// Until when publishers are told to wait.
    blocked: Option<u64>,
    /// Whether it does nothing more.
    halted: bool,
    /// Whether it confirms nothing more.
    withholds: bool,
}

impl Broker {
    fn new(
        listener: TcpListener,
        script: Script,
        stop: Arc<Stop>,
        taken: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let reactor = Reactor::new(Some(stop.waker()))?;
        reactor.watch(&listener, LISTENER)?;
        let mut queues = Queues::default();
        for name in &script.queues {
            queues
                .by_name
                .insert(name.clone(), queues::Queue::default());
        }
        Ok(Self {
            listener,
            script,
            stop,
            taken,
            stalled: Arc::default(),
            reactor,
            peers: Slots::with_capacity(0),
            queues,
            buffer: vec![0; BUFFER],
            blocked: None,
            halted: false,
            withholds: false,
        })
    }

    fn run(mut self) -> io::Result<()> {
        while self.stop.deadline().is_none() {
            let now = clock::now();
            let until = self.queues.due().min(self.blocked.unwrap_or(u64::MAX));
            let until = until.min(self.forget_silent(now)).min(self.confirm_due());
            let busy = self.script.mode == Mode::Stream && self.can_stream();
            for place in 0..self.reactor.wait(if busy { now } else { until }, now)? {
                let Some(event) = self.reactor.event(place) else {
                    continue;
                };
                if event.token == LISTENER {
                    self.accept()?;
                    continue;
                }
                let (id, _) = Id::from_token(event.token);
                if event.writable {
                    self.write(id, &[]);
                }
                if event.readable || event.closing || event.failed {
                    self.read(id);
                }
            }
            let now = clock::now();
            if self.blocked.is_some_and(|until| until <= now) {
                self.blocked = None;
                self.tell_all(&frames::unblocked());
            }
            self.confirm(now);
            match self.script.mode {
                Mode::Stream => self.stream(now),
                _ => self.deliver(now),
            }
            while self.halted && self.stop.deadline().is_none() {
                std::thread::sleep(HALTED);
            }
        }
        Ok(())
    }

    /// Closes connections that were silent for two intervals; returns when to look again.
    fn forget_silent(&mut self, now: u64) -> u64 {
        let patience = 2_000_000_000 * u64::from(self.script.heartbeat);
        if patience == 0 {
            return u64::MAX;
        }
        let silent =
            |(id, peer): (Id, &Peer)| (now.saturating_sub(peer.heard) > patience).then_some(id);
        let ids: Vec<Id> = self.peers.iter().filter_map(silent).collect();
        ids.into_iter().for_each(|id| self.forget(id));
        now + 100_000_000
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let id = self.peers.insert(Peer {
                stream,
                unread: Vec::new(),
                unwritten: Vec::new(),
                written: 0,
                greeted: false,
                channels: BTreeMap::new(),
                closing: false,
                heard: clock::now(),
            });
            let peer = self.peers.get_mut(id).expect("inserted just now");
            self.reactor.watch(&peer.stream, id.token(0))?;
        }
        Ok(())
    }

    fn read(&mut self, id: Id) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let carried = peer.unread.len();
        if buffer.len() < carried + BUFFER / 2 {
            buffer.resize(carried + BUFFER / 2, 0);
        }
        peer.heard = clock::now();
        buffer[..carried].copy_from_slice(&peer.unread);
        peer.unread.clear();
        match (&peer.stream).read(&mut buffer[carried..]) {
            Ok(0) => self.forget(id),
            Ok(octets) => self.take_apart(id, &buffer[..carried + octets]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                peer.unread.extend_from_slice(&buffer[..carried]);
            }
            Err(_) => self.forget(id),
        }
        self.buffer = buffer;
    }

    fn take_apart(&mut self, id: Id, input: &[u8]) {
        let mut taken = 0;
        let mut answer = Vec::new();
        if self.peers.get_mut(id).is_some_and(|peer| !peer.greeted) && input.len() >= 8 {
            taken = 8;
            answer.extend(frames::start());
            if let Some(peer) = self.peers.get_mut(id) {
                peer.greeted = true;
            }
        }
        while let Some(frame) = frames::whole(&input[taken..]) {
            taken += frame.len();
            self.frame(id, frame, &mut answer);
            if self.peers.get_mut(id).is_none() {
                return;
            }
        }
        if let Some(peer) = self.peers.get_mut(id) {
            peer.unread.extend_from_slice(&input[taken..]);
        }
        self.write(id, &answer);
    }

    /// Writes what the kernel takes, and the rest when it takes more.
    fn write(&mut self, id: Id, octets: &[u8]) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let was_full = !peer.unwritten.is_empty();
        // What the kernel takes at once is not copied.
        let taken = match was_full || octets.is_empty() {
            true => 0,
            false => (&peer.stream).write(octets).unwrap_or(0),
        };
        peer.unwritten.extend_from_slice(&octets[taken..]);
        while peer.written < peer.unwritten.len() {
            match (&peer.stream).write(&peer.unwritten[peer.written..]) {
                Ok(octets) => peer.written += octets,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.forget(id),
            }
        }
        let is_full = peer.written < peer.unwritten.len();
        if !is_full {
            peer.unwritten.clear();
            peer.written = 0;
        }
        let closing = peer.closing && !is_full;
        if closing
            || (is_full != was_full
                && self
                    .reactor
                    .rewatch(&peer.stream, id.token(0), is_full)
                    .is_err())
        {
            self.forget(id);
        }
    }

    fn tell_all(&mut self, octets: &[u8]) {
        let ids: Vec<Id> = self.peers.iter().map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.write(id, octets));
    }

    /// A connection is gone: what it did not acknowledge goes back to the queues.
    fn forget(&mut self, id: Id) {
        let Some(peer) = self.peers.remove(id) else {
            return;
        };
        for channel in peer.channels.into_values() {
            self.queues.give_back(channel.unacknowledged);
        }
    }
}
