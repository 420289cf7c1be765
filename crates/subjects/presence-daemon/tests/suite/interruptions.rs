//! Nodes without Redis, and after it is back.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::client::{Client, conns, seqs};
use test_kit::{LIMIT, becomes_true};

use crate::daemon::Daemon;
use crate::redis::Redis;

/// Two nodes with a member each in one room.
struct Pair {
    redis: Redis,
    nodes: [Daemon; 2],
    ann: Client,
    bob: Client,
}

impl Pair {
    fn start(arguments: &[&str]) -> Option<Self> {
        let redis = Redis::start()?;
        let nodes = [redis.node(arguments), redis.node(arguments)];
        let (mut ann, _) = Client::join(nodes[0].address, "r", "ann");
        let (mut bob, _) = Client::join(nodes[1].address, "r", "bob");
        ann.events_until("join", &bob.conn);
        bob.events_until("join", &bob.conn.clone());
        Some(Self {
            redis,
            nodes,
            ann,
            bob,
        })
    }

    fn wait_for_redis(&self, up: u64) {
        for node in &self.nodes {
            node.wait_until("the node notices", || {
                node.metric("presence_redis_up") == up
            });
        }
    }

    /// Sends heartbeats until one is answered without `degraded`.
    fn recover(client: &mut Client) {
        let is_back = || client.heartbeat(&json!({})).get("degraded").is_none();
        assert!(
            becomes_true(LIMIT, is_back),
            "heartbeats are answered by Redis again"
        );
    }

    /// Checks that an update of each member reaches the other one, with a rising number.
    fn converge(&mut self) -> [u64; 2] {
        let mut numbers = [0; 2];
        for (index, number) in numbers.iter_mut().enumerate() {
            let (one, other) = match index {
                0 => (&mut self.ann, &mut self.bob),
                _ => (&mut self.bob, &mut self.ann),
            };
            assert_eq!(one.heartbeat(&json!({"last": index + 1}))["changed"], true);
            let last = |events: Vec<Value>| events.last().expect("the update at least").clone();
            let is_it = |event: &Value| event["state"]["last"] == json!(index + 1);
            let conn = one.conn.clone();
            let mut heard = last(other.events_until("update", &conn));
            while !is_it(&heard) {
                heard = last(other.events_until("update", &conn));
            }
            let mut own = last(one.events_until("update", &conn));
            while !is_it(&own) {
                own = last(one.events_until("update", &conn));
            }
            assert_eq!(own, heard);
            *number = own["seq"].as_u64().expect("a number");
        }
        numbers
    }
}

#[test]
fn without_redis_a_node_serves_its_members_and_afterwards_all_agree() {
    let Some(mut pair) = Pair::start(&[]) else {
        return;
    };
    pair.redis.kill();
    pair.wait_for_redis(0);
    for number in 0..10 {
        let answer = pair.ann.heartbeat(&json!({"n": number}));
        assert_eq!(
            (&answer["ok"], &answer["degraded"]),
            (&json!(true), &json!(true))
        );
        let event = pair.ann.event();
        assert_eq!(
            (&event["seq"], &event["degraded"]),
            (&json!(3 + number), &json!(true))
        );
    }
    let (mut cid, answer) = Client::join(pair.nodes[0].address, "r", "cid");
    assert_eq!(
        (&answer["degraded"], conns(&answer).len()),
        (&json!(true), 3)
    );
    cid.heartbeat(&json!({"here": true}));
    pair.redis.start_again();
    pair.wait_for_redis(1);
    Pair::recover(&mut pair.ann);
    Pair::recover(&mut pair.bob);
    let joined = pair.bob.events_until("join", &cid.conn);
    assert_eq!(joined.last().unwrap()["state"], json!({"here": true}));
    let numbers = pair.converge();
    assert!(numbers[0] > 14 && numbers[1] > numbers[0], "{numbers:?}");
    for client in [&mut pair.ann, &mut pair.bob] {
        let events = client.events_now();
        let has_left = events.iter().any(|event| event["type"] == "leave");
        assert!(!has_left, "{events:?}");
    }
    for node in &pair.nodes {
        let (_, answer) = Client::join(node.address, "r", "late");
        assert_eq!(answer.get("degraded"), None);
        let states: Vec<_> = answer["snapshot"]
            .as_array()
            .unwrap()
            .iter()
            .map(|member| &member["state"])
            .collect();
        assert!(states.contains(&&json!({"n": 9, "last": 1})), "{states:?}");
        assert!(states.contains(&&json!({"last": 2})), "{states:?}");
    }
}

#[test]
fn no_heartbeat_hangs_while_redis_does() {
    let Some(mut pair) = Pair::start(&[]) else {
        return;
    };
    pair.redis.send(Signal::SIGSTOP);
    let answer = pair.ann.heartbeat(&json!({"n": 1}));
    assert_eq!(
        (&answer["ok"], &answer["degraded"]),
        (&json!(true), &json!(true))
    );
    let answer = pair.bob.heartbeat(&json!({"n": 2}));
    assert_eq!(answer["degraded"], true);
    assert_eq!(pair.ann.request("leave", &json!(null)), json!({"ok": true}));
    let bob = pair.bob.conn.clone();
    pair.redis.send(Signal::SIGCONT);
    pair.wait_for_redis(1);
    Pair::recover(&mut pair.bob);
    // Redis had lost nothing, so the other node learns of the leave as soon as it is back.
    let ann = pair.ann.conn.clone();
    let events = pair.bob.events_until("leave", &ann);
    let numbers = seqs(&events);
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    assert_eq!(
        events
            .iter()
            .filter(|event| event["type"] == "leave")
            .count(),
        1
    );
    let (_, answer) = Client::join(pair.nodes[0].address, "r", "late");
    assert_eq!(answer["snapshot"].as_array().unwrap().len(), 2);
    assert!(conns(&answer).contains(&bob));
}

#[test]
fn members_of_other_nodes_stay_until_their_ttl_has_passed() {
    let Some(mut pair) = Pair::start(&["--ttl-ms", "3000"]) else {
        return;
    };
    pair.redis.kill();
    let leave = loop {
        for client in [&mut pair.ann, &mut pair.bob] {
            assert_eq!(client.heartbeat(&json!({}))["ok"], true);
        }
        if let Some(leave) = pair
            .ann
            .events_now()
            .into_iter()
            .find(|event| event["type"] == "leave")
        {
            break leave;
        }
    };
    assert_eq!(
        (&leave["reason"], &leave["degraded"]),
        (&json!("expired"), &json!(true))
    );
    assert_eq!(leave["connId"], json!(pair.bob.conn));
    pair.redis.start_again();
    Pair::recover(&mut pair.ann);
    let bob = pair.bob.conn.clone();
    while pair.bob.heartbeat(&json!({})).get("degraded").is_some() {
        pair.ann.heartbeat(&json!({}));
    }
    let events = pair.ann.events_until("join", &bob);
    assert_eq!(
        events
            .iter()
            .filter(|event| event["connId"] == json!(bob))
            .count(),
        1
    );
    pair.converge();
}

#[test]
fn a_node_that_was_stopped_for_longer_than_its_lease_brings_its_members_back() {
    let Some(mut pair) = Pair::start(&[]) else {
        return;
    };
    let pid = nix::unistd::Pid::from_raw(pair.nodes[1].child.id().cast_signed());
    nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
    let bob = pair.bob.conn.clone();
    let leave = pair.ann.events_until("leave", &bob).pop().unwrap();
    assert_eq!(leave["reason"], "node_down");
    nix::sys::signal::kill(pid, Signal::SIGCONT).unwrap();
    let join = pair.ann.events_until("join", &bob).pop().unwrap();
    assert!(join["seq"].as_u64() > leave["seq"].as_u64());
    Pair::recover(&mut pair.bob);
    pair.converge();
}

#[test]
fn a_node_starts_without_redis() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    redis.kill();
    let url = redis.url();
    let node = Daemon::start(&["--redis", &url]);
    let (mut ann, answer) = Client::join(node.address, "r", "ann");
    assert_eq!(answer["degraded"], true);
    redis.start_again();
    node.wait_until("the node reaches Redis", || {
        node.metric("presence_redis_up") == 1
    });
    Pair::recover(&mut ann);
    node.wait_until("the room is in Redis", || {
        redis.keys().contains("presence:members:r")
    });
}
