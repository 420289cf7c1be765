//! Clients of the program that leave, stop in the middle of a line, never read, half-close and come back, by a seed.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use test_kit::{scaled, seed, wait_until};

use crate::support::{Client, Daemon};

/// Connections of a full run, of each client that misbehaves.
const SESSIONS: u64 = 400;
/// Clients that misbehave at the same time.
const CLIENTS: u64 = 4;

/// Connects, asks, and leaves without an end that a polite client would make.
fn misbehave(socket: &Path, random: &mut StdRng) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let operation = ["create", "list", "ping", "show"][random.random_range(0..4)];
    let args = match operation {
        // The longest is parsed by another thread.
        "create" => {
            let length = [10, 10, 1_000, 40_000][random.random_range(0..4)];
            json!({"title": "t", "description": "d".repeat(length)})
        }
        "list" => json!({"limit": 10}),
        "show" => json!({"id": "x"}),
        _ => json!({}),
    };
    let request = json!({"operation": operation, "args": args, "request_id": "misbehaving"});
    let mut text = format!("{request}\n").repeat(random.random_range(1..6));
    if random.random_bool(0.3) {
        text.truncate(text.len() - random.random_range(1..30));
    }
    stream.set_nonblocking(true).unwrap();
    // The daemon may read no more of it, because it reads no answers.
    match stream.write(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
        _ => {}
    }
    if random.random_bool(0.2) {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    if random.random_bool(0.2) {
        thread::yield_now();
    }
}

/// Pipelines requests, and checks that the answers are its own, in their order.
fn behave(socket: &Path, random: &mut StdRng, name: &str) {
    let mut client = Client::connect(socket).unwrap();
    let mut expected = VecDeque::new();
    for number in 0..random.random_range(1..10) {
        let id = format!("{name}-{number}");
        let (operation, args) = if random.random_bool(0.5) {
            ("create", json!({"title": "t"}))
        } else {
            ("ready", json!({"limit": 1}))
        };
        let request = json!({"operation": operation, "args": args, "request_id": id});
        client.send(&request).unwrap();
        expected.push_back(id);
    }
    for id in expected {
        let answer = client.answer().expect("an answer");
        assert_eq!(
            (&answer["request_id"], &answer["success"]),
            (&json!(id), &json!(true))
        );
    }
}

#[test]
fn clients_that_leave_take_nothing_from_others_and_leave_nothing_behind() {
    let seed = seed();
    let daemon = Daemon::new(&["--durability", "none"]);
    let mut client = daemon.client();
    client.data(
        "create",
        json!({"id": "x", "title": "t", "description": "d".repeat(10_000)}),
    );
    let socket = &daemon.socket;
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let behaving = scope.spawn(move || {
            let mut random = StdRng::seed_from_u64(seed);
            let mut session = 0;
            while !is_over.load(Relaxed) {
                session += 1;
                behave(socket, &mut random, &format!("session {session}"));
            }
            session
        });
        let misbehaving: Vec<_> = (1..=CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
                    (0..scaled(SESSIONS)).for_each(|_| misbehave(socket, &mut random));
                })
            })
            .collect();
        let ended: Vec<_> = misbehaving
            .into_iter()
            .map(|thread| thread.join())
            .collect();
        is_over.store(true, Relaxed);
        assert!(behaving.join().unwrap() > 0);
        assert!(ended.into_iter().all(|ended| ended.is_ok()));
    });
    wait_until("only this connection and its request are left", || {
        let status = client.data("status", Value::Null);
        status["connections"] == 1 && status["in_flight"] == 1
    });
    assert_eq!(client.data("health", Value::Null)["status"], "healthy");
    client.create("after all");
    drop(client);
    daemon.stop();
}
