//! Each lie of a server is found, under its own name.

use crate::scenarios::CONTRADICTIONS;
use crate::server::{Lie, Server, call};

const SMALL: [&str; 4] = ["--agents", "2", "--ops", "20"];

#[track_caller]
fn found(lie: Lie, scenario: &str, counted: &[&str], failed: &[&str]) {
    let server = Server::start(Some(lie));
    // On a busy machine true answers take long too.
    let timeout = if matches!(lie, Lie::Silence) {
        "500ms"
    } else {
        "60s"
    };
    let arguments = [&SMALL[..], &["--scenario", scenario, "--timeout", timeout]].concat();
    let run = call(&server.socket(), &arguments).run();
    let result = &run.result;
    for (name, _) in CONTRADICTIONS {
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
fn a_wrong_read_is_found() {
    const SHARED: [&str; 2] = ["not_linearizable", "OutOfOrder"];
    for (lie, [counted, warned], absent, text) in [
        (
            Lie::Stale,
            SHARED,
            &[][..],
            "not linearizable: the assignee of",
        ),
        (
            Lie::NothingReady,
            SHARED,
            &[],
            "not linearizable: membership in ready",
        ),
        (
            Lie::ForeignInList,
            ["foreign_listed", "CountsDisagree"],
            &["not_linearizable"],
            "",
        ),
        (
            Lie::MissingInList,
            ["unlisted", "CountsDisagree"],
            &["not_linearizable", "foreign_listed"],
            "",
        ),
    ] {
        let server = Server::start(Some(lie));
        let scenario = ["--scenario", "mixed-operations", "--shared-issues", "1"];
        let arguments = [&scenario[..], &["--agents", "2", "--ops", "300"]].concat();
        let run = call(&server.socket(), &arguments).run();
        assert!(run.result.count(counted) > 0, "{lie:?}: {}", run.stdout);
        for name in absent {
            assert_eq!(run.result.count(name), 0, "{lie:?}: {}", run.stdout);
        }
        let warnings = run.result.warned();
        assert!(warnings.contains(&warned), "{lie:?}: {warnings:?}");
        assert!(run.stderr.contains(text), "{lie:?}: {}", run.stderr);
    }
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
