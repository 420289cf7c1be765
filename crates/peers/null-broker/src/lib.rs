//! A minimal broker on one thread. It shows the maximum rate of a driver and, with a [`Script`], misbehaves as a test
//! requires. It is an instrument and not a subject: it supports only the methods that the drivers send.
//!
//! In the mode `queue` it routes through the default exchange and direct bindings into queues in memory, and supports
//! prefetch, acknowledgements and confirms. `discard` drops messages; `stream` sends every consumer messages without
//! end. Both serve to measure the maximum rate.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use load::clock;
use load::driver::Cancellation;
use load::net::write_buffer::WriteBuffer;
use load::reactor::Reactor;
use load::slots::{Id, Slots};
use peer_kit::held::Held;

mod delays;
mod frames;
mod messages;
mod methods;
mod queues;
mod script;
mod stream;

pub use peer_kit::delays::{Delays, Stall};
pub use script::{Fault, Mode, Script};

use queues::Queues;

/// The shared read buffer.
const BUFFER: usize = 256 << 10;
/// Octets written to a consumer before other connections are served.
const BATCH: usize = 128 << 10;
/// Interval at which a halted broker checks if it must end.
const HALTED: Duration = Duration::from_millis(5);
/// Token of the listener, which no connection has.
const LISTENER: u64 = u64::MAX - 2;

/// A broker on its own thread, which ends when this handle is dropped.
#[derive(Debug)]
pub struct NullBroker {
    address: SocketAddr,
    stop: Arc<Cancellation>,
    taken: Arc<AtomicU64>,
    stalled: Arc<AtomicU64>,
    heartbeats: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl NullBroker {
    /// Starts the broker on a free port of the loopback interface.
    ///
    /// # Errors
    /// A failed system call.
    pub fn start(script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let stop = Arc::new(Cancellation::new()?);
        let taken = Arc::new(AtomicU64::new(0));
        let broker = Broker::new(listener, script, Arc::clone(&stop), Arc::clone(&taken))?;
        let stalled = Arc::clone(&broker.stalled);
        let heartbeats = Arc::clone(&broker.heartbeats);
        let thread = std::thread::Builder::new()
            .name("null-broker".to_owned())
            // Its listener is dropped with it, so connected clients see the end.
            .spawn(move || drop(broker.run()))?;
        Ok(Self {
            address,
            stop,
            taken,
            stalled,
            heartbeats,
            thread: Some(thread),
        })
    }

    /// Returns the URI.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("amqp://guest:guest@{}/", self.address)
    }

    /// Returns the number of messages that were published to it.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns the number of heartbeats that arrived before the first message.
    #[must_use]
    pub fn heartbeats_before_messages(&self) -> u64 {
        self.heartbeats.load(Ordering::Relaxed)
    }

    /// Returns the time from the intended start of the message that last caused a stall to the end of that stall.
    #[must_use]
    pub fn stalled(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.stalled.load(Ordering::Relaxed))
    }
}

impl Drop for NullBroker {
    fn drop(&mut self) {
        self.stop.request(0);
        if let Some(thread) = self.thread.take() {
            // The reason of its end cannot be reported anywhere.
            let _ = thread.join();
        }
    }
}

/// Serves until the end is requested. Returns the record of the messages, each until its confirm, or until its delivery if
/// its channel does not confirm.
///
/// # Errors
/// A failed system call.
pub fn serve(listener: TcpListener, script: Script, end: Arc<Cancellation>) -> io::Result<Held> {
    Broker::new(listener, script, end, Arc::default())?.run()
}

/// A connection.
#[derive(Debug)]
struct Peer {
    stream: TcpStream,
    /// The beginning of a frame.
    unread: Vec<u8>,
    output: WriteBuffer,
    greeted: bool,
    channels: BTreeMap<u16, Channel>,
    /// True if the connection is closed once all output is written.
    closing: bool,
}

/// A channel.
#[derive(Debug, Default)]
struct Channel {
    confirms: bool,
    /// Messages published on it, since confirm.select if it confirms.
    published: u64,
    /// Messages that were confirmed or refused.
    confirmed: u64,
    /// Messages that are not yet confirmed, if it confirms.
    unconfirmed: std::collections::VecDeque<delays::Unconfirmed>,
    prefetch: u64,
    /// The queue and the tag of its consumer, and true if it acknowledges nothing.
    consumes: Option<(String, String, bool)>,
    delivered: u64,
    unacknowledged: std::collections::VecDeque<(u64, String, queues::Message)>,
    /// Output to send after the next confirm.
    afterwards: Vec<u8>,
    /// True if it is closed: its input is ignored.
    closed: bool,
    /// The state of its consumer in the mode `stream`.
    streamed: Option<stream::Streamed>,
    /// A message whose content is incomplete.
    publish: Option<frames::Publish>,
}

#[derive(Debug)]
struct Broker {
    listener: TcpListener,
    script: Arc<Script>,
    delays: Delays,
    held: Held,
    /// The time of the last read, nanoseconds of CLOCK_MONOTONIC.
    read_at: u64,
    stop: Arc<Cancellation>,
    taken: Arc<AtomicU64>,
    stalled: Arc<AtomicU64>,
    /// Heartbeats that arrived before the first message.
    heartbeats: Arc<AtomicU64>,
    /// Time of its next heartbeats.
    next_heartbeats: u64,
    reactor: Reactor,
    peers: Slots<Peer>,
    queues: Queues,
    buffer: Vec<u8>,
    /// Time until which publishers are told to wait.
    blocked: Option<u64>,
    /// True once it neither reads nor writes.
    halted: bool,
    /// True once it confirms nothing more.
    withholds: bool,
}

impl Broker {
    fn new(
        listener: TcpListener,
        mut script: Script,
        stop: Arc<Cancellation>,
        taken: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let reactor = Reactor::new(Some(stop.waker()))?;
        reactor.watch(&listener, LISTENER)?;
        let mut queues = Queues::default();
        let declared = script.queues.iter().cloned();
        queues
            .by_name
            .extend(declared.map(|name| (name, queues::Queue::default())));
        Ok(Self {
            listener,
            delays: std::mem::take(&mut script.delays),
            script: Arc::new(script),
            held: Held::default(),
            read_at: 0,
            stop,
            taken,
            stalled: Arc::default(),
            heartbeats: Arc::default(),
            next_heartbeats: 0,
            reactor,
            peers: Slots::with_capacity(0),
            queues,
            buffer: vec![0; BUFFER],
            blocked: None,
            halted: false,
            withholds: false,
        })
    }

    fn run(mut self) -> io::Result<Held> {
        while self.stop.deadline().is_none() {
            let now = clock::now();
            let until = self.queues.due().min(self.blocked.unwrap_or(u64::MAX));
            let until = until.min(self.send_heartbeats(now)).min(self.confirm_due());
            let busy = self.script.mode == Mode::Stream && self.can_stream();
            for index in 0..self.reactor.wait(if busy { now } else { until }, now)? {
                let Some(event) = self.reactor.event(index) else {
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
                self.broadcast(&frames::unblocked());
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
        Ok(self.held)
    }

    /// Sends heartbeats on open connections twice in an interval; returns when the next are due.
    fn send_heartbeats(&mut self, now: u64) -> u64 {
        let half = 500_000_000 * u64::from(self.script.heartbeat);
        if half == 0 {
            return u64::MAX;
        }
        if now >= self.next_heartbeats {
            self.next_heartbeats = now + half;
            let open = |(id, peer): (Id, &Peer)| {
                (!peer.channels.is_empty() && !peer.closing).then_some(id)
            };
            let ids: Vec<Id> = self.peers.iter().filter_map(open).collect();
            ids.into_iter()
                .for_each(|id| self.write(id, &frames::heartbeat()));
        }
        self.next_heartbeats
    }

    fn accept(&mut self) -> io::Result<()> {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let id = self.peers.insert(Peer {
                stream,
                unread: Vec::new(),
                output: WriteBuffer::default(),
                greeted: false,
                channels: BTreeMap::new(),
                closing: false,
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
        buffer[..carried].copy_from_slice(&peer.unread);
        peer.unread.clear();
        match (&peer.stream).read(&mut buffer[carried..]) {
            Ok(0) => self.disconnect(id),
            Ok(octets) => {
                self.read_at = clock::now();
                self.parse_frames(id, &buffer[..carried + octets]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                peer.unread.extend_from_slice(&buffer[..carried]);
            }
            Err(_) => self.disconnect(id),
        }
        self.buffer = buffer;
    }

    fn parse_frames(&mut self, id: Id, input: &[u8]) {
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

    /// Writes as much as the kernel takes, and the rest when it takes more.
    fn write(&mut self, id: Id, octets: &[u8]) {
        let Some(peer) = self.peers.get_mut(id) else {
            return;
        };
        let was_full = !peer.output.is_empty();
        let mut stream = &peer.stream;
        let mut written = peer.output.write(&mut stream, octets);
        if was_full && written.is_ok() {
            written = peer.output.flush(&mut stream).map(drop);
        }
        if written.is_err() {
            return self.disconnect(id);
        }
        if self.held.has_unwritten() {
            self.held.written(clock::now());
        }
        let is_full = !peer.output.is_empty();
        let closing = peer.closing && !is_full;
        if closing
            || (is_full != was_full
                && self
                    .reactor
                    .rewatch(&peer.stream, id.token(0), is_full)
                    .is_err())
        {
            self.disconnect(id);
        }
    }

    fn broadcast(&mut self, octets: &[u8]) {
        let ids: Vec<Id> = self.peers.iter().map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.write(id, octets));
    }

    /// Removes a connection; its unacknowledged messages return to the queues.
    fn disconnect(&mut self, id: Id) {
        let Some(peer) = self.peers.remove(id) else {
            return;
        };
        for channel in peer.channels.into_values() {
            self.queues.requeue(channel.unacknowledged);
        }
    }
}
