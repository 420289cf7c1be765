//! Every message is accounted for: once, whole, in order, or as the error that it is.

use harness_testing::assert_contains;
use harness_testing::peer;
use null_broker::{Fault, NullBroker, Script};
use serde_json::Value;

use super::{nothing_failed, program, run};

#[test]
fn every_message_is_published_confirmed_and_consumed_once() {
    let shapes: [&str; 4] = [
        "--prefetch 10",
        "--auto-ack --threads 3",
        "--prefetch 100 --multi-ack-every 7 --channels 2",
        "--queue-pattern q-%d --queue-pattern-from 1 --queue-pattern-to 2 --threads 1",
    ];
    for shape in shapes {
        let load = "--producers 4 --consumers 2 --pmessages 2500 --confirm 64";
        // It ends when all is consumed, however long that takes.
        let until = "--duration 5min --drain 5min";
        let (code, result) = run(Script::default(), &format!("{load} {shape} {until}"));
        nothing_failed(code, &result);
        result.counts(&[
            ("published", 10_000),
            ("confirmed", 10_000),
            ("consumed", 10_000),
            ("lost", 0),
            ("duplicated", 0),
            ("out_of_order", 0),
        ]);
        assert_eq!(result["operations"]["ok"], 10_000);
        assert_eq!(
            (result.values("confirm"), result.values("end_to_end")),
            (10_000, 10_000)
        );
    }
}

/// Serves a page with RabbitMQ's counters, which are 5 before the run and this much more from the third request on;
/// returns its address.
fn rabbitmq_page(received: u64, delivered: u64) -> String {
    let mut requests = 0;
    let port = peer::serve_page(move |_, _| {
        requests += 1;
        let [received, delivered] = [received, delivered].map(|more| match requests {
            1 | 2 => 5,
            _ => 5 + more,
        });
        let page = format!(
            "rabbitmq_global_messages_received_total{{protocol=\"amqp091\"}} {received}\n\
             rabbitmq_global_messages_delivered_total{{protocol=\"amqp091\",queue_type=\"rabbit_classic_queue\"}} {delivered}\n"
        );
        ("200 OK", page)
    });
    format!("http://127.0.0.1:{port}/metrics")
}

#[test]
fn the_counters_of_a_broker_that_runs_already_are_compared() {
    for (received, delivered, differ) in [(200, 200, 0), (201, 200, 1), (200, 199, 1)] {
        let page = rabbitmq_page(received, delivered);
        let named = format!("--name mine --daemon-metrics {page}");
        let (_, result) = run(
            Script::default(),
            &format!("--producers 2 --consumers 1 --pmessages 100 {named}"),
        );
        result.counts(&[("written", 200), ("delivered", 200)]);
        assert_eq!(result["daemon"]["name"], "mine");
        let warnings = result["warnings"].as_array().unwrap().iter();
        let disagree = warnings.filter(|warning| warning["kind"] == "CountsDisagree");
        assert_eq!(disagree.count(), differ, "{}", result["warnings"]);
    }
}

#[test]
fn bodies_of_all_sizes_come_whole() {
    for size in ["28", "300000"] {
        let (code, result) = run(
            Script::default(),
            &format!("--size {size} --pmessages 200 --prefetch 5"),
        );
        nothing_failed(code, &result);
        result.counts(&[("published", 200), ("consumed", 200), ("foreign", 0)]);
    }
}

#[test]
fn messages_that_a_broker_drops_doubles_or_swaps_are_found_and_named() {
    let script = Script {
        // What is left for the drain time fits one window.
        confirms_consumed: true,
        ..Script::with_faults([(10, Fault::Drop), (20, Fault::Duplicate), (30, Fault::Swap)])
    };
    let (code, result) = run(
        script,
        "--pmessages 500 --prefetch 50 --confirm 50 --drain 1s",
    );
    assert_eq!(code, 1);
    result.counts(&[
        ("published", 500),
        ("consumed", 500),
        ("lost", 1),
        ("duplicated", 1),
        ("out_of_order", 1),
    ]);
    assert_eq!(
        (result.error("lost"), &result["operations"]["ok"]),
        (1, &Value::from(499))
    );
}

/// The plan says that the queue drops messages, so the broker did what it was told.
#[test]
fn messages_that_the_plan_lets_a_queue_drop_are_dropped_and_not_lost() {
    let run_with = |more: &str| {
        let script = Script::with_faults([(10, Fault::Drop), (11, Fault::Drop)]);
        run(
            script,
            &format!("--pmessages 500 --prefetch 50 --drain 1s {more}"),
        )
    };
    for (arguments, named) in [
        ("--queue-args x-max-length=10", "x-max-length"),
        ("--queue-args x-message-ttl=1", "x-message-ttl"),
        ("--message-properties expiration=1", "expiration"),
    ] {
        let (code, result) = run_with(arguments);
        nothing_failed(code, &result);
        assert_eq!(result.error("dropped"), 2, "{named}: {}", result["errors"]);
        result.counts(&[("dropped", 2), ("lost", 0)]);
        let warnings = result["warnings"].as_array().unwrap().iter();
        let mut notes = warnings.filter(|warning| warning["severity"] == "note");
        let names = |note: &Value| note.to_string().contains(named);
        assert!(notes.any(names), "{named}: {}", result["warnings"]);
    }
    // A full queue that refuses says so in its confirms.
    let refusing = "--queue-args x-max-length=10,x-overflow=reject-publish";
    let (code, result) = run_with(&format!("{refusing} --confirms"));
    assert_eq!((code, result.error("lost")), (1, 2), "{}", result["errors"]);
    let (code, result) = run_with(refusing);
    nothing_failed(code, &result);
    assert_eq!(result.error("dropped"), 2);
}

#[test]
fn messages_that_a_broker_refuses_by_closing_the_channel_are_not_lost() {
    let script = Script::with_faults([(100, Fault::CloseChannel)]);
    let (code, result) = run(
        script,
        "--rate 500 --duration 1s --drain 2s --prefetch 50 --reconnect-after 10ms",
    );
    assert_eq!((code, result.error("lost")), (1, 0), "{}", result["errors"]);
    assert!(result.error("refused") > 0, "{}", result["errors"]);
    result.counts(&[("channels_closed", 1), ("lost", 0)]);
}

#[test]
fn duplicates_and_another_order_make_the_result_suspect() {
    let doubt = |script: Script, kind: &str, more: &str| {
        let (code, result) = run(script, &format!("--pmessages 500 --prefetch 50 {more}"));
        let warning = result.warning(kind);
        let warning = warning.unwrap_or_else(|| panic!("{kind}: {code}"));
        (code, warning["severity"].clone())
    };
    let twice = Script::with_faults([(20, Fault::Duplicate)]);
    assert_eq!(doubt(twice, "Duplicated", ""), (3, "suspect".into()));
    let swapped = Script::with_faults([(30, Fault::Swap)]);
    let suspect = doubt(swapped.clone(), "OutOfOrder", "");
    assert_eq!(suspect, (3, "suspect".into()));
    let (_, severity) = doubt(swapped, "OutOfOrder", "--nack 0.1");
    assert_eq!(
        severity, "note",
        "given back and in order are not both to be had"
    );
}

/// One bit, or a hundred bytes, are enough; bodies of a stamp alone, JSON and files are also checked.
#[test]
fn a_body_that_is_not_as_it_was_sent_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    std::fs::write(&file, "some text, sent behind a stamp").unwrap();
    let file = file.to_str().unwrap();
    let kinds: [&str; 5] = [
        "--size 1024",
        "--size 28",
        "--size 300000",
        "--size 500 --json-body",
        &format!("--body {file}"),
    ];
    for kind in kinds {
        let corrupt = Script::with_faults([(10, Fault::Corrupt), (20, Fault::Corrupt)]);
        let (code, result) = run(
            corrupt,
            &format!("--pmessages 100 --prefetch 50 {kind} --drain 5min"),
        );
        let (damaged, lost) = (result.count("damaged"), result.count("lost"));
        assert_eq!(
            (code, &result["operations"]["ok"]),
            (1, &98.into()),
            "{kind:?}"
        );
        // The last bit of a body without content belongs to its stamp's time: its number is intact.
        assert_eq!(
            (damaged, result.error("damaged"), lost),
            (2, 2, 0),
            "{kind:?}"
        );
        assert_eq!(result["operations"]["unfinished"], 0);
    }
    let cut = Script::with_faults([(10, Fault::Shorten)]);
    let (code, result) = run(cut, "--pmessages 100 --prefetch 50");
    assert_eq!((code, result.error("damaged")), (1, 1));
}

#[test]
fn a_message_that_comes_again_after_its_acknowledgement_makes_the_result_suspect() {
    let load = "--pmessages 300 --prefetch 1";
    for way in ["", "--auto-ack", "--multi-ack-every 1 --consumers 2"] {
        let way = format!("{load} {way}");
        let (code, result) = run(Script::with_faults([(20, Fault::Redeliver)]), &way);
        let redelivered = result.count("redelivered_after_ack");
        let duplicated = result.count("duplicated");
        assert_eq!(redelivered + duplicated, 1, "{way:?}");
        assert_eq!(code, 3, "{way:?}");
        let warnings = result["warnings"].to_string();
        if duplicated == 1 {
            // Of two consumers, one may read the second delivery before the other reads the first.
            assert!(way.contains("--consumers"), "{way:?}");
            continue;
        }
        assert!(warnings.contains("were redelivered although"), "{warnings}");
    }
    // A requeued message is delivered again correctly.
    let (_, result) = run(Script::default(), &format!("{load} --nack 0.1"));
    assert!(result.count("redelivered") > 0);
    assert_eq!(result.count("redelivered_after_ack"), 0);
}

/// A message marked as redelivered at its first arrival has waited longest, behind a lost consumer.
#[test]
fn every_message_that_ends_well_has_one_latency() {
    let script = Script::with_faults([
        (5, Fault::Mark),
        (6, Fault::Mark),
        (7, Fault::Mark),
        (20, Fault::Duplicate),
        (21, Fault::Duplicate),
    ]);
    let (_, result) = run(script, "--pmessages 500 --prefetch 50");
    result.counts(&[("redelivered", 3), ("duplicated", 2)]);
    assert_eq!(
        (&result["operations"]["ok"], result.values("end_to_end")),
        (&Value::from(500), 500)
    );
}

/// Arrived messages return to the queue when a consumer leaves without acknowledging them: they must not count as
/// replacements for a dropped one.
#[test]
fn unacknowledged_messages_hide_no_loss() {
    let ways: [&str; 3] = [
        "--multi-ack-every 7",
        "--consumer-latency 1ms",
        "--nack 0.02 --consumer-latency 1ms",
    ];
    for way in ways {
        let script = Script::with_faults([(10, Fault::Drop)]);
        let (code, result) = run(
            script,
            &format!("--pmessages 500 --prefetch 50 --duration 1s {way} --drain 2s"),
        );
        assert_eq!(
            (code, result.error("lost"), result.count("lost")),
            (1, 1, 1),
            "{way:?}: {}",
            result["operations"]
        );
        assert_eq!(result["operations"]["unfinished"], 0, "{way:?}");
    }
}

#[test]
fn messages_requeued_by_a_cut_hide_no_loss() {
    let script = Script::with_faults([(10, Fault::Drop), (400, Fault::CutConsumers)]);
    // Messages that arrived before the connection is cut were not acknowledged, and do not come again.
    let never = "--consumer-latency 60s --reconnect-after 60s";
    let (code, result) = run(
        script,
        &format!("--rate 500 --duration 1s --drain 300ms {never} --prefetch 50"),
    );
    assert_eq!((code, result.error("lost")), (1, 1));
    let arrived = result.count("consumed");
    assert_eq!(result["operations"]["unfinished"], 499 - arrived);
}

#[test]
fn a_message_lost_in_the_warm_up_is_seen() {
    let script = Script::with_faults([(3, Fault::Drop)]);
    let (code, result) = run(
        script,
        "--rate 200 --warmup 500ms --duration 500ms --drain 300ms",
    );
    result.counts(&[("lost", 1), ("warmup", 100)]);
    assert_eq!((code, result.error("lost")), (3, 0));
    let warnings = result["warnings"].to_string();
    assert_contains(&warnings, &["1 messages of the warm-up never arrived"]);
    assert_eq!(result["operations"]["ok"], result.count("consumed"));
    assert_eq!(result.values("end_to_end"), result.count("consumed"));
}

/// For a run of consumers alone, the time of publishing does not matter.
#[test]
fn consumers_alone_count_what_another_run_published_in_its_warm_up() {
    let broker = NullBroker::start(Script::with_queue("there")).unwrap();
    let publish = "--consumers 0 --rate 200 --warmup 300ms";
    // So slowly that most come while it measures.
    let consume = "--producers 0 --consumer-latency 5ms";
    let runs = [publish, consume].map(|load| {
        let load = format!("{load} --queue there --predeclared --duration 2s");
        let run = program(&broker.uri()).call(&load).run();
        assert_ne!(run.code, 2);
        run.result
    });
    assert!(runs[0].count("warmup") > 0);
    let consumed = runs[1].count("consumed");
    assert!(consumed > 0 && runs[1].count("foreign") == 0);
    assert_eq!(runs[1]["operations"]["ok"], consumed);
    assert_eq!(runs[1].values("end_to_end"), consumed);
}

#[test]
fn messages_that_consumers_requeue_are_neither_lost_nor_duplicates() {
    let (code, result) = run(
        Script::default(),
        "--pmessages 1000 --nack 0.1 --prefetch 10",
    );
    nothing_failed(code, &result);
    let back = result.count("given_back");
    assert!((80..=120).contains(&back), "{back}");
    // All have arrived once the last one has: of the requeued messages, as many as the prefetch may still be under way.
    let again = result.count("redelivered");
    assert!((back - 10..=back).contains(&again), "{again} of {back}");
    result.counts(&[("consumed", 1000 + again), ("duplicated", 0), ("lost", 0)]);
}
