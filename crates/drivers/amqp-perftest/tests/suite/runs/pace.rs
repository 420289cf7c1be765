//! Rates, slow consumers, and the phases of a run.

use std::time::Duration;

use null_broker::{Fault, Mode, NullBroker, Script};
use serde_json::Value;

use super::{nothing_failed, program, run};

#[test]
fn consumers_that_take_their_time_hold_up_what_the_prefetch_lets_them() {
    let load = "--pmessages 40 --prefetch 2 --consumer-latency 10ms --drain 20s";
    let (code, result) = run(Script::default(), load);
    nothing_failed(code, &result);
    result.counts(&[("consumed", 40), ("lost", 0)]);
    // The last but two are delivered when 38 before them were processed, 10 ms each.
    assert!(
        result["wall_s"].as_f64().unwrap() >= 0.38,
        "{}",
        result["wall_s"]
    );
}

#[test]
fn consumers_alone_take_what_comes_for_as_long_as_the_run_measures() {
    let script = Script {
        mode: Mode::Stream,
        ..Script::default()
    };
    let load = "--producers 0 --prefetch 100 --duration 1s";
    let (code, result) = run(script, load);
    assert_ne!(code, 1);
    // The upper bound is for a run that does not end.
    assert!((1.0..30.0).contains(&result["wall_s"].as_f64().unwrap()));
    let consumed = result.count("consumed");
    assert!(consumed > 0);
    assert_eq!(
        (result.values("end_to_end"), result.count("duplicated")),
        (consumed, 0)
    );
    assert_eq!(result["operations"]["ok"], consumed);
}

#[test]
fn a_rate_is_that_of_all_producers_together() {
    for producers in ["1", "3", "50"] {
        let load = format!("--rate 1000 --duration 2s --producers {producers} --prefetch 100");
        let (_, result) = run(Script::default(), &load);
        let operations = &result["operations"];
        let sum = operations["started"].as_u64().unwrap() + operations["missed"].as_u64().unwrap();
        assert_eq!(sum, 2_000, "{producers}: {operations}");
        assert_ne!(operations["started"], 0, "{operations}");
    }
}

#[test]
fn a_rate_that_varies_goes_through_its_steps_again_and_again() {
    let load = "--prefetch 100 --message-properties";
    let properties = "priority=3,content-type=text/plain,tenant=a";
    let (_, result) = run(
        Script::default(),
        &format!(
            "{load} {properties} --variable-rate 400:0.5 --variable-rate 100:0.5 --duration 2s"
        ),
    );
    let operations = &result["operations"];
    let sum = operations["started"].as_u64().unwrap() + operations["missed"].as_u64().unwrap();
    assert_eq!(sum, 500, "{operations}");
    let sent = &result["plan"]["driver"]["properties"];
    assert_eq!(
        (&sent["priority"], &sent["headers"]["tenant"]),
        (&Value::from(3), &Value::from("a"))
    );
}

#[test]
fn a_message_that_is_held_delays_itself_and_those_behind_it() {
    let script = Script {
        hold: vec![(100, Duration::from_millis(400))],
        ..Script::default()
    };
    let load = "--rate 200 --duration 2s --prefetch 0";
    let (_, result) = run(script, load);
    result.counts(&[("published", 400), ("consumed", 400), ("lost", 0)]);
    let series = result["series"].as_array().unwrap();
    let latency = series
        .iter()
        .find(|series| series["name"] == "end_to_end")
        .unwrap();
    let ms = |figure: &str| latency[figure].as_f64().unwrap() / 1e6;
    // 80 of 400 messages were due in the 400 ms: a fifth of all, spread evenly from 0 to 400 ms.
    // A busy machine only adds to that; `calibration` judges the figures themselves.
    assert!(ms("max_ns") >= 395.0, "{}", ms("max_ns"));
    assert!(ms("p90_ns") >= 150.0, "{}", ms("p90_ns"));
}

/// A message that is due but waits for a confirm is published until one second after the end, and missed after that.
#[test]
fn nothing_is_published_after_the_end_of_all_starts() {
    let script = Script {
        stall: vec![(50, Duration::from_millis(2_600))],
        ..Script::default()
    };
    let (_, result) = run(script, "--rate 100 --duration 1s --drain 5s --confirm 1");
    let [started, missed] = ["started", "missed"].map(|name| result.operations(name));
    assert_eq!(started + missed, 100, "{result}");
    // A busy driver has missed some of the first fifty too.
    assert!((1..=52).contains(&started), "{result}");
    result.counts(&[("published", started), ("lost", 0)]);
}

#[test]
fn messages_that_a_slow_broker_has_not_read_yet_are_waited_for() {
    let script = Script {
        stall: vec![(1000, Duration::from_secs(4))],
        ..Script::default()
    };
    // A thread with producers only has nothing else to wait for.
    let load = "--threads 2 --duration 1s --drain 20s";
    let (code, result) = run(script, &format!("{load} --prefetch 1000"));
    nothing_failed(code, &result);
    assert_eq!(result.error("lost"), 0, "{result:#}");
    assert_eq!(result.count("consumed"), result.count("published"));
}

#[test]
fn the_drain_phase_begins_when_all_is_published() {
    let script = Script::with_faults([(10, Fault::Drop)]);
    let (code, result) = run(
        script,
        "--pmessages 100 --drain 300ms --threads 2 --duration 60s",
    );
    assert_eq!((code, result.error("lost")), (1, 1));
    let wall_s = result["wall_s"].as_f64().unwrap();
    assert!((0.3..15.0).contains(&wall_s), "{wall_s}");
}

#[test]
fn consumers_that_need_the_drain_phase_are_not_said_to_keep_up() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let load = "--rate 200 --duration 1s --consumer-latency 20ms";
    let text = program(&broker.uri()).call(load).run().stdout;
    let line = text.lines().find(|line| line.contains("Consumed:"));
    let (count, rate) = line.unwrap().split_once(" messages (").unwrap();
    assert!(count.ends_with("  200"), "{text}");
    // At most one per 20 ms: a busy driver has processed fewer in the measured second.
    let rate: f64 = rate.strip_suffix(" msg/s)").unwrap().parse().unwrap();
    assert!(rate <= 55.0, "{text}");
}
