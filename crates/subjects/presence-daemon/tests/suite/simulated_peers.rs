//! Clients of the program that connect, speak, stop in the middle, break the rules, never read, half-close and leave as
//! a seed draws it, beside a user who gets all that is due.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use test_kit::scaled;
use test_kit::simulation::simulate;

use crate::client::{Client, TIMEOUT};
use crate::daemon::Daemon;
use crate::redis::Redis;

/// Clients at the same time.
const CLIENTS: usize = 6;
/// Steps of a world, which has some 8 sessions.
const STEPS: usize = 80;
/// Worlds of a full run.
const WORLDS: u64 = 300;
/// Memory that the allocator may keep.
const KEPT_MEMORY: u64 = 8 << 20;
/// Clients that do not answer pings are disconnected soon, so that abandoned sessions end. No member leaves by its TTL.
const OPTIONS: [&str; 8] = [
    "--ttl-ms",
    "3600000",
    "--ping-interval-ms",
    "1000",
    "--ping-timeout-ms",
    "5000",
    "--resume-grace-ms",
    "1000",
];

/// Packets that a client may send.
const PACKETS: [&str; 12] = [
    "40",
    r#"421["presence:join",{"roomId":"r","userId":"u"}]"#,
    r#"422["presence:join",{"roomId":"s","userId":"u","state":{"n":1}}]"#,
    r#"423["presence:heartbeat",{"patchState":{"n":2}}]"#,
    r#"424["presence:heartbeat",{"epoch":7}]"#,
    r#"425["presence:leave",null]"#,
    r#"42["presence:join",{"roomId":"r","userId":"u","resume":"00000000000000000000000000000000"}]"#,
    r#"42["unknown",1]"#,
    "40/unknown,",
    "3",
    "439[]",
    "41",
];

/// Frames that the protocol forbids, and the beginning of one.
const FAULTS: [&[u8]; 6] = [
    b"\x81\x014",
    b"\xc1\x80\0\0\0\0",
    b"\x81\x82\0\0\0\0\xff\xff",
    b"\x82\xff\0\0\0\0\x7f\0\0\0\0\0\0\0",
    b"\x82\x81\0\0\0\0a",
    b"\x81\xfe\x01",
];

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    WebSocket(usize),
    Polling(usize),
    /// A client connects to the main namespace and joins a room.
    Join(usize, usize),
    /// A client sends a packet this many times.
    Send(usize, usize, usize),
    /// A client sends only a part of a request or frame.
    Cut(usize),
    Break(usize, usize),
    Read(usize),
    /// A polled client sends a poll.
    Poll(usize),
    /// A polled client opens a WebSocket, and lets it take over or not.
    Upgrade(usize, bool),
    HalfClose(usize),
    Close(usize),
    Leave(usize),
}

use Step::*;

fn draw(random: &mut StdRng) -> Step {
    let client = random.random_range(0..CLIENTS);
    match random.random_range(0..100) {
        0..18 => WebSocket(client),
        18..27 => Polling(client),
        27..45 => Join(client, random.random_range(1..3)),
        45..62 => {
            let count = [1, 1, 3, 50][random.random_range(0..4)];
            Send(client, random.random_range(0..PACKETS.len()), count)
        }
        62..65 => Cut(client),
        65..68 => Break(client, random.random_range(0..FAULTS.len())),
        68..75 => Read(client),
        75..80 => Poll(client),
        80..85 => Upgrade(client, random.random_bool(0.7)),
        85..88 => HalfClose(client),
        88..92 => Close(client),
        _ => Leave(client),
    }
}

/// A client: its connections, and its session if it is polled. It reads only when its steps say so.
struct Peer {
    address: SocketAddr,
    /// The WebSocket, or the connection for posts.
    stream: TcpStream,
    others: Vec<TcpStream>,
    polled: Option<String>,
}

fn connect(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the daemon listens");
    for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
        set(&stream, Some(TIMEOUT)).expect("the timeout is not 0");
    }
    send(&mut stream, request.as_bytes());
    stream
}

/// Sends bytes. The daemon may have closed the connection by right.
fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}

fn websocket(address: SocketAddr, query: &str) -> TcpStream {
    let request = format!(
        "GET /socket.io/?EIO=4&transport=websocket{query} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    connect(address, &request)
}

/// Encodes a text frame with a mask that changes nothing.
fn frame(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("packets are short");
    let mut frame = vec![0x81, 0xfe];
    frame.extend(length.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(text.bytes());
    frame
}

impl Peer {
    fn websocket(address: SocketAddr) -> Self {
        Self {
            address,
            stream: websocket(address, ""),
            others: Vec::new(),
            polled: None,
        }
    }

    fn polling(address: SocketAddr) -> Result<Self, String> {
        let request = "GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut stream = connect(address, request);
        let mut response = String::new();
        let sid = loop {
            let mut bytes = [0; 1024];
            let length = stream
                .read(&mut bytes)
                .map_err(|error| format!("handshake: {error}"))?;
            response += &String::from_utf8_lossy(&bytes[..length]);
            let sid = response
                .split_once("\"sid\":\"")
                .and_then(|(_, rest)| rest.split_once('"'));
            match sid {
                Some((sid, _)) => break sid.to_owned(),
                None if length == 0 => return Err(format!("handshake: {response}")),
                None => {}
            }
        };
        Ok(Self {
            address,
            stream,
            others: Vec::new(),
            polled: Some(sid),
        })
    }

    fn request(&self, method: &str, body: &str) -> String {
        let sid = self.polled.as_deref().unwrap_or_default();
        let length = body.len();
        format!(
            "{method} /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }

    fn send(&mut self, text: &str) {
        let bytes = match self.polled {
            Some(_) => self.request("POST", text).into_bytes(),
            None => frame(text),
        };
        send(&mut self.stream, &bytes);
    }

    fn act(&mut self, step: Step) {
        match step {
            Join(_, index) => {
                self.send(PACKETS[0]);
                self.send(PACKETS[index]);
            }
            Send(_, index, count) => (0..count).for_each(|_| self.send(PACKETS[index])),
            Cut(_) => {
                let request = self.request("POST", PACKETS[1]);
                let bytes = if self.polled.is_some() {
                    request.as_bytes()
                } else {
                    &frame(PACKETS[1])
                };
                send(&mut self.stream, &bytes[..bytes.len() - 7]);
            }
            Break(_, index) => send(&mut self.stream, FAULTS[index]),
            Read(_) => {
                self.stream.set_nonblocking(true).expect("a socket");
                while let Ok(1..) = self.stream.read(&mut [0; 4096]) {}
                self.stream.set_nonblocking(false).expect("a socket");
            }
            Poll(_) if self.polled.is_some() => {
                self.others
                    .push(connect(self.address, &self.request("GET", "")));
            }
            Upgrade(_, takes_over) => {
                if let Some(sid) = &self.polled {
                    let mut stream = websocket(self.address, &format!("&sid={sid}"));
                    send(&mut stream, &frame("2probe"));
                    if takes_over {
                        // The client that sends this before the probe is answered is an odd one.
                        send(&mut stream, &frame("5"));
                        self.polled = None;
                        self.others
                            .push(std::mem::replace(&mut self.stream, stream));
                    } else {
                        self.others.push(stream);
                    }
                }
            }
            HalfClose(_) => drop(self.stream.shutdown(Shutdown::Write)),
            Close(_) => self.send("1"),
            _ => {}
        }
    }
}

/// Performs steps. Returns the number of sessions, and the clients that are there.
fn perform(nodes: &[Daemon], steps: &[Step]) -> Result<(u64, Vec<Peer>), String> {
    let mut peers = [const { None }; CLIENTS];
    let mut sessions = 0;
    for step in steps {
        match *step {
            WebSocket(client) | Polling(client) if peers[client].is_none() => {
                sessions += 1;
                let address = nodes[client % nodes.len()].address;
                peers[client] = Some(match step {
                    WebSocket(_) => Peer::websocket(address),
                    _ => Peer::polling(address)?,
                });
            }
            Leave(client) => peers[client] = None,
            WebSocket(client)
            | Polling(client)
            | Join(client, _)
            | Send(client, ..)
            | Cut(client)
            | Break(client, _)
            | Read(client)
            | Poll(client)
            | Upgrade(client, _)
            | HalfClose(client)
            | Close(client) => {
                if let Some(peer) = &mut peers[client] {
                    peer.act(*step);
                }
            }
        }
    }
    Ok((sessions, peers.into_iter().flatten().collect()))
}

fn steps(seed: u64) -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..STEPS).map(|_| draw(&mut random)).collect()
}

/// Sends heartbeats until it is stopped, and checks that each is answered and each event comes in its turn. Reads fail
/// that wait for too long. Returns the number of heartbeats.
fn be_user(mut user: Client, mut seq: u64, stop: &AtomicBool) -> u64 {
    let mut number = 0;
    while !stop.load(Relaxed) {
        number += 1;
        let answer = user.heartbeat(&json!({"n": number}));
        assert_eq!(
            (&answer["ok"], &answer["changed"]),
            (&json!(true), &json!(true)),
            "{answer}"
        );
        loop {
            let event = user.event();
            seq += 1;
            assert_eq!(event["seq"], seq, "{event}");
            if event["connId"] == json!(user.conn) && event["state"]["n"] == number {
                break;
            }
        }
    }
    number
}

/// The descriptors and the resident memory of a daemon, in bytes.
fn resources(daemon: &Daemon) -> (usize, u64) {
    let process = format!("/proc/{}", daemon.child.id());
    let descriptors = fs::read_dir(format!("{process}/fd"))
        .expect("it runs")
        .count();
    let status = fs::read_to_string(format!("{process}/status")).expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|text| text.trim().split(' ').next()?.parse::<u64>().ok());
    (
        descriptors,
        kib.expect("a running process has memory") << 10,
    )
}

/// Waits until all clients but the users have left a daemon.
fn wait_until_empty(daemon: &Daemon, users: u64) {
    for name in [
        "presence_connections_open",
        "presence_members",
        "presence_rooms",
    ] {
        daemon.wait_until(name, || daemon.metric(name) == users);
    }
    daemon.wait_until("no poll waits", || {
        daemon.metric("presence_polls_waiting") == 0
    });
    daemon.wait_until("no connection of HTTP is open", || {
        let ended = daemon.metric("presence_http_connections_ended_total");
        daemon.metric("presence_connections_accepted_total") == ended
    });
}

/// Stops the user when it is dropped, also by a panic: otherwise the test would wait for the user.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn simulate_beside_a_user(nodes: &[Daemon]) {
    let (user, answer) = Client::join(nodes[0].address, "r", "user");
    let seq = answer["seq"].as_u64().expect("a number") - 1;
    let stop = AtomicBool::new(false);
    let run = |steps: &[Step]| {
        let (sessions, peers) = perform(nodes, steps)?;
        drop(peers);
        let is_healthy = |node: &Daemon| health(node.address).contains("200 OK");
        nodes
            .iter()
            .all(is_healthy)
            .then_some(sessions)
            .ok_or("unhealthy".to_owned())
    };
    thread::scope(|scope| {
        let user = scope.spawn(|| be_user(user, seq, &stop));
        let stop = Stop(&stop);
        let wait = || {
            for (index, node) in nodes.iter().enumerate() {
                wait_until_empty(node, u64::from(index == 0));
            }
        };
        // What is allocated once is there afterwards.
        run(&steps(0)).expect("the daemon serves");
        wait();
        let before: Vec<_> = nodes.iter().map(resources).collect();
        let sessions = simulate(WORLDS, steps, run);
        assert!(sessions > scaled(WORLDS), "{sessions} sessions");
        wait();
        for (node, (descriptors, memory)) in nodes.iter().zip(before) {
            node.wait_until("descriptors and memory are as before", || {
                let now = resources(node);
                now.0 <= descriptors && now.1 <= memory + KEPT_MEMORY
            });
        }
        assert!(!user.is_finished(), "the user has failed");
        drop(stop);
        assert!(user.join().expect("the user got all that was due") > 0);
    });
}

/// Returns the answer to a request for the health of the daemon; empty if there is none.
fn health(address: SocketAddr) -> String {
    let mut answer = String::new();
    let request = b"GET /healthz HTTP/1.0\r\n\r\n";
    if let Ok(mut stream) = TcpStream::connect(address) {
        send(&mut stream, request);
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

#[test]
fn clients_disturb_no_user_and_leave_nothing_behind_whatever_they_do() {
    simulate_beside_a_user(&[Daemon::start(&OPTIONS)]);
}

#[test]
fn clients_of_two_nodes_disturb_no_user_and_leave_nothing_behind_whatever_they_do() {
    let Some(redis) = Redis::start() else { return };
    // Patient, as an interruption shows itself in the answers: an event that comes late is taken for lost.
    let url = redis.url();
    let shared = [
        "--redis",
        &url,
        "--node-lease-ms",
        "60000",
        "--redis-timeout-ms",
        "20000",
        "--reaper-interval-ms",
        "2000",
    ];
    let node = || Daemon::start(&[&shared[..], &OPTIONS].concat());
    simulate_beside_a_user(&[node(), node()]);
}

#[test]
fn a_daemon_that_is_stopped_in_the_middle_ends_with_exit_code_0() {
    let first = test_kit::seed();
    for seed in 0..scaled(20) {
        let nodes = [Daemon::start(&OPTIONS)];
        let (_, peers) =
            perform(&nodes, &steps(first.wrapping_add(seed))).expect("the daemon serves");
        let [mut daemon] = nodes;
        let pid = Pid::from_raw(daemon.child.id().cast_signed());
        kill(pid, Signal::SIGTERM).expect("it runs");
        let mut status = None;
        // The grace time is 10 s.
        let has_ended = || {
            status = daemon.child.try_wait().expect("a child");
            status.is_some()
        };
        assert!(
            test_kit::becomes_true(test_kit::LIMIT, has_ended),
            "it ends"
        );
        assert_eq!(status.and_then(|status| status.code()), Some(0));
        assert_eq!(health(daemon.address), "");
        drop(peers);
    }
}
