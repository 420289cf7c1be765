//! Each lie of a server is found, under its own name.

use crate::scenarios::CONTRADICTIONS;
use crate::server::{Lie, Server, call};

const SMALL: &str = "--agents 2 --ops 20";

#[track_caller]
fn found(lie: Lie, scenario: &str, counted: &[&str], failed: &[&str]) {
    let server = Server::start(Some(lie));
    // On a busy machine true answers take long too.
    let timeout = if matches!(lie, Lie::Silence) {
        "500ms"
    } else {
        "60s"
    };
    let arguments = format!("{SMALL} --scenario {scenario} --timeout {timeout}");
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
fn each_lie_is_found_under_its_own_name() {
    let cases = [
        (Lie::Lost, "concurrent-agents", &["lost"][..], &[][..]),
        (Lie::Phantom, "concurrent-agents", &["phantom"], &["busy"]),
        (Lie::Twice, "unique-ids", &["duplicated", "phantom"], &[]),
        (
            Lie::SameId,
            "unique-ids",
            &["duplicate_ids", "lost", "phantom"],
            &[],
        ),
        (
            Lie::PartialBatch,
            "batch-operations",
            &["phantom", "partial_batches"],
            &[],
        ),
        (Lie::Success, "batch-operations", &[], &["wrong_answer"]),
        (Lie::Count, "concurrent-agents", &["wrong_counts"], &[]),
        (Lie::Foreign, "concurrent-agents", &[], &["foreign_answer"]),
        (Lie::Doubled, "concurrent-agents", &[], &["foreign_answer"]),
        (Lie::Garbage, "concurrent-agents", &[], &["malformed"]),
        (Lie::Silence, "concurrent-agents", &[], &["timeout"]),
        (Lie::Close, "concurrent-agents", &[], &["connection_lost"]),
        (Lie::Late, "timeouts", &["phantom"], &["wrong_answer"]),
        (Lie::Title, "concurrent-agents", &["altered"], &[]),
        (Lie::Description, "concurrent-agents", &["altered"], &[]),
        (Lie::Label, "concurrent-agents", &["altered"], &[]),
    ];
    std::thread::scope(|scope| {
        for (lie, scenario, counted, failed) in cases {
            scope.spawn(move || found(lie, scenario, counted, failed));
        }
    });
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
        let scenario = "--scenario mixed-operations --shared-issues 1";
        let arguments = format!("{scenario} --agents 2 --ops 300");
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
fn an_issue_that_is_given_to_two_agents_is_found() {
    let server = Server::start(Some(Lie::Claimed));
    let arguments = "--scenario polling-agents --agents 4 --set driver.limit=1 --set driver.batch_size=2 --duration 2s";
    let run = call(&server.socket(), arguments).run();
    assert!(run.result.count("not_linearizable") >= 1, "{}", run.stdout);
    assert!(
        run.stderr.contains("not linearizable: the claim of"),
        "{}",
        run.stderr
    );
}
