//! Several nodes over Redis.

use std::thread;

use serde_json::{Value, json};
use test_kit::wait_until;

use crate::client::{Client, conns, seqs};
use crate::redis::Redis;

#[test]
fn each_event_reaches_every_member_on_both_nodes_once_and_in_order() {
    const EACH: u64 = 100;
    let Some(redis) = Redis::start() else { return };
    let nodes = [redis.node(&[]), redis.node(&[])];
    let mut clients = Vec::new();
    for (index, node) in [0, 1, 0, 1].into_iter().enumerate() {
        let (client, answer) = Client::join(nodes[node].address, "r", &format!("u{index}"));
        assert_eq!(answer["seq"], index + 1);
        assert_eq!(conns(&answer).len(), index + 1);
        clients.push(client);
    }
    let streams: Vec<Vec<Value>> = thread::scope(|scope| {
        let heartbeats = clients.iter_mut().enumerate().map(|(index, client)| {
            scope.spawn(move || {
                for number in 0..EACH {
                    let answer = client.heartbeat(&json!({"n": number}));
                    assert_eq!(
                        (&answer["ok"], &answer["changed"]),
                        (&json!(true), &json!(true))
                    );
                }
                let count = 4 - index as u64 + 4 * EACH;
                (0..count).map(|_| client.event()).collect()
            })
        });
        let threads: Vec<_> = heartbeats.collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    for (index, stream) in streams.iter().enumerate() {
        let first = index as u64 + 1;
        assert_eq!(
            seqs(stream),
            (first..first + stream.len() as u64).collect::<Vec<_>>()
        );
        // All saw the same.
        assert_eq!(stream[4 - index..], streams[3][1..]);
    }
    for client in &mut clients {
        assert_eq!(client.events_now(), [json!(null); 0]);
    }
}

#[test]
fn members_that_leave_at_once_on_both_nodes_are_all_answered() {
    const ROOMS: usize = 20;
    let Some(redis) = Redis::start() else { return };
    let nodes = [redis.node(&[]), redis.node(&[])];
    let join = |index: usize| {
        let room = format!("r{}", index / 2);
        Client::join(nodes[index % 2].address, &room, &format!("u{index}")).0
    };
    let mut clients: Vec<Client> = (0..2 * ROOMS).map(join).collect();
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| assert_eq!(client.request("leave", &json!(null)), json!({"ok": true})));
        }
    });
}

#[test]
fn members_leave_their_room_and_redis_across_nodes() {
    let Some(redis) = Redis::start() else { return };
    let nodes = [redis.node(&[]), redis.node(&[])];
    let (mut ann, _) = Client::join(nodes[0].address, "r", "ann");
    let (mut bob, _) = Client::join(nodes[1].address, "r", "bob");
    ann.events_until("join", &bob.conn);
    ann.request("leave", &json!(null));
    let leave = bob.events_until("leave", &ann.conn).pop().unwrap();
    assert_eq!(
        (&leave["reason"], &leave["seq"]),
        (&json!("leave"), &json!(3))
    );
    assert_eq!(
        ann.request("join", &json!({"roomId": "r", "userId": "ann"}))["seq"],
        4
    );
    drop(ann);
    assert_eq!(
        bob.events_until("leave", leave["connId"].as_str().unwrap())
            .len(),
        2
    );
    drop(bob);
    nodes[1].wait_until("no room is left", || !redis.keys().contains(":r"));
}

#[test]
fn a_member_past_its_ttl_is_in_no_snapshot_and_leaves_everywhere() {
    const TTL_MS: u64 = 2_000;
    let Some(redis) = Redis::start() else { return };
    // The first node does not look for silent members itself.
    let ttl = TTL_MS.to_string();
    let lazy = redis.node(&["--ttl-ms", &ttl, "--reaper-interval-ms", "600000"]);
    let other = redis.node(&["--ttl-ms", &ttl]);
    let (mut ann, _) = Client::join(lazy.address, "r", "ann");
    // Redis judges by its own clock.
    let joined_ms = redis.now_ms();
    wait_until("the TTL has passed", || redis.now_ms() > joined_ms + TTL_MS);
    let (mut bob, answer) = Client::join(other.address, "r", "bob");
    assert_eq!(conns(&answer), [bob.conn.clone()]);
    assert_eq!(ann.heartbeat(&json!({"x": 1}))["code"], "expired");
    assert_eq!(lazy.metric("presence_members"), 0);
    let events = bob.events_now();
    assert_eq!(events.len(), 1, "{events:?}");
}

#[test]
fn the_members_of_a_killed_node_leave_once() {
    let Some(redis) = Redis::start() else { return };
    let mut killed = redis.node(&[]);
    let survivors = [redis.node(&[]), redis.node(&[])];
    let (mut bob, _) = Client::join(survivors[0].address, "r", "bob");
    let (mut cid, _) = Client::join(survivors[1].address, "r", "cid");
    let dead: Vec<Client> = (0..20)
        .map(|_| Client::join(killed.address, "r", "dead").0)
        .collect();
    bob.events_until("join", &dead[19].conn);
    cid.events_until("join", &dead[19].conn);
    killed.kill();
    for client in [&mut bob, &mut cid] {
        let mut left: Vec<String> = (0..20)
            .map(|_| {
                let event = client.event();
                assert_eq!(
                    (&event["type"], &event["reason"]),
                    (&json!("leave"), &json!("node_down"))
                );
                event["connId"].as_str().unwrap().to_owned()
            })
            .collect();
        let mut expected: Vec<_> = dead.iter().map(|client| client.conn.clone()).collect();
        left.sort_unstable();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }
    bob.heartbeat(&json!({"x": 1}));
    assert_eq!(bob.event()["seq"], 43);
    let update = cid.event();
    assert_eq!(
        (&update["type"], &update["seq"]),
        (&json!("update"), &json!(43))
    );
    let (_, answer) = Client::join(survivors[0].address, "r", "new");
    assert_eq!(conns(&answer).len(), 3);
}

#[test]
fn a_resumed_member_is_unseen_on_the_other_node() {
    let Some(redis) = Redis::start() else { return };
    let patient = ["--resume-grace-ms", "20000"];
    let nodes = [redis.node(&patient), redis.node(&patient)];
    let (ann, answer) = Client::join(nodes[0].address, "r", "ann");
    let (mut bob, _) = Client::join(nodes[1].address, "r", "bob");
    bob.events_now();
    let conn = ann.conn.clone();
    drop(ann);
    let mut back = Client::connect(nodes[0].address);
    let request = json!({"roomId": "r", "userId": "ann", "resume": answer["resume"]});
    let answer = back.request("join", &request);
    assert_eq!(
        (&answer["resumed"], &answer["seq"]),
        (&json!(true), &json!(2))
    );
    assert_eq!(conns(&answer).len(), 2);
    back.heartbeat(&json!({"x": 1}));
    let update = bob.event();
    assert_eq!(
        (&update["type"], &update["seq"]),
        (&json!("update"), &json!(3))
    );
    assert_eq!(update["connId"], json!(conn));
}

#[test]
fn an_address_of_redis_that_cannot_be_used_is_refused_with_a_remedy_and_without_its_password() {
    for (url, words) in [
        (
            "rediss://ann:hidden@127.0.0.1:1",
            "TLS to Redis is not supported",
        ),
        (
            "http://ann:hidden@127.0.0.1:1",
            "cannot use the address of Redis",
        ),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_presence-daemon"))
            .args(["--port", "0", "--redis", url])
            .env_clear()
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        for word in [words, "--redis", "REDIS_URL", "redis://"] {
            assert!(error.contains(word), "{word} is not in: {error}");
        }
        assert!(!error.contains("hidden"), "{error}");
    }
}
