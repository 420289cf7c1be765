//! Calls that are refused before a run.

use harness_testing::program::Program;
use issue_rpc::{Call, Direct};
use issue_store::Options;
use serde_json::json;

use crate::server::{Server, call};

fn program(arguments: &str) -> Program {
    Program::new(env!("CARGO_BIN_EXE_issue-stress")).call(arguments)
}

#[test]
fn a_database_of_others_is_left_alone() {
    let server = Server::start(None);
    let mut direct = Direct::open(&server.database(), Options::default()).unwrap();
    let create = Call::new("create", json!({"title": "Fix the door"}));
    direct.perform(&create, "ann", None).unwrap();
    call(&server.socket(), "--ops 1").refused(
        2,
        &[
            "has 1 issues that issue-stress has not created",
            "--existing-database",
        ],
    );
    let run = call(&server.socket(), "--ops 1 --existing-database").run();
    run.result
        .counts(&[("created", 8), ("lost", 0), ("wrong_counts", 0)]);
}

#[test]
fn a_wrong_call_names_the_field_and_the_remedy() {
    let server = Server::start(None);
    for (arguments, words) in [
        ("--agents 0", &["clients", "at least 1"][..]),
        ("--limit 0", &["driver.limit (--limit)", "between 1 and"]),
        (
            "--timeout 0s",
            &["driver.timeout (--timeout)", "such as 30s"],
        ),
        ("--batch-size 0", &["driver.batch_size (--batch-size)"]),
        ("--agents 200000", &["100000"]),
        ("--scenario sleep", &["possible values: concurrent-agents"]),
    ] {
        call(&server.socket(), arguments).refused(2, words);
    }
    program("/nowhere/issues.sock").refused(2, &["/nowhere/issues.sock"]);
    program("mysql:/run/x").refused(2, &["unknown scheme", "postgresql:SOCKET"]);
    program("redis:/nowhere/redis.sock --scenario list").refused(2, &["needs an issue daemon"]);
}
