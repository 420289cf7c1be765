//! The cases, in the order in which they are listed.

use std::cell::RefCell;

// The modules below import these with `super::*`.
use anyhow::{bail, ensure};
use serde_json::{Value, json};

use crate::case::{Case, Named};
use crate::expect::*;
use crate::http;
use crate::member::{Member, entry, present};
use crate::polling::{Polling, SEPARATOR};
use crate::script;
use crate::server::{LIMIT, Server, Stopwatch};
use crate::setup::Setup;
use crate::socket::Socket;
use crate::transport::Transport;
use crate::websocket::{Received, WebSocket};

mod events;
mod expiry;
mod joins;
mod nodes;
mod sessions;

/// A function that begins a case of this name at the end of the list.
type Begin<'a> = &'a dyn Fn(&str) -> Named<'a>;

/// The name and the text of a script.
macro_rules! script {
    ($area:literal) => {
        (
            concat!($area, ".txt"),
            include_str!(concat!("cases/", $area, ".txt")),
        )
    };
}

/// A script, and a function that adds the cases of the same area that have loops or timings.
type Area = ((&'static str, &'static str), fn(Begin<'_>));

const AREAS: [Area; 19] = [
    (script!("handshake"), |_| {}),
    (script!("sessions"), sessions::cases),
    (script!("upgrades"), |_| {}),
    (script!("cors"), |_| {}),
    (script!("pings"), |_| {}),
    (script!("frames"), |_| {}),
    (script!("namespaces"), |_| {}),
    (script!("acknowledgements"), |_| {}),
    (script!("malformed"), |_| {}),
    (script!("echo"), |_| {}),
    (script!("joins"), joins::cases),
    (script!("arguments"), |_| {}),
    (script!("heartbeats"), |_| {}),
    (script!("events"), events::cases),
    (script!("expiry"), expiry::cases),
    (script!("resumption"), |_| {}),
    (script!("limits"), |_| {}),
    (script!("compatibility"), |_| {}),
    (script!("nodes"), nodes::cases),
];

/// Returns all cases.
pub(crate) fn all() -> Vec<Case> {
    let list = RefCell::default();
    let case = |name: &str| Named {
        name: name.to_owned(),
        setup: Setup::Usual,
        list: &list,
    };
    for (script, add) in AREAS {
        list.borrow_mut().extend(script::cases(script));
        add(&case);
    }
    list.into_inner()
}

/// Names of the cases about the operations that every client needs.
const SMOKE: [&str; 12] = [
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

/// Returns the cases of [`SMOKE`].
pub(crate) fn smoke() -> Vec<Case> {
    let is_smoke = |case: &Case| SMOKE.contains(&case.name.as_str());
    all().into_iter().filter(is_smoke).collect()
}

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
        let found = smoke();
        assert_eq!(found.len(), SMOKE.len());
        assert!(found.iter().all(|case| case.setup == Setup::Usual));
    }
}
