//! Runs whose messages begin in one process and end in another.

use std::process::Command;

use harness_testing::divided::DividedRun;
use harness_testing::processes::{send, wait_until};
use harness_testing::program::{ended_with, words};
use harness_testing::result::ResultFile;
use nix::sys::signal::Signal;
use null_broker::{Fault, NullBroker, Script};

use super::{nothing_failed, run};
use crate::support::{PROGRAM, wall_s};

/// 900 messages of 3 producers to 3 consumers, which get one at a time, so that copies go to several of them. If the
/// broker confirms what is consumed, at most 30 messages are left for the drain time, however slow the machine is.
const LOAD: &str =
    "--producers 3 --consumers 3 --pmessages 300 --confirm 10 --prefetch 1 --threads 1";

/// Returns a broker that loses two messages, delivers one twice, and two marked as redelivered: one of these never came
/// before.
fn dishonest() -> Script {
    Script {
        confirms_consumed: true,
        ..Script::with_faults([
            (50, Fault::Drop),
            (51, Fault::Drop),
            (120, Fault::Duplicate),
            (200, Fault::Redeliver),
            (300, Fault::Mark),
        ])
    }
}

/// Checks the result of the load at the dishonest broker.
#[track_caller]
fn finds_all(result: &ResultFile) {
    result.adds_up();
    assert_eq!(result.operations("started"), 900);
    assert_eq!(result.operations("ok"), 898, "{}", result["errors"]);
    assert_eq!(result.operations("unfinished"), 0);
    assert_eq!(result.error("lost"), 2);
    result.counts(&[
        ("lost", 2),
        ("duplicated", 1),
        ("redelivered", 2),
        ("redelivered_after_ack", 1),
        ("published", 900),
        ("consumed", 900),
    ]);
    // The duplicate may have been the first arrival of its message in another process.
    let latencies = result.values("end_to_end");
    assert!((898..=899).contains(&latencies), "{latencies}");
}

/// Starts three shards of a load, with further arguments, and returns them.
fn three(broker: &NullBroker, load: &str) -> DividedRun {
    let mut run = DividedRun::new(PROGRAM);
    let target = format!("--engine {} --uri {}", super::ENGINE, broker.uri());
    run.start_shards(3, &words(&format!("{target} {load}")));
    run
}

#[test]
fn ledgers_of_three_shards_find_what_was_lost_or_came_twice() {
    let broker = NullBroker::start(dishonest()).unwrap();
    let mut run = three(&broker, &format!("{LOAD} --duration 5min --drain 3s"));
    run.wait_for_results();
    let (merged, code, report) = run.merge();
    assert!(code == 1 || code == 3, "{report}");
    finds_all(&merged);
    // The drain time runs from the last message, not from the end of the planned five minutes.
    assert!(wall_s(&merged) < 150.0, "{}", wall_s(&merged));
    let sum = |name: &str| -> u64 { (0..3).map(|index| run.shard(index).count(name)).sum() };
    assert_eq!(sum("published"), 900);
    assert_eq!(sum("lost"), 0, "no shard knows it alone");
    let ledgers = |index: u64| {
        let path = run.folder().join(format!("shard-{index}/ledgers.jsonl"));
        std::fs::read_to_string(path).unwrap()
    };
    let cleaned = (0..3).filter(|index| ledgers(*index).contains("queues"));
    assert_eq!(cleaned.count(), 1, "the last shard cleans up");
    // As if it had been copied in part.
    let half = &ledgers(1)[..100];
    std::fs::write(run.folder().join("shard-1/ledgers.jsonl"), half).unwrap();
    let (merged, code, report) = run.merge();
    let missing = merged.warning("ShardsMissing").unwrap()["message"].to_string();
    let words = "shard-1/ledgers.jsonl was cut or changed";
    assert!(code == 3 && missing.contains(words), "{report}");
    assert_eq!(merged.count("lost"), 0, "no ledger of shard 1 is known");
}

#[test]
fn ledgers_of_three_processes_find_what_was_lost_or_came_twice() {
    let (code, result) = run(dishonest(), &format!("{LOAD} --processes 3 --drain 3s"));
    assert!(code == 1 || code == 3, "{code}");
    finds_all(&result);
    assert_eq!(result["processes"], 3);
}

#[test]
fn a_run_ends_when_all_shards_together_have_nothing_left() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let mut run = three(&broker, &format!("{LOAD} --duration 10min --drain 10min"));
    run.wait_for_results();
    let (merged, code, report) = run.merge();
    nothing_failed(code, &merged);
    assert_eq!(merged.operations("ok"), 900, "{report}");
    assert_eq!(merged.values("end_to_end"), 900);
    assert!(wall_s(&merged) < 300.0, "{}", wall_s(&merged));
    assert!(merged.warning("CountsDisagree").is_none(), "{report}");
    let rows = merged["seconds"].as_array().unwrap().iter();
    assert_eq!(rows.clone().next_back().unwrap()["active"], 0, "{report}");
    let ok = rows.filter_map(|row| row["counts"]["ok"].as_u64());
    assert_eq!(ok.sum::<u64>(), 900);
}

#[test]
fn a_shard_that_only_publishes_leaves_first() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let mut run = DividedRun::new(PROGRAM);
    let load = format!(
        "--engine {} --uri {} --producers 1 --consumers 1 --pmessages 500 --drain 10min",
        super::ENGINE,
        broker.uri()
    );
    run.start_shards(2, &words(&load));
    run.wait_for_results();
    let (merged, code, report) = run.merge();
    nothing_failed(code, &merged);
    assert_eq!(merged.operations("ok"), 500, "{report}");
    assert_eq!(run.shard(0).operations("ok"), 0, "{report}");
    assert_eq!(run.shard(1).operations("started"), 0, "{report}");
    assert!(wall_s(&merged) < 300.0, "{}", wall_s(&merged));
}

#[test]
fn processes_divide_every_kind_of_load() {
    let loads: [(&str, u64); 3] = [
        ("--consumers 0 --confirm 10", 400),
        ("--consumers 0", 400),
        ("--consumers 2 --auto-ack", 400),
    ];
    for (load, expected) in loads {
        let (code, result) = run(
            Script::default(),
            &format!("--producers 4 --pmessages 100 --processes 2 {load}"),
        );
        nothing_failed(code, &result);
        assert_eq!(result.operations("ok"), expected, "{load:?}");
    }
}

#[test]
fn processes_divide_churn() {
    if super::ENGINE == "lapin" {
        return;
    }
    let (code, result) = run(
        Script::default(),
        "--churn channel --producers 5 --pmessages 40 --processes 2",
    );
    nothing_failed(code, &result);
    assert_eq!(result.operations("ok"), 200);
}

#[test]
fn a_message_is_lost_only_if_no_shard_is_missing() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let load = "--producers 3 --consumers 3 --queue-pattern q-%d --queue-pattern-to 3 --rate 300 --duration 4s --drain 1s --threads 1";
    let mut run = three(&broker, load);
    let live = run.folder().join("shard-0/live.jsonl");
    wait_until("a second has passed", || {
        std::fs::metadata(&live).is_ok_and(|file| file.len() > 0)
    });
    // It consumes what shard 2 publishes.
    send(run.process(0), Signal::SIGKILL);
    run.wait();
    let (merged, code, report) = run.merge();
    assert_eq!(code, 3, "{report}");
    assert!(merged.warning("ShardsMissing").is_some(), "{report}");
    merged.adds_up();
    // What the killed shard consumed is in nobody's ledger.
    assert_eq!(merged.count("lost"), 0, "{}", merged["errors"]);
    assert!(merged.operations("unfinished") > 0, "{report}");
}

#[test]
fn a_division_that_cannot_be_is_refused_with_the_remedy() {
    let refused = |load: &str, parts: &[&str]| {
        let broker = NullBroker::start(Script::default()).unwrap();
        let run = DividedRun::new(PROGRAM);
        let target = format!("--engine {} --uri {}", super::ENGINE, broker.uri());
        let mut part = run.part(&words(&format!("--shard 0/3 {target} {load}")));
        let output = part.output().unwrap();
        ended_with(&output, 2, parts, &part);
    };
    refused(
        "--producers 20 --consumers 1",
        &["--producers 20", "3 shards", "a multiple of 3"],
    );
    let run = DividedRun::new(PROGRAM);
    let own = "--shard 0/2 --role both --daemon null-broker";
    let mut part = run.part(&words(own));
    let output = part.output().unwrap();
    ended_with(&output, 2, &["--role both", "--role daemon"], &part);
}

#[test]
fn ports_are_judged_for_the_share() {
    if !nix::unistd::geteuid().is_root() {
        return harness_testing::skip("root, to change the ports of a network namespace");
    }
    let with = |shard: &str, code: i32, parts: &[&str]| {
        let run = DividedRun::new(PROGRAM);
        let target = format!("--engine {} --uri amqp://127.0.0.1:1/", super::ENGINE);
        let part = run.part(&words(&format!(
            "--shard {shard} {target} --producers 300 --consumers 300 --rate 10"
        )));
        let mut inside = Command::new("unshare");
        let ports = "echo 40000 40399 > /proc/sys/net/ipv4/ip_local_port_range";
        let inner = format!("ip link set lo up && {ports} && exec \"$@\"");
        inside.args(["--net", "sh", "-c", &inner, "sh"]);
        inside.arg(part.get_program()).args(part.get_args());
        let output = inside.output().unwrap();
        ended_with(&output, code, parts, &inside);
    };
    with("0/1", 5, &["need 600 local ports"]);
    // A third of the connections fits, and then there is no broker.
    with("0/3", 2, &["no process listens"]);
}
