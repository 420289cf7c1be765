//! The conformance cases: the project's servers pass them, and a server with one wrong answer fails the corresponding
//! case.

use clap::Parser;
use harness::failure::Failure;
use harness::launcher::Launcher;
use harness::verify::conformance::{Finished, Source};
use harness_testing::program::words;
use harness_testing::{assert_contains, daemons, peer, rows};
use presence_conformance::{ConformanceArgs, finish, run, smoke};
use serde_json::Value;
use subject::daemon::Prepared;

fn prepared(name: &str) -> Option<Prepared> {
    daemons::prepared(name, "presence")
}

/// Returns the cases with this outcome, each with its name and its detail.
fn with_outcome(finished: &[Finished], outcome: &str) -> Vec<String> {
    let cases = finished
        .iter()
        .map(|case| serde_json::to_value(case).unwrap());
    let cases = cases.filter(|case| case["outcome"] == outcome);
    cases
        .map(|case: Value| format!("{}: {}", case["name"], case["detail"]))
        .collect()
}

/// Asserts that a server fails none of the cases whose names contain these words. Returns the cases.
fn passes(name: &str, words: &str) -> Option<Vec<Finished>> {
    let finished = finish(&Source::Launched(&prepared(name)?), words).unwrap();
    let failed = with_outcome(&finished, "failed");
    let all = finished.len();
    assert!(failed.is_empty(), "of {all}:\n{}", failed.join("\n"));
    Some(finished)
}

/// The beginning of the names of the cases that need two nodes with one Redis.
const NODES: &str = "presence, nodes: ";

#[test]
fn our_server_passes_every_case_and_skips_only_those_that_need_redis() {
    let Some(finished) = passes("presence-daemon", "") else {
        return;
    };
    let mut skipped = with_outcome(&finished, "skipped");
    skipped.retain(|case| !case.contains(NODES));
    assert!(skipped.is_empty(), "{}", skipped.join("\n"));
}

#[test]
fn our_server_over_redis_passes_every_case_about_two_nodes_and_skips_none() {
    if let Some(finished) = passes("presence-redis", NODES) {
        assert!(finished.len() >= 18, "{} cases", finished.len());
        let skipped = with_outcome(&finished, "skipped");
        assert!(skipped.is_empty(), "{}", skipped.join("\n"));
    }
}

/// The adapter of npm's Socket.IO delivers an event to the members on its own node at once and to others over Redis, so
/// events of two nodes may arrive in another order than their numbers. Its server adds a client to the room after
/// Redis has answered, so a client may miss an event that another node publishes in between.
#[test]
fn the_node_server_passes_every_case_about_two_nodes_but_those_that_its_adapter_fails() {
    let Some(prepared) = prepared("node-presence-redis") else {
        return;
    };
    let finished = finish(&Source::Launched(&prepared), NODES).unwrap();
    let mut failed = with_outcome(&finished, "failed");
    let is_known = |case: &String| {
        let known = ["arrive in the order of seq", "a join during updates"];
        known.iter().any(|words| case.contains(words))
    };
    failed.retain(|case| !is_known(case));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(with_outcome(&finished, "passed").len() >= 16);
}

#[test]
fn the_server_on_npm_s_socket_io_passes_every_case_about_what_it_has() {
    let Some(finished) = passes("node-presence", "") else {
        return;
    };
    // It has no compatibility mode, no echo mode and no tokens.
    assert!(with_outcome(&finished, "passed").len() > 300);
}

/// python-engineio ignores malformed packets instead of ending the connection, so its transport is not tested here.
#[test]
fn the_server_on_python_socketio_passes_every_case_about_presence() {
    let Some(finished) = passes("python-presence", "presence, ") else {
        return;
    };
    assert!(with_outcome(&finished, "passed").len() > 100);
}

/// A row has a case, bytes of the server, others to send instead, and words of the expected failure.
const WRONG: &str = r#"
    Engine.IO 4, handshake: polling offers the upgrade to websocket => ["websocket"] -> ["websockex"] … websockex
    Engine.IO 4, handshake: a GET with EIO=3 is 400 => HTTP/1.1 400 -> HTTP/1.1 404 … status 404
    Engine.IO 4, polling: a POST is answered with ok, and its packet with the next GET => \r\n\r\nok -> \r\n\r\nno … expected ok
    Engine.IO 4, upgrade: the probe is answered, the open GET ends with a noop, packets follow => 3probe -> 3prabe … 3prabe
    RFC 6455, 5.5.2: a ping is answered with its payload => \x8a\x01x -> \x8a\x01y … got pong:y
    RFC 6455, 5.5.1: close code 3000 is echoed => \x88\x02\x0b\xb8 -> \x88\x02\x0b\xb9 … got end 3001
    Socket.IO 5, ack: the id 10 is returned => 4310[ -> 4311[ … expected 4310[{"ok":true}], got 4311[
    Socket.IO 5, connect: an unknown namespace is refused with a message, and / is not => 44/nonesuch -> 40/nonesuch … expected 44/nonesuch,
    presence, join: the joiner gets its own join, with the seq of the answer => "type":"join" -> "type":"jorn" … /type is not "join"
    presence, join: the answer has the snapshot, self and seq => "seq":1 -> "seq":2 … /seq is not 1
    presence, heartbeat: null without a join is not_joined => not_joined -> not_jained … /code is not "not_joined"
    presence, heartbeat: a lower epoch is stale_epoch and has no effect => stale_epoch -> state_epoch … /code is not
    presence, heartbeat: an equal value changes nothing and publishes nothing => "changed":false -> "changed": true … /changed is not
    presence, leave: a TCP reset is a leave with reason disconnect => "reason":"disconnect" -> "reason":"diskonnect" … /reason is not
"#;

/// Returns the URL of a proxy to the server at this port.
fn proxy(port: u16, from: &str, to: &str) -> String {
    format!("http://{}", peer::proxy(port, from, to))
}

#[test]
fn one_wrong_answer_fails_the_case_about_it_and_the_right_one_does_not() {
    let Some(prepared) = prepared("presence-daemon").or_else(|| prepared("node-presence")) else {
        return;
    };
    let launcher = Launcher::new().unwrap();
    let daemon = launcher.start(&prepared, &[]).unwrap();
    let port = daemon.endpoint().port.unwrap();
    for (case, parts) in rows(WRONG) {
        let (from, to) = parts[0].split_once(" -> ").unwrap();
        let right = proxy(port, from, from);
        let finished = finish(&Source::Running(right), case).unwrap();
        assert_eq!(finished.len(), 1, "{case}");
        assert_eq!(with_outcome(&finished, "passed").len(), 1, "{finished:?}");
        let wrong = proxy(port, from, to);
        let finished = finish(&Source::Running(wrong), case).unwrap();
        let failed = with_outcome(&finished, "failed").join("\n");
        let escaped = parts[1].replace('"', "\\\"");
        assert!(
            failed.contains(&escaped),
            "{escaped} is not in: {failed:?} of {case}"
        );
    }
    launcher.stop(daemon);
}

#[test]
fn a_server_that_closes_connections_or_is_not_there_fails_every_case() {
    let closing = proxy(1, "a", "a");
    for url in [closing, "http://127.0.0.1:1".to_owned()] {
        let finished = finish(&Source::Running(url.clone()), "presence, heartbeat").unwrap();
        assert!(finished.len() > 20);
        assert_eq!(with_outcome(&finished, "failed").len(), finished.len());
        let error = smoke(&url).unwrap_err().to_string();
        assert!(error.contains("does not serve a new client"), "{error}");
    }
}

/// The command line of a driver.
#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    conformance: ConformanceArgs,
}

#[test]
fn two_servers_that_share_no_rooms_are_no_two_nodes() {
    let Some(prepared) = prepared("presence-daemon") else {
        return;
    };
    let launcher = Launcher::new().unwrap();
    let daemons = launcher.start_nodes(&prepared, 2, &[]).unwrap();
    let urls = daemons.iter().map(|daemon| daemon.endpoint().url.clone());
    let urls: Vec<String> = urls.map(Option::unwrap).collect();
    let is_passed = |second: &String| {
        let only = "presence, nodes: a snapshot has the members of the other node";
        let typed = ["conformance", &urls[0], "--url", second];
        let typed = Cli::try_parse_from(typed.into_iter().chain(["--only", only])).unwrap();
        run(&typed.conformance).unwrap()
    };
    assert!(!is_passed(&urls[1]));
    // One server is two nodes that share everything.
    assert!(is_passed(&urls[0]));
    for daemon in daemons {
        launcher.stop(daemon);
    }
}

#[test]
fn a_call_that_cannot_be_right_is_refused_with_option_and_remedy() {
    let parse = |call: &str| Cli::try_parse_from(words(&format!("conformance {call}")));
    for (call, parts) in rows(
        "
            => --daemon
            --daemon nonesuch => nonesuch … known daemons
            --url 127.0.0.1:3000 => --url … http://127.0.0.1:3000
            --url https://localhost => --url … TLS
            http://127.0.0.1:1 http://127.0.0.1:1 --url http://127.0.0.1:1 => --url … twice
            --url http://127.0.0.1:1 --only xyz => --only xyz … presence, join
        ",
    ) {
        let Err(Failure::Call(error)) = run(&parse(call).unwrap().conformance) else {
            panic!("{call} is accepted");
        };
        assert_contains(&format!("{error:#}"), &parts);
    }
    assert!(parse("--daemon a --url http://127.0.0.1:1").is_err());
}
