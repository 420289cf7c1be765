//! Loads of three hosts on a daemon of a fourth, over a network that delays and loses packets.

use harness_testing::divided::DividedRun;
use harness_testing::hosts::Hosts;
use harness_testing::program::{beside, words};
use harness_testing::result::ResultFile;

use crate::streaming::root;
use crate::support::has_three_shards;

/// Runs a load of three shards on hosts 1 to 3, with the daemon on host 0; returns the run and the merged result.
fn run(driver: &str, daemon: &str, load: &str) -> Option<(DividedRun, ResultFile, String)> {
    let [program] = beside(env!("CARGO_BIN_EXE_drover"), [driver])?;
    let hosts = Hosts::create(4)?;
    let mut run = DividedRun::new(&program);
    let listen = hosts.address(0).to_string();
    for host in 0..4_u8 {
        let shard = format!("{}/3", host.saturating_sub(1));
        let own = match host {
            0 => format!("--role daemon --listen {listen}"),
            _ => format!("--role load --shard {shard}"),
        };
        let part = run.part(&words(&format!("{own} {load}")));
        let mut command = hosts.command(host, part.get_program());
        command.args(part.get_args()).current_dir(root());
        command.args(["--daemon", daemon, "--threads", "1"]);
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::piped());
        run.start_command(command);
    }
    run.wait_for_results();
    let lost: u64 = (0..4).map(|host| hosts.lost_packets(host)).sum();
    // Few packets may all arrive.
    let sent = run.shard(0).operations("started");
    assert!(lost > 0 || sent < 300, "the network was to lose packets");
    let (merged, _, report) = run.merge();
    Some((run, merged, report))
}

#[track_caller]
fn is_the_sum(run: &DividedRun, merged: &ResultFile, report: &str) {
    assert!(report.contains("3 shards on 3 machines"), "{report}");
    let shards = [0, 1, 2].map(|index| run.shard(index));
    for name in ["started", "ok", "failed", "unfinished", "missed"] {
        let sum: u64 = shards.iter().map(|shard| shard.operations(name)).sum();
        assert_eq!(merged.operations(name), sum, "{name}");
    }
    for series in merged["series"].as_array().unwrap() {
        let name = series["name"].as_str().unwrap();
        let sum: u64 = shards.iter().map(|shard| shard.values(name)).sum();
        assert_eq!(merged.values(name), sum, "{name}");
    }
    has_three_shards(merged);
    assert!(merged["usage"]["daemon"]["rss_peak_kb"].as_u64().unwrap() > 0);
    let machines = merged["shards"].as_array().unwrap().iter();
    let machines: Vec<&str> = machines
        .map(|shard| shard["machine"]["hostname"].as_str().unwrap())
        .collect();
    assert_eq!(machines, ["host-1", "host-2", "host-3"]);
}

#[test]
fn an_http_load_of_three_hosts_is_the_sum_of_their_shares() {
    let load = "-R 300 -c 12 -d 4s";
    let Some((run, merged, report)) = run("http-load", "http-daemon", load) else {
        return;
    };
    is_the_sum(&run, &merged, &report);
    let due = merged.operations("started") + merged.operations("missed");
    assert_eq!(due, 1_200, "{report}");
    // A request and its answer take 1 ms each.
    assert!(merged.ms("response", "min_ns") >= 2.0, "{report}");
}

#[test]
fn messages_between_three_hosts_are_in_one_ledger() {
    let load = "--producers 3 --consumers 3 --rate 300 --confirm 100 --prefetch 20 --duration 4s";
    let Some((run, merged, report)) = run("amqp-perftest", "broker-daemon", load) else {
        return;
    };
    is_the_sum(&run, &merged, &report);
    let started = merged.operations("started");
    assert_eq!(started + merged.operations("missed"), 1_200, "{report}");
    assert_eq!(merged.operations("ok"), started, "{}", merged["errors"]);
    merged.counts(&[("lost", 0), ("duplicated", 0), ("out_of_order", 0)]);
    // A latency between two hosts is as exact as their clocks.
    let warnings = merged["warnings"].as_array().unwrap().iter();
    let messages: Vec<&str> = warnings
        .filter_map(|warning| warning["message"].as_str())
        .collect();
    assert!(
        messages
            .iter()
            .any(|message| message.starts_with("end_to_end was measured between")),
        "{messages:?}"
    );
}

#[test]
fn rooms_of_three_hosts_are_audited_whole_over_a_network_that_loses_packets() {
    let load = "--rooms 6 --users-per-room 2 --ramp-up 500ms --heartbeats-per-sec 2 -d 4s";
    let Some((run, merged, report)) = run("presence-load", "presence-daemon", load) else {
        return;
    };
    is_the_sum(&run, &merged, &report);
    // TCP sends again what was lost.
    assert_eq!(merged.operations("failed"), 0, "{}", merged["errors"]);
}
