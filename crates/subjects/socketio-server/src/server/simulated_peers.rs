//! Clients of one worker over socket pairs, in one thread: they connect, upgrade, speak, stop in the middle, break the
//! rules, never read, half-close and leave as a seed draws it.

mod peer;
mod world;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use test_kit::scaled;
use test_kit::simulation::simulate;
use tokio::runtime::{Builder, LocalOptions};
use world::World;

/// Clients at the same time. Few, so that they reuse what others have left.
const CLIENTS: usize = 4;
/// Steps of a world.
const STEPS: usize = 80;
/// Worlds of a full run.
const WORLDS: u64 = 50_000;
/// Turns of the worker. Each looks for events of the sockets once.
const TURNS: usize = 3;
/// Rounds in which everybody must have been served at the end.
const ROUNDS: usize = 100;
/// Bytes that may wait for a client.
const LIMIT: usize = 40_000;
/// Bytes of events from which on a client that does not read may be disconnected: answers and heads come in addition.
/// They are more than a socket takes, so that the queue of a client must be written later.
const NEAR_LIMIT: usize = 30_000;
/// The send buffer of the server's sockets.
const SEND_BUFFER: usize = 8 << 10;
/// The length of a long text.
const LONG: usize = 6_000;
const MAX_PAYLOAD: usize = 10_000_000;
const NAMESPACES: [&str; 3] = ["/", "/custom", "/unknown"];

/// A message of a client.
#[derive(Debug, Clone, Copy)]
enum Text {
    Short,
    Long,
    Binary,
    /// Over a WebSocket, it comes in fragments with a ping between them.
    Fragmented,
}

/// Something that the protocol forbids.
#[derive(Debug, Clone, Copy)]
enum Wrong {
    Unmasked,
    ReservedBit,
    InvalidText,
    /// A frame that announces more than a message may have.
    TooLong,
    Packet,
    Attachment,
    /// Two polls, or two posts, at once.
    SecondPoll,
    SecondPost,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    OpenWebSocket(usize),
    OpenPolling(usize),
    /// A client connects to a namespace.
    Join(usize, usize),
    LeaveNamespace(usize, usize),
    /// A client sends this many events to a namespace.
    Say(usize, usize, Text, usize),
    Break(usize, Wrong),
    /// A client sends only half of what it sends next, and nothing after it.
    Cut(usize),
    /// A client sends the rest.
    SendRest(usize),
    Receive(usize),
    Poll(usize),
    /// A client opens a WebSocket for its polled session.
    Probe(usize),
    /// The WebSocket takes over.
    Upgrade(usize),
    LoseProbe(usize),
    HalfClose(usize),
    /// A client ends its session as the protocol describes.
    Close(usize),
    /// A client closes all its connections.
    Leave(usize),
    /// The time of a ping passes.
    Time,
    /// The worker does what it can.
    Turn,
}

use Step::*;

fn draw(random: &mut StdRng) -> Step {
    let client = random.random_range(0..CLIENTS);
    let namespace = if random.random_bool(0.7) { 0 } else { 1 };
    match random.random_range(0..200) {
        0..14 => OpenWebSocket(client),
        14..26 => OpenPolling(client),
        26..50 => Join(
            client,
            random.random_range(0..NAMESPACES.len()).min(namespace * 2),
        ),
        50..53 => LeaveNamespace(client, namespace),
        53..85 => {
            use Text::*;
            let texts = [Short, Short, Long, Binary, Fragmented];
            let count = [1, 1, 2, 12][random.random_range(0..4)];
            let text = texts[random.random_range(0..texts.len())];
            Say(client, namespace, text, count)
        }
        85..88 => {
            use Wrong::*;
            let faults = [
                Unmasked,
                ReservedBit,
                InvalidText,
                TooLong,
                Packet,
                Attachment,
                SecondPoll,
                SecondPost,
            ];
            Break(client, faults[random.random_range(0..faults.len())])
        }
        88..92 => Cut(client),
        92..99 => SendRest(client),
        99..120 => Receive(client),
        120..140 => Poll(client),
        140..147 => Probe(client),
        147..154 => Upgrade(client),
        154..156 => LoseProbe(client),
        156..158 => HalfClose(client),
        158..161 => Close(client),
        161..168 => Leave(client),
        168..170 => Time,
        _ => Turn,
    }
}

/// Runs a world. Returns the number of its sessions, or what went wrong.
fn run(steps: &[Step]) -> Result<u64, String> {
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(LocalOptions::default());
    runtime.unwrap().block_on(async {
        let mut world = World::new();
        for step in steps {
            world.step(*step).await?;
        }
        world.end().await?;
        Ok(world.sessions)
    })
}

#[test]
fn clients_get_their_answers_and_all_events_in_order_and_leave_nothing_behind() {
    let steps = |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        (0..STEPS).map(|_| draw(&mut random)).collect()
    };
    let sessions = simulate(WORLDS, steps, run);
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn nothing_of_a_session_stays_that_a_request_or_frame_outlives() {
    // The sockets of a post that was complete after its session, and a session that was upgraded, stayed for ever.
    for steps in [
        &[
            OpenPolling(1),
            Join(1, 0),
            Cut(1),
            Say(1, 0, Text::Long, 1),
            Time,
            Receive(1),
            Time,
        ][..],
        &[
            OpenPolling(1),
            Receive(1),
            Probe(1),
            Receive(1),
            Upgrade(1),
            Break(1, Wrong::InvalidText),
        ],
    ] {
        run(steps).unwrap();
    }
}
