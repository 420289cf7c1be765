//! Senders that hand over clients well or badly, and clients that read, do not read, half-close or leave: drawn from a
//! seed, on a real handoff socket, with a shard in the same thread. No stream waits for time, so the order of all events
//! is the order of the steps.

pub(crate) mod peer;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser as _;
use daemon_kit::{MetricsPage, RateLimitedLog, finish_within};
use nix::sys::socket::SockType;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tempfile::TempDir;
use test_kit::scaled;
use test_kit::simulation::simulate;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::sync::watch::{Sender, channel};

use self::peer::{Event, PEERS, Payload, Peer, Rights, Tally, counters};
use super::*;
use crate::Options;
use crate::accept_token::AcceptToken;
use crate::config::{Config, SocketType};
use crate::listener::Listener;
use crate::metrics::Metrics;
use crate::request::Request;

/// Steps of a world.
const STEPS: usize = 60;
/// Worlds of a full run.
const WORLDS: u64 = 100_000;
/// The numbers of events of a stream, one for each world.
const EVENTS: [u32; 4] = [0, 1, 18, 40];
/// The streams that the daemon serves at once: fewer than there are peers.
const CAPACITY: u64 = PEERS as u64 - 1;
/// Turns in which a stream must have come to its end, whatever the others do.
const BOUND: usize = 64;
/// Turns in which all that is left must have come to its end.
const ROUNDS: usize = 1_000;

/// A step of a world.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The type of the handoff socket, and the number of events of a stream.
    Shape(SocketType, u32),
    Peer(Event),
    /// The daemon is ended after the other steps, instead of letting all come to their end.
    Abort,
}

struct World {
    folder: TempDir,
    path: PathBuf,
    kind: SockType,
    listener: Listener,
    shared: Arc<Shared>,
    stop: Sender<bool>,
    shards: JoinSet<io::Result<()>>,
    peers: [Option<Peer>; PEERS],
    /// Peers whose slot others use.
    former: Vec<Peer>,
    connected: u64,
    next_id: u64,
}

impl World {
    fn new(socket_type: SocketType, events: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let options = Options::parse_from(["streaming-daemon", "--benchmark"]);
        let kind = match socket_type {
            SocketType::Stream => SockType::Stream,
            SocketType::Seqpacket => SockType::SeqPacket,
        };
        let config = Config {
            socket_path: path.clone(),
            socket_type,
            ..options.config().unwrap()
        };
        let listener = Listener::bind(&config).unwrap();
        let shared = Arc::new(Shared {
            answer: Answer::new(events, Duration::ZERO),
            openai: None,
            metrics: Arc::new(Metrics::default()),
            accept_token: AcceptToken::new(1),
            log: RateLimitedLog::new("streaming-daemon", 0),
            socket_type,
            peers: config.peers,
            capacity: CAPACITY,
            write_timeout: config.write_timeout,
            lingering: Semaphore::new(PEERS),
        });
        let (stop, stopping) = channel(false);
        let socket = listener.share().unwrap();
        let mut shard = Shard::new(0, Arc::clone(&shared), socket, stopping).unwrap();
        shard.tick = 0;
        let mut shards = JoinSet::new();
        shards.spawn(shard.run());
        Self {
            folder,
            path,
            kind,
            listener,
            shared,
            stop,
            shards,
            peers: [const { None }; PEERS],
            former: Vec::new(),
            connected: 0,
            next_id: 0,
        }
    }

    async fn step(&mut self, step: Event) -> Result<(), String> {
        match step {
            Event::Connect(index) if self.peers[index].is_none() => {
                self.peers[index] = self.connect();
            }
            Event::Turn => yield_now().await,
            Event::Probe => self.probe().await?,
            Event::Stop => {
                self.listener.refuse_further();
                self.stop.send_replace(true);
            }
            Event::Connect(index)
            | Event::Send(index, ..)
            | Event::Close(index)
            | Event::Receive(index, _)
            | Event::Write(index)
            | Event::HalfClose(index)
            | Event::Leave(index) => {
                if let Some(peer) = &mut self.peers[index] {
                    peer.step(step, self.folder.path())?;
                    if matches!(step, Event::Leave(_)) && peer.outcome.is_some() {
                        self.former.extend(self.peers[index].take());
                    }
                }
            }
        }
        Ok(())
    }

    fn connect(&mut self) -> Option<Peer> {
        self.next_id += 1;
        let peer = Peer::connect(&self.path, self.kind, self.next_id)?;
        self.connected += 1;
        Some(peer)
    }

    /// Hands over a further client, which must not wait for the others.
    async fn probe(&mut self) -> Result<(), String> {
        let Some(mut probe) = self.connect() else {
            return Ok(());
        };
        probe.send(
            Payload::Right,
            Rights::Client,
            usize::MAX,
            self.folder.path(),
        )?;
        for _ in 0..BOUND {
            yield_now().await;
            let client = probe.client.as_mut().expect("it has handed one over");
            client.receive(usize::MAX)?;
            if client.has_ended {
                self.former.push(probe);
                return Ok(());
            }
        }
        Err(format!(
            "a client without fault waits for more than {BOUND} turns"
        ))
    }

    /// Returns the stream of a peer.
    fn stream(&self, peer: &Peer) -> Vec<u8> {
        let prompt = format!("p{}", peer.id);
        let request = Request {
            user_id: Some(peer.id.cast_signed()),
            prompt: Some(prompt.as_str().into()),
            response_headers: None,
        };
        let request = if peer.is_right() {
            request
        } else {
            Request::default()
        };
        let opening = self.shared.answer.opening(&request);
        let user_id = request.user_id.unwrap_or(0);
        let mut stream = Vec::new();
        for write in 0..=self.shared.answer.last_write() {
            let mut scratch = Vec::new();
            let bytes = self
                .shared
                .answer
                .bytes(write, Some(&opening), user_id, &mut scratch);
            stream.extend_from_slice(bytes);
        }
        stream
    }

    /// Lets all come to their end: the senders close, the clients read all, then leave. Nothing of them may stay.
    async fn end(&mut self, is_aborted: bool) -> Result<(), String> {
        let mut peers = std::mem::take(&mut self.former);
        peers.extend(self.peers.iter_mut().filter_map(Option::take));
        for peer in &mut peers {
            peer.step(Event::Close(0), self.folder.path())?;
        }
        if is_aborted {
            self.step(Event::Stop).await?;
            finish_within(&mut self.shards, Duration::ZERO, drop).await;
        }
        let mut rounds = 0;
        let mut is_waiting = true;
        while is_waiting {
            rounds += 1;
            if rounds > ROUNDS {
                return Err("unfinished: a client waits for ever".to_owned());
            }
            yield_now().await;
            is_waiting = false;
            for client in peers.iter_mut().filter_map(|peer| peer.client.as_mut()) {
                client.receive(usize::MAX)?;
                is_waiting |= !client.has_ended;
            }
        }
        let mut tally = Tally::default();
        for peer in &peers {
            tally.add(peer, &self.stream(peer), is_aborted)?;
        }
        let witnesses: Vec<_> = peers.into_iter().flat_map(|peer| peer.witnesses).collect();
        self.step(Event::Stop).await?;
        for _ in 0..ROUNDS {
            if self.shards.is_empty() {
                break;
            }
            yield_now().await;
            while let Some(ended) = self.shards.try_join_next() {
                let ended = ended.map_err(|panic| format!("shard: {panic}"))?;
                ended.map_err(|error| format!("shard: {error}"))?;
            }
        }
        if !self.shards.is_empty() {
            return Err("shard does not end after everybody has left".to_owned());
        }
        let open: Vec<_> = witnesses.iter().filter(|one| !one.is_closed()).collect();
        if !open.is_empty() {
            return Err(format!("descriptors stay open: {open:?}"));
        }
        let page = self.shared.metrics.render(&MetricsPage::new());
        tally.compare(&counters(&page), self.connected, is_aborted)
    }
}

/// Runs a world. Returns the number of its sessions, or what went wrong.
fn run(steps: &[Step]) -> Result<u64, String> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = match steps.first() {
            Some(Step::Shape(socket_type, events)) => World::new(*socket_type, *events),
            _ => World::new(SocketType::Seqpacket, 18),
        };
        let mut is_aborted = false;
        for step in steps {
            match step {
                Step::Peer(event) => world.step(*event).await?,
                Step::Abort => is_aborted = true,
                Step::Shape(..) => {}
            }
        }
        world.end(is_aborted).await?;
        Ok(world.connected)
    })
}

fn draw(seed: u64) -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(seed);
    let socket_type = [SocketType::Seqpacket, SocketType::Stream][random.random_range(0..2)];
    let events = EVENTS[random.random_range(0..EVENTS.len())];
    let mut steps = vec![Step::Shape(socket_type, events)];
    steps.extend((0..STEPS).map(|_| Step::Peer(Event::draw(&mut random))));
    match random.random_range(0..6) {
        0 => steps.push(Step::Abort),
        1 => steps.insert(STEPS / 2, Step::Peer(Event::Stop)),
        _ => {}
    }
    steps
}

#[test]
fn clients_get_their_own_streams_and_every_handoff_is_counted_once_whatever_they_do() {
    let sessions = simulate(WORLDS, draw, run);
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn a_listening_socket_beyond_the_capacity_is_closed_at_once() {
    let hand_over = |(peer, rights)| {
        let send = Event::Send(peer, Payload::Right, rights, usize::MAX);
        [Step::Peer(Event::Connect(peer)), Step::Peer(send)]
    };
    let streams = (0..PEERS - 1).map(|peer| (peer, Rights::NarrowClient));
    let all = streams.chain([(PEERS - 1, Rights::Listener)]);
    // The last one was held for two seconds, for more that could come from it.
    run(&all.flat_map(hand_over).collect::<Vec<_>>()).unwrap();
}
