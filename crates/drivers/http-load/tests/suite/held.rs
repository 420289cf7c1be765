//! Connections that are opened ahead of the load and held.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use harness_testing::result::ResultFile;

use crate::program::{program, run, started_of};
use crate::scripted::{Scripted, Step};
use crate::servers::{ENGINES, OK, answers, url, well};

/// 40 connections, all open after 0.4 s, with 40 requests a second.
const HELD: &str = "--keep-open -c 40 --connect-rate 100 -R 40";

#[test]
fn held_connections_are_held_and_counted_each_second() {
    for engine in ENGINES {
        let server = well();
        let url = url(&server);
        let call = format!("{HELD} --warmup 500ms -d 2s {url} --engine {engine} -t 2");
        let ran = program(&[]).call(&call).run().result;
        started_of(&ran, 80);
        assert_eq!(ran.count("opened"), 40, "{engine}");
        let seconds = ran["seconds"].as_array().unwrap();
        let held: Vec<u64> = seconds
            .iter()
            .map(|second| second["counts"]["held"].as_u64().unwrap_or(0))
            .collect();
        // The last one is opened after 0.4 s. A second during which a thread slept is not reported, so any full second
        // will do.
        assert!(held[1..].contains(&40), "{engine}: {held:?}");
        assert!(held.iter().all(|held| *held <= 40), "{engine}: {held:?}");
        assert_eq!((ran.count("lost"), ran.count("unconnected")), (0, 0));
        assert!(!ran["warnings"].to_string().contains("connections held"));
        assert!(ran.count("warmup") <= 20, "{}", ran.count("warmup"));
        // Each was used, one after the other: the check and 40 connections.
        let peers: BTreeSet<IpAddr> = server.peers().into_iter().collect();
        assert!(peers.contains(&IpAddr::V4(Ipv4Addr::new(127, 64, 0, 1))));
        assert_eq!(server.finish().connections, 42);
    }
}

/// The last of twenty is opened after 0.18 s, long after the end of such a short warm-up.
#[test]
fn the_load_begins_when_all_connections_are_open_however_short_the_warm_up_is() {
    for (engine, processes, threads) in [
        ("wire", "1", "2"),
        ("hyper", "1", "2"),
        ("wire", "2", "1"),
        ("hyper", "2", "1"),
    ] {
        let server = well();
        let hold = ["--keep-open", "-c", "20", "--connect-rate", "100"];
        let load = ["-R", "80", "--warmup", "50ms", "-d", "500ms"];
        let (share, engine) = (
            ["--processes", processes, "--threads", threads],
            ["--engine", engine],
        );
        let url = [url(&server)];
        let url = url.each_ref().map(String::as_str);
        let ran = run(&[&hold[..], &load, &share, &engine, &url].concat());
        let all = format!("{engine:?}, {processes} processes");
        started_of(&ran, 40);
        assert!(ran.count("warmup") <= 4, "{all}");
        assert_eq!(ran.count("opened"), 20, "{all}");
        let opening = &ran["facts"]["opening"];
        assert_eq!(opening["complete"], true, "{all}");
        let took_s = opening["took_s"].as_f64().unwrap();
        assert!((0.18..30.0).contains(&took_s), "{all}: {took_s}");
        // The run lasts as long as its opening and its load.
        let wall_s = ran["wall_s"].as_f64().unwrap();
        assert!(wall_s >= took_s + 0.5, "{all}: {wall_s} of {took_s}");
        assert!(
            !ran["warnings"].to_string().contains("not all open"),
            "{all}"
        );
    }
}

/// Checks that this many requests were due; some were started, with any outcome.
#[track_caller]
fn started_of_any(result: &ResultFile, due: u64) {
    let of = |name: &str| result.operations(name);
    let all = &result["operations"];
    assert_eq!(of("started") + of("missed"), due, "{all}");
    assert!(of("started") > 0, "{all}");
}

#[test]
fn a_server_that_holds_fewer_than_were_asked_for_is_told_apart() {
    for engine in ENGINES {
        // The two of the check, and half of those that are to be held.
        let server = Scripted::start_each(|number| match number {
            0..=21 => answers(OK),
            _ => vec![Step::Close],
        });
        let url = url(&server);
        let call = format!("{HELD} {url} --engine {engine} --open-timeout 500ms -d 1s");
        let ran = program(&[]).call(&call).run().result;
        // On a busy machine it may close all of them before they are open.
        let refused = ran.count("lost") + ran.count("unconnected");
        assert!(refused > 0, "{engine}");
        started_of_any(&ran, 40);
        let opening = &ran["facts"]["opening"];
        // On a busy machine the server may close the connections that it does not hold when all are open.
        if opening["complete"] == false {
            assert_eq!(opening["took_s"], 0.5, "{engine}");
            let warnings = ran["warnings"].to_string();
            assert!(warnings.contains("not all open") && warnings.contains("--open-timeout"));
        }
        let warnings = ran["warnings"].as_array().unwrap();
        let mut told = warnings
            .iter()
            .filter_map(|warning| warning["message"].as_str());
        let is_it = |message: &str| {
            message.starts_with("connections held, peak: ")
                && message.ends_with("but expected 40, none lost")
        };
        assert!(told.any(is_it), "{engine}: {warnings:?}");
    }
}
