//! The cases, in the order in which they are listed.

// The modules below import these with `super::*`.
use anyhow::ensure;
use serde_json::{Value, json};

use crate::expect::*;
use crate::member::{Member, entry, present};
use crate::pattern::{Variables, fits};
use crate::polling::Polling;
use crate::script::{self, Case};
use crate::server::{LIMIT, Server, Stopwatch};
use crate::transport::Transport;
use crate::websocket::{Received, WebSocket};

mod events;
mod expiry;
mod nodes;
mod sessions;

/// The name and the text of a script.
macro_rules! script {
    ($area:literal) => {
        (
            concat!($area, ".txt"),
            include_str!(concat!("cases/", $area, ".txt")),
        )
    };
}

const SCRIPTS: [(&str, &str); 19] = [
    script!("handshake"),
    script!("sessions"),
    script!("upgrades"),
    script!("cors"),
    script!("pings"),
    script!("frames"),
    script!("namespaces"),
    script!("acknowledgements"),
    script!("malformed"),
    script!("echo"),
    script!("joins"),
    script!("arguments"),
    script!("heartbeats"),
    script!("events"),
    script!("expiry"),
    script!("resumption"),
    script!("limits"),
    script!("compatibility"),
    script!("nodes"),
];

/// Returns all cases.
pub(crate) fn all() -> Vec<Case> {
    SCRIPTS.into_iter().flat_map(script::cases).collect()
}

/// Performs the step of a script that has loops over what it has received.
pub(crate) fn call(name: &str, server: &Server) -> anyhow::Result<()> {
    let run = match name {
        "every_session_has_an_id" => sessions::every_session_has_an_id,
        "a_second_get_is_refused" => sessions::a_second_get_is_refused,
        "a_long_post_is_refused" => sessions::a_long_post_is_refused,
        "all_bytes_come_back" => sessions::all_bytes_come_back,
        "the_snapshot_has_every_member" => events::the_snapshot_has_every_member,
        "many_keys_come_back" => events::many_keys_come_back,
        "all_see_one_order" => events::all_see_one_order,
        "snapshot_and_seq_fit" => events::snapshot_and_seq_fit,
        "snapshots_fit_the_leave" => expiry::snapshots_fit_the_leave,
        "several_members_leave_once" => expiry::several_members_leave_once,
        "snapshots_fit_their_seqs" => nodes::snapshots_fit_their_seqs,
        "all_get_the_same_updates" => nodes::all_get_the_same_updates,
        "updates_arrive_in_order" => nodes::updates_arrive_in_order,
        "no_update_is_missing_after_a_join" => nodes::no_update_is_missing_after_a_join,
        "updates_arrive_in_order_after_a_join" => nodes::updates_arrive_in_order_after_a_join,
        _ => anyhow::bail!("there is no function {name}"),
    };
    run(server)
}

/// Names of the cases about the operations that every client needs.
pub(crate) const SMOKE: [&str; 12] = [
    "Engine.IO 4, handshake: a WebSocket has sid, intervals and maxPayload",
    "Engine.IO 4, handshake: polling offers the upgrade to websocket",
    "Engine.IO 4, upgrade: a connected client keeps its id and its room",
    "Socket.IO 5, ack: the id 4294967295 is returned",
    "presence, join: the answer has the snapshot, self and seq",
    "presence, join: the joiner gets its own join, with the seq of the answer",
    "presence, join: the members of the room get the event, once",
    "presence, join: over polling as over a WebSocket",
    "presence, heartbeat: a new key is added, and update has the whole state",
    "presence, heartbeat: no patch changes nothing and publishes nothing",
    "presence, leave: the others get it, with state null and reason leave; the leaver does not",
    "presence, leave: the end of the TCP connection is a leave with reason disconnect",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_that_begins_with_its_source() {
        let cases = all();
        assert!(cases.len() >= 430, "{} cases", cases.len());
        let mut names = BTreeSet::new();
        for case in &cases {
            let name = &case.name;
            assert!(names.insert(name.clone()), "{name} is there twice");
            let (source, rest) = name.split_once(": ").unwrap_or_default();
            assert!(!rest.is_empty(), "{name} has no `source: rule`");
            let known = [
                "Engine.IO 4, ",
                "Fetch, ",
                "RFC 6455, ",
                "Socket.IO 5, ",
                "presence, ",
            ];
            let is_known = known.iter().any(|known| source.starts_with(known));
            assert!(is_known, "{name} names no source");
            assert!(!name.contains(['#', '\\', '\n']), "{name}");
        }
    }

    #[test]
    fn every_smoke_case_is_a_case_that_any_server_can_run() {
        let cases = all();
        let is_usual = |case: &Case| case.setup.name == "usual";
        let is_case = |name: &&str| {
            cases
                .iter()
                .any(|case| case.name == **name && is_usual(case))
        };
        assert!(SMOKE.iter().all(is_case));
    }
}
