//! Each lie of a server is found, under its own name.

use crate::server::{Lie, Server, call};

const SMALL: [&str; 4] = ["--agents", "2", "--ops", "20"];

#[track_caller]
fn found(lie: Lie, scenario: &str, counted: &[&str], failed: &[&str]) {
    let server = Server::start(Some(lie));
    let arguments = [&SMALL[..], &["--scenario", scenario, "--timeout", "500ms"]].concat();
    let run = call(&server.socket(), &arguments).run();
    let result = &run.result;
    for name in [
        "lost",
        "phantom",
        "duplicated",
        "duplicate_ids",
        "partial_batches",
        "wrong_counts",
        "not_linearizable",
        "altered",
        "foreign_listed",
        "unlisted",
    ] {
        let number = result.count(name);
        assert_eq!(
            number > 0,
            counted.contains(&name),
            "{lie:?}: {name} is {number}: {}",
            run.stdout
        );
    }
    assert_eq!(result.error_kinds(), failed, "{lie:?}");
    assert!(run.code != 0, "{lie:?}: {}", run.stdout);
    result.adds_up();
}

#[test]
fn a_lost_issue_is_found() {
    found(Lie::Lost, "concurrent-agents", &["lost"], &[]);
}

#[test]
fn an_issue_that_was_refused_and_stored_is_found() {
    found(Lie::Phantom, "concurrent-agents", &["phantom"], &["busy"]);
}

#[test]
fn an_issue_that_was_created_twice_is_found() {
    found(Lie::Twice, "unique-ids", &["duplicated", "phantom"], &[]);
}

#[test]
fn an_id_that_was_given_twice_is_found() {
    found(
        Lie::SameId,
        "unique-ids",
        &["duplicate_ids", "lost", "phantom"],
        &[],
    );
}

#[test]
fn a_part_of_an_atomic_batch_is_found() {
    found(
        Lie::PartialBatch,
        "batch-operations",
        &["phantom", "partial_batches"],
        &[],
    );
}

#[test]
fn a_batch_that_succeeds_though_it_must_fail_is_found() {
    found(Lie::Success, "batch-operations", &[], &["wrong_answer"]);
}

#[test]
fn a_count_that_differs_from_the_rows_is_found() {
    found(Lie::Count, "concurrent-agents", &["wrong_counts"], &[]);
}

#[test]
fn an_answer_to_another_request_is_found() {
    found(Lie::Foreign, "concurrent-agents", &[], &["foreign_answer"]);
    found(Lie::Doubled, "concurrent-agents", &[], &["foreign_answer"]);
}

#[test]
fn an_answer_that_is_none_is_found() {
    found(Lie::Garbage, "concurrent-agents", &[], &["malformed"]);
    found(Lie::Silence, "concurrent-agents", &[], &["timeout"]);
    found(Lie::Close, "concurrent-agents", &[], &["connection_lost"]);
}

#[test]
fn a_stale_read_is_found() {
    let server = Server::start(Some(Lie::Stale));
    let arguments = [
        "--scenario",
        "mixed-operations",
        "--agents",
        "2",
        "--ops",
        "300",
        "--shared-issues",
        "1",
    ];
    let run = call(&server.socket(), &arguments).run();
    assert_eq!(run.result.count("not_linearizable"), 1, "{}", run.stdout);
    assert!(
        run.stderr.contains("not linearizable: the assignee of"),
        "{}",
        run.stderr
    );
    assert!(
        run.result.warned().contains(&"OutOfOrder"),
        "{:?}",
        run.result.warned()
    );
}

#[test]
fn a_ready_issue_that_is_left_out_is_found() {
    let server = Server::start(Some(Lie::NothingReady));
    let arguments = [
        "--scenario",
        "mixed-operations",
        "--agents",
        "2",
        "--ops",
        "300",
    ];
    let run = call(&server.socket(), &arguments).run();
    assert!(run.result.count("not_linearizable") >= 1, "{}", run.stdout);
    assert!(
        run.stderr.contains("not linearizable: membership in ready"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_request_that_is_performed_after_its_deadline_is_found() {
    found(Lie::Late, "timeouts", &["phantom"], &["wrong_answer"]);
}

#[test]
fn an_issue_that_is_stored_otherwise_than_it_was_sent_is_found() {
    found(Lie::Title, "concurrent-agents", &["altered"], &[]);
    found(Lie::Description, "concurrent-agents", &["altered"], &[]);
    found(Lie::Label, "concurrent-agents", &["altered"], &[]);
}

/// Runs mixed operations on a server that lies in lists. Returns the counters of lists.
fn lists_of(lie: Lie) -> [u64; 2] {
    let server = Server::start(Some(lie));
    let scenario = ["--scenario", "mixed-operations"];
    let arguments = [&scenario[..], &["--agents", "2", "--ops", "300"]].concat();
    let run = call(&server.socket(), &arguments).run();
    assert_eq!(run.result.count("not_linearizable"), 0, "{}", run.stdout);
    let warned = run.result.warned();
    assert!(warned.contains(&"CountsDisagree"), "{warned:?}");
    ["foreign_listed", "unlisted"].map(|name| run.result.count(name))
}

#[test]
fn an_issue_in_a_list_that_nobody_created_is_found() {
    let [foreign, _] = lists_of(Lie::ForeignInList);
    assert!(foreign > 0);
}

#[test]
fn an_issue_that_a_list_leaves_out_is_found() {
    let [foreign, unlisted] = lists_of(Lie::MissingInList);
    assert!(foreign == 0 && unlisted > 0, "{foreign} {unlisted}");
}

#[test]
fn an_issue_that_is_given_to_two_agents_is_found() {
    let server = Server::start(Some(Lie::Claimed));
    let arguments = [
        "--scenario",
        "polling-agents",
        "--agents",
        "4",
        "--set",
        "driver.limit=1",
        "--set",
        "driver.batch_size=2",
        "--duration",
        "2s",
    ];
    let run = call(&server.socket(), &arguments).run();
    assert!(run.result.count("not_linearizable") >= 1, "{}", run.stdout);
    assert!(
        run.stderr.contains("not linearizable: the claim of"),
        "{}",
        run.stderr
    );
}
