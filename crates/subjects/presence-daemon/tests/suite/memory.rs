//! One daemon without other nodes.

use serde_json::json;

use crate::client::{Client, conns};
use crate::daemon::Daemon;

#[test]
fn a_room_is_joinable_whatever_the_length_of_its_snapshot() {
    let daemon = Daemon::start(&["--outbound-limit", "50000", "--ttl-ms", "600000"]);
    let state = json!({"x": "y".repeat(16_000)});
    let join = |user: usize| json!({"roomId": "r", "userId": user.to_string(), "state": state});
    let mut members: Vec<Client> = (0..12).map(|_| Client::connect(daemon.address)).collect();
    for (user, member) in members.iter_mut().enumerate() {
        let answer = member.request("join", &join(user));
        assert_eq!(conns(&answer).len(), user + 1);
        member.events_now();
    }
    let closed = "presence_connections_closed_total{reason=\"slow_consumer\"}";
    assert_eq!(daemon.metric(closed), 0);
}
