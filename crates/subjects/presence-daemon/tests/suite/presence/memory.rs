//! One daemon without other nodes.

use serde_json::json;

use super::client::{Client, conns};
use super::daemon::Daemon;
use crate::support::http;

#[test]
fn a_room_is_joinable_whatever_the_length_of_its_snapshot() {
    let limit = 50_000;
    let outbound = limit.to_string();
    let daemon = Daemon::start(&["--outbound-limit", &outbound, "--ttl-ms", "600000"]);
    let state = json!({"x": "y".repeat(16_000)});
    let join = |user: usize| json!({"roomId": "r", "userId": user.to_string(), "state": state});
    let mut members: Vec<Client> = (0..12).map(|_| Client::connect(daemon.address)).collect();
    for (user, member) in members.iter_mut().enumerate() {
        let answer = member.request("join", &join(user));
        assert_eq!(conns(&answer).len(), user + 1);
        member.events_now();
    }
    let polling = "/socket.io/?EIO=4&transport=polling";
    let open = http(daemon.address, "GET", polling, b"").1;
    let open: serde_json::Value = serde_json::from_str(&open[1..]).unwrap();
    let polling = format!("{polling}&sid={}", open["sid"].as_str().unwrap());
    let ask = format!("40\x1e421[\"presence:join\",{}]", join(12));
    let asked = http(daemon.address, "POST", &polling, ask.as_bytes());
    assert_eq!(asked, (200, "ok".to_owned()));
    let (status, body) = http(daemon.address, "GET", &polling, b"");
    assert_eq!(status, 200);
    let answer = body.split('\x1e').find(|packet| packet.starts_with("431["));
    assert!(answer.is_some_and(|answer| answer.len() > 3 * limit));
    let closed = "presence_connections_closed_total{reason=\"slow_consumer\"}";
    assert_eq!(daemon.metric(closed), 0);
}
