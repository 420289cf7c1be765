//! Both engines on the same plans against a real broker: the counts must be equal.

use harness_testing::program::Program;
use harness_testing::result::ResultFile;
use serde_json::Value;

use crate::support;

/// Counts and outcomes that do not depend on timing.
const SAME: [&str; 9] = [
    "published",
    "confirmed",
    "nacked",
    "returned",
    "consumed",
    "lost",
    "duplicated",
    "out_of_order",
    "foreign",
];

/// Runs a plan with an engine on a fresh `broker-daemon`.
fn run(engine: &str, arguments: &str) -> ResultFile {
    // It ends when all is consumed, however long that takes.
    let drain = if arguments.contains("--drain") {
        ""
    } else {
        "--drain 5min"
    };
    let run = Program::new(support::PROGRAM)
        .call(&format!("--daemon broker-daemon --quiet --engine {engine}"))
        .call(&format!("{arguments} {drain}"))
        .run();
    assert_ne!(run.code, 2, "{arguments:?}: {}", run.stderr);
    broker_counted_the_same(&run.result);
    run.result
}

/// Checks that the driver's written and received messages are what the broker counted, including the warm-up and every
/// outcome.
fn broker_counted_the_same(result: &Value) {
    let compared = result["facts"]["compared"].as_array().unwrap();
    let names: Vec<&str> = compared
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["written", "delivered"]);
    for row in compared {
        let counted = |side: &str| row[side].as_u64().unwrap();
        match row["driver_short"].as_bool() {
            Some(true) => assert!(counted("driver") <= counted("daemon"), "{row}"),
            _ => assert_eq!(counted("driver"), counted("daemon"), "{row}"),
        }
    }
}

/// Returns the figures that must be equal: counts, outcomes of operations, errors, measured values.
fn figures(result: &Value) -> Vec<(String, u64)> {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let counts = SAME.map(|name| (name.to_owned(), number(&result["counts"][name])));
    let ends = ["started", "ok", "failed", "unfinished"]
        .map(|name| (name.to_owned(), number(&result["operations"][name])));
    let errors = result["errors"].as_object().unwrap().iter();
    let errors = errors.map(|(name, value)| (format!("error {name}"), number(value)));
    let series = result["series"].as_array().unwrap().iter();
    let series = series.map(|series| (series["name"].to_string(), number(&series["count"])));
    counts
        .into_iter()
        .chain(ends)
        .chain(errors)
        .chain(series)
        .collect()
}

/// Returns the figures of a plan, equal for both engines.
fn same(arguments: &str) -> Vec<(String, u64)> {
    let [wire, lapin] = ["wire", "lapin"].map(|engine| {
        let result = run(engine, arguments);
        assert_eq!(result["plan"]["driver"]["engine"], engine);
        let sentence = result["plan_sentence"].as_str().unwrap();
        assert!(sentence.contains(&format!("engine {engine}")), "{sentence}");
        figures(&result)
    });
    assert_eq!(wire, lapin, "{arguments:?}");
    wire
}

fn figure(figures: &[(String, u64)], name: &str) -> u64 {
    let found = figures.iter().find(|(of, _)| of == name);
    found.map_or(0, |(_, number)| *number)
}

#[test]
fn every_message_is_accounted_for_in_the_same_way() {
    let plans: [&str; 6] = [
        "--auto-ack",
        "--confirm 50 --prefetch 20",
        "--prefetch 100 --multi-ack-every 10 --confirms",
        "--channels 2 --global-qos --prefetch 30",
        "--size 40000 --persistent --confirm 10 --auto-ack",
        "--exchange perftest-x --type topic --routing-key a.b --prefetch 10",
    ];
    for plan in plans {
        let figures = same(&format!(
            "--producers 3 --consumers 2 --pmessages 700 {plan}"
        ));
        for name in ["published", "consumed", "ok"] {
            assert_eq!(figure(&figures, name), 2_100, "{name} of {plan:?}");
        }
    }
}

#[test]
fn a_rate_gives_the_same_messages() {
    let figures = same("--rate 500 --duration 2s --producers 3 --confirms --prefetch 50");
    assert_eq!(figure(&figures, "ok"), 1_000);
}

#[test]
fn returned_messages_end_in_the_same_way_in_both_engines() {
    for confirms in ["--confirms", ""] {
        for consumers in ["0", "1"] {
            let load = format!("--pmessages 300 --consumers {consumers}");
            let figures = same(&format!(
                "{load} --mandatory --routing-key nowhere {confirms}"
            ));
            assert_eq!(figure(&figures, "returned"), 300);
        }
    }
}

#[test]
fn settings_of_one_engine_are_refused_by_the_other_with_its_name() {
    support::refused("lapin", "--channels 5 => --channels … --engine wire");
    support::refused("lapin", "--heartbeat 0 => --heartbeat … --engine wire");
}

/// An auto-delete queue takes its remaining messages with it, and their number is unknown.
#[test]
fn messages_deleted_with_an_auto_delete_queue_are_not_lost() {
    let slow = "--auto-delete --prefetch 1 --consumer-latency 20ms";
    for engine in ["wire", "lapin"] {
        let result = run(
            engine,
            &format!("--rate 500 --duration 1s --drain 300ms {slow}"),
        );
        let of = |place: &str, name: &str| result[place][name].as_u64().unwrap_or(0);
        assert_eq!(
            (of("counts", "lost"), of("errors", "lost")),
            (0, 0),
            "{engine}"
        );
        assert!(
            of("operations", "unfinished") > 100,
            "{engine}: {}",
            result["operations"]
        );
    }
}

/// The queue belongs to its consumer's connection; no other may declare, query or consume from it.
#[test]
fn an_exclusive_queue_is_declared_by_whoever_consumes_from_it() {
    for shape in [
        "--consumers 1 --confirms",
        "--consumers 2 --channels 2 --prefetch 20",
        "--consumers 2 --queue-pattern own-%d --queue-pattern-to 2",
        "--exchange own-x --type fanout --auto-ack",
    ] {
        let figures = same(&format!(
            "--exclusive --producers 2 --pmessages 300 {shape}"
        ));
        for name in ["published", "consumed", "ok"] {
            assert_eq!(figure(&figures, name), 600, "{name} of {shape:?}");
        }
    }
}
