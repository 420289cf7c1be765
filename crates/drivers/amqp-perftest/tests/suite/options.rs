//! Options that shape how a run publishes, consumes and ends, with both engines against the null broker.

use std::process::Command;
use std::time::Duration;

use harness_testing::assert_contains;
use harness_testing::processes::wait_until;
use harness_testing::program::words;
use harness_testing::result::ResultFile;
use null_broker::{NullBroker, Script};

use crate::support::{self, ENGINES, PROGRAM, program, wall_s};

/// Runs the program on a broker. Returns its result, after checking that every operation is accounted for.
fn run_on(uri: &str, engine: &str, arguments: &str) -> ResultFile {
    let run = program(engine, uri).call(arguments).run();
    // 3: this machine is busy, or messages were left.
    assert!(
        matches!(run.code, 0 | 3),
        "{engine} {arguments:?} {}: {}",
        run.code,
        run.stderr
    );
    run.result.adds_up();
    run.result
}

/// Runs the program on a fresh null broker.
fn run(engine: &str, arguments: &str) -> ResultFile {
    let broker = NullBroker::start(Script::default()).unwrap();
    run_on(&broker.uri(), engine, arguments)
}

/// Checks that the calls of a table are refused before anything starts, with field and remedy.
#[track_caller]
fn refused(table: &str) {
    support::refused("auto", table);
}

#[test]
fn consumers_that_ask_get_every_message_once() {
    for engine in ENGINES {
        for acks in [
            "--auto-ack",
            "--multi-ack-every 7 --confirms",
            "--consumer-latency 1ms --threads 2",
        ] {
            let result = run(
                engine,
                &format!("--polling --pmessages 150 --producers 2 {acks}"),
            );
            let figures = ["consumed", "lost", "duplicated"].map(|name| result.count(name));
            assert_eq!(figures, [300, 0, 0], "{engine} {acks:?}");
        }
    }
}

#[test]
fn questions_keep_their_interval_and_those_without_a_message_are_counted() {
    for engine in ENGINES {
        let result = run(
            engine,
            "--rate 20 --duration 1s --polling --polling-interval 10ms",
        );
        let (consumed, empty) = (result.count("consumed"), result.count("empty_gets"));
        assert_eq!(consumed, 20, "{engine}");
        // At most one per 10 ms of the measured second.
        assert!((1..=101).contains(&empty), "{engine}: {empty}");
    }
}

#[test]
fn a_way_to_consume_that_cannot_be_is_refused() {
    refused(
        "
            --polling-interval 1s => --polling-interval … add polling
            --polling --prefetch 10 => --prefetch … basic.consume
            --polling --stream-queue => --polling … stream
            --polling --churn queue => --polling … churn
        ",
    );
}

/// Returns a null broker with `messages` messages of an earlier run in the queue `there`.
fn backlog(messages: &str) -> NullBroker {
    let broker = NullBroker::start(Script::with_queue("there")).unwrap();
    run_on(
        &broker.uri(),
        "wire",
        &format!("--queue there --predeclared --consumers 0 --pmessages {messages} --confirms"),
    );
    broker
}

const DRAIN: &str = "--queue there --predeclared --producers 0";

fn drains(engine: &str) {
    for how in [
        "--prefetch 50 --multi-ack-every 7",
        "--auto-ack --consumers 3",
        "--polling",
        "--consumer-latency 1ms --prefetch 5",
    ] {
        let broker = backlog("100");
        let drain = "--exit-when empty --duration 10min";
        let result = run_on(&broker.uri(), engine, &format!("{DRAIN} {drain} {how}"));
        assert_eq!(result.count("consumed"), 100, "{how:?}");
        assert!(wall_s(&result) < 300.0, "{how:?}: {}", wall_s(&result));
        // Everything was acknowledged: nothing was requeued.
        let again = run_on(&broker.uri(), engine, &format!("{DRAIN} {drain}"));
        assert_eq!(again.count("consumed"), 0, "{how:?}");
    }
}

#[test]
fn a_queue_is_drained_with_frames_by_hand_and_the_run_ends_when_it_is_empty() {
    drains("wire");
}

#[test]
fn a_queue_is_drained_with_lapin_and_the_run_ends_when_it_is_empty() {
    drains("lapin");
}

#[test]
fn a_consumer_that_waits_for_its_subscription_finds_the_queue_empty() {
    for engine in ENGINES {
        let script = Script {
            // The depth is asked for first 50 ms after the start.
            slow_consume: Duration::from_millis(300),
            ..Script::with_queue("there")
        };
        let broker = NullBroker::start(script).unwrap();
        let result = run_on(
            &broker.uri(),
            engine,
            &format!("{DRAIN} --exit-when empty --duration 30s"),
        );
        assert!(wall_s(&result) < 30.0, "{engine}");
    }
}

#[test]
fn each_consumer_has_as_many_as_were_asked_for_and_the_rest_stays() {
    for engine in ENGINES {
        for how in ["--prefetch 50 --multi-ack-every 7", "--polling --auto-ack"] {
            let broker = backlog("500");
            let some = "--cmessages 100 --consumers 2 --duration 10min";
            let result = run_on(&broker.uri(), engine, &format!("{DRAIN} {some} {how}"));
            assert_eq!(result.count("consumed"), 200, "{engine} {how:?}");
            assert!(wall_s(&result) < 300.0, "{engine} {how:?}");
            let rest = run_on(
                &broker.uri(),
                engine,
                &format!("{DRAIN} --exit-when empty --duration 10min"),
            );
            assert_eq!(
                rest.count("consumed"),
                300,
                "{engine} {how:?} {}",
                rest["counts"]
            );
        }
    }
}

#[test]
fn producers_stop_when_all_consumers_have_had_theirs() {
    for engine in ENGINES {
        let result = run(
            engine,
            "--rate 200 --duration 10min --drain 20s --cmessages 50",
        );
        assert!(wall_s(&result) < 300.0, "{engine}: {}", wall_s(&result));
        let (consumed, published) = (result.count("consumed"), result.count("published"));
        assert!(consumed == 50 && published >= 50, "{engine}: {published}");
        assert_eq!(result.count("lost"), 0, "{engine}");
    }
}

#[test]
fn a_run_ends_when_nothing_comes_any_more() {
    for engine in ENGINES {
        let broker = backlog("20");
        let arguments = format!("{DRAIN} --exit-when idle --exit-idle-after 2s --duration 10min");
        let result = run_on(&broker.uri(), engine, &arguments);
        assert_eq!(result.count("consumed"), 20);
        let wall = wall_s(&result);
        assert!((2.0..300.0).contains(&wall), "{engine}: {wall}");
    }
}

#[test]
fn an_end_that_cannot_come_is_refused() {
    refused(
        "
            --cmessages 0 => --cmessages … at least 1
            --cmessages 5 --consumers 0 => --cmessages … the plan has none
            --exit-when empty => --exit-when … --producers 0
            --exit-when empty --producers 0 => --exit-when … predeclared
            --exit-idle-after 2s => --exit-idle-after … exit_when
        ",
    );
}

#[test]
fn an_interval_is_that_of_each_producer() {
    for engine in ENGINES {
        let result = run(
            engine,
            "--producers 5 --publishing-interval 100ms --duration 2s --prefetch 100",
        );
        let operations = &result["operations"];
        let of = |name: &str| operations[name].as_u64().unwrap();
        assert_eq!(of("started") + of("missed"), 100, "{engine}: {operations}");
    }
}

#[test]
fn producers_that_begin_at_random_publish_as_many_as_were_asked_for() {
    for engine in ENGINES {
        for pace in ["--publishing-interval 20ms", ""] {
            let delay = "--producer-random-start-delay 700ms --seed 3";
            let result = run(
                engine,
                &format!("--producers 6 --pmessages 25 --prefetch 100 {pace} {delay}"),
            );
            let operations = &result["operations"];
            let of = |name: &str| operations[name].as_u64().unwrap();
            assert_eq!(of("started") + of("missed"), 150, "{engine} {operations}");
            // With this seed, the last of six does not start within the first 300 of 700 ms.
            assert!(wall_s(&result) > 0.3, "{engine} {pace:?}");
        }
    }
}

#[test]
fn a_consumer_takes_no_more_than_its_rate() {
    for engine in ENGINES {
        for how in ["--prefetch 5", "--polling --auto-ack"] {
            let result = run(engine, &format!("--pmessages 65 --consumer-rate 50 {how}"));
            assert_eq!(result.count("consumed"), 65, "{engine}");
            // The last is delivered when all but the prefetch were processed, 20 ms apart.
            assert!(
                wall_s(&result) >= 1.18,
                "{engine} {how:?} {}",
                wall_s(&result)
            );
        }
    }
}

#[test]
fn a_pace_that_cannot_be_kept_is_refused() {
    refused(
        "
            --publishing-interval 0s => --publishing-interval … leave it out
            --publishing-interval 1s --rate 5 => --publishing-interval … --rate
            --producer-random-start-delay 1s --ramp-up 1s => --producer-random-start-delay … ramp
            --producer-random-start-delay 1s --producers 0 => --producer-random-start-delay … the plan has none
            --consumer-rate 0 => --consumer-rate … above 0
            --consumer-rate 5 --auto-ack => --consumer-rate … polling
        ",
    );
}

#[test]
fn arguments_that_a_queue_does_not_permit_are_refused() {
    refused(
        "
            --exclusive --consumers 2 => --exclusive … two connections … --queue-pattern
            --exclusive --consumers 0 => --exclusive … at least as many consumers
            --exclusive --predeclared => --exclusive … predeclared
            --exclusive --quorum-queue => --exclusive … quorum
            --exclusive --queue-args x-queue-type=quorum => --exclusive … quorum
            --global-qos --quorum-queue => --global-qos … quorum
            --global-qos --queue-args x-queue-type=quorum => --global-qos … quorum
            --queue-args x-queue-type=stream --auto-ack => queue_type … acknowledgements
            --polling --consumer-args x-priority=5 => --consumer-args … polling
        ",
    );
}

/// Returns exit code and output of `--print-plan` with these variables.
fn plan(variables: &[(&str, &str)], arguments: &str) -> (Option<i32>, String) {
    let mut command = Command::new(PROGRAM);
    let output = command
        .envs(variables.iter().copied())
        .arg("--print-plan")
        .args(words(arguments))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let code = output.status.code();
    (code, String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn options_that_are_not_given_are_taken_from_the_environment() {
    let variables = [
        ("AMQP_PERFTEST_SEED", "77"),
        ("AMQP_PERFTEST_WARMUP", "3s"),
        ("AMQP_PERFTEST_POLLING", "1"),
        ("AMQP_PERFTEST_PERSISTENT", "no"),
        ("AMQP_PERFTEST_VARIABLE_SIZE", "100:5,200:6"),
    ];
    let (code, text) = plan(&variables, "--seed 78");
    assert_eq!(code, Some(0), "{text}");
    assert_contains(
        &text,
        &[
            "seed = 78",
            "warmup = \"3s\"",
            "polling = true",
            "persistent = false",
            "size = 200",
        ],
    );
    let (code, text) = plan(&[("AMQP_PERFTEST_QUIET", "perhaps")], "");
    assert!(code == Some(2) && text.contains("--quiet"), "{text}");
}

#[test]
fn a_number_of_0_removes_the_group_of_a_plan() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (_, text) = plan(&[], "--rate 50");
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    for (option, left) in [("--producers", "consumers"), ("--consumers", "producers")] {
        let (code, text) = plan(&[], &format!("--plan {path} {option} 0"));
        let groups = text.matches("[[groups]]").count();
        let has_left = text.contains(&format!("name = \"{left}\""));
        assert!(code == Some(0) && groups == 1 && has_left, "{text}");
    }
}

#[test]
fn stamps_of_the_wall_clock_are_read_by_it_and_a_negative_latency_is_counted() {
    for engine in ENGINES {
        for (consumer, measured, negative) in [("--wall-clock", 20, 0), ("", 0, 20)] {
            let broker = NullBroker::start(Script::with_queue("there")).unwrap();
            let wall = "--pmessages 20 --confirms --wall-clock";
            let sent = run_on(
                &broker.uri(),
                engine,
                &format!("--queue there --predeclared --consumers 0 {wall}"),
            );
            let sentence = sent["plan_sentence"].as_str().unwrap();
            assert!(sentence.contains("wall-clock time"), "{sentence}");
            let drain = format!("{DRAIN} --exit-when empty {consumer}");
            let result = run_on(&broker.uri(), engine, &drain);
            assert_eq!(result.count("consumed"), 20, "{engine}");
            // Without it, a start since 1970 lies ahead of the time since this machine booted.
            assert_eq!(result.count("negative_latency"), negative, "{engine}");
            let series = result["series"].as_array().unwrap();
            let latency = series.iter().find(|of| of["name"] == "end_to_end");
            let values = latency.map_or(0, |of| of["count"].as_u64().unwrap());
            assert_eq!(values, measured, "{engine} {consumer:?}");
            if let Some(latency) = latency.filter(|_| measured > 0) {
                let s = latency["max_ns"].as_f64().unwrap() / 1e9;
                assert!(s < 60.0, "{engine}: {s}");
            }
        }
    }
}

#[test]
fn connections_are_spread_over_the_nodes() {
    for engine in ENGINES {
        let shared = || Script::with_queue("perftest");
        let nodes = [shared(), shared()].map(|script| NullBroker::start(script).unwrap());
        let uris = nodes.each_ref().map(NullBroker::uri).join(",");
        let result = run_on(
            &uris,
            engine,
            "--producers 2 --consumers 2 --predeclared --pmessages 50",
        );
        assert_eq!(result.count("consumed"), 100, "{engine}");
        assert_eq!(
            nodes.each_ref().map(NullBroker::taken),
            [50, 50],
            "{engine}"
        );
    }
}

#[test]
fn an_error_names_the_node_that_failed() {
    for engine in ENGINES {
        // Its queue is transient.
        let brokers = [Script::default(), Script::with_queue("perftest")];
        let brokers = brokers.map(|script| NullBroker::start(script).unwrap());
        let [alive, other] = brokers.each_ref().map(NullBroker::uri);
        let dead = "amqp://127.0.0.1:1/";
        let redacted = other.replace("guest@", "[redacted]@");
        for (uris, names) in [
            // The first connection is the producer's.
            ([&alive, dead], ["127.0.0.1:1/", "Connection refused"]),
            ([dead, &other], [&redacted, "406"]),
        ] {
            program(engine, &uris.join(",")).refused(2, &names);
        }
    }
}

#[test]
fn more_channels_than_the_address_grants_are_refused_with_the_options_to_change() {
    let broker = NullBroker::start(Script::default()).unwrap();
    let uri = format!("{}?channel_max=1", broker.uri());
    for engine in ENGINES {
        let two = "--channels 2 --producers 2 --consumers 2";
        let program = program(engine, &uri).call(two);
        program.refused(2, &["lower --channels", "channel_max"]);
    }
}

#[test]
fn a_connection_whose_node_is_gone_goes_to_the_next() {
    for engine in ENGINES {
        let shared = Script::with_queue("perftest");
        let gone = NullBroker::start(shared.clone()).unwrap();
        let next = NullBroker::start(shared).unwrap();
        let uris = [gone.uri(), next.uri()].join(",");
        let load = "--consumers 0 --predeclared --confirms";
        let call = program(engine, &uris).call(&format!(
            "{load} --rate 100 --duration 2s --reconnect-after 10ms"
        ));
        let mut running = call.start();
        wait_until("the load is under way", || {
            assert!(running.child.try_wait().unwrap().is_none(), "{engine}");
            gone.taken() >= 10
        });
        drop(gone);
        let result = running.end().result;
        assert_eq!(result.count("reconnects"), 1, "{engine}");
        assert!(next.taken() > 0, "{engine}");
    }
}

#[test]
fn flags_and_bodies_of_perftest_are_those_of_the_plan() {
    let (_, plan) = plan(&[], "--flag persistent,mandatory --json-body");
    assert_contains(
        &plan,
        &["persistent = true", "mandatory = true", "json_body = true"],
    );
    for engine in ENGINES {
        let result = run(engine, "--json-body --size 200 --pmessages 20");
        assert_eq!(result.count("consumed"), 20, "{engine}");
    }
    refused("--json-body --body Cargo.toml => driver.body … json_body");
}

#[test]
fn arrived_messages_do_not_go_back_when_a_run_ends() {
    for engine in ENGINES {
        let broker = NullBroker::start(Script::with_queue("perftest")).unwrap();
        // The last three are not acknowledged with others.
        let some = "--predeclared --prefetch 50 --multi-ack-every 7";
        let some = format!("{some} --pmessages 500");
        let first = run_on(&broker.uri(), engine, &some);
        assert_eq!(first.count("consumed"), 500, "{engine}");
        let rest = "--predeclared --producers 0 --duration 300ms";
        let second = run_on(&broker.uri(), engine, rest);
        assert_eq!(second.count("consumed"), 0, "{engine}");
    }
}

#[test]
fn message_properties_are_the_fourteen_of_perftest_and_other_keys_are_headers() {
    let all = "contentType=a/b,contentEncoding=gzip,deliveryMode=2,priority=5,correlationId=007,replyTo=r,\
               expiration=60000,messageId=m,timestamp=2007-12-03T10:15:30+01:00,type=t,userId=guest,appId=app,\
               clusterId=c,mine=1";
    let (code, text) = plan(&[], &format!("-mp {all}"));
    assert_eq!(code, Some(0), "{text}");
    assert_contains(
        &text,
        &[
            "content_type = \"a/b\"",
            "content_encoding = \"gzip\"",
            "delivery_mode = 2",
            "priority = 5",
            "correlation_id = \"007\"",
            "reply_to = \"r\"",
            "expiration = \"60000\"",
            "message_id = \"m\"",
            "timestamp = 1196673330",
            "type = \"t\"",
            "user_id = \"guest\"",
            "app_id = \"app\"",
            "cluster_id = \"c\"",
            "[driver.properties.headers]\nmine = 1",
        ],
    );
    let (_, sentence) = plan(&[], "-mp delivery-mode=2,app-id=x");
    assert_contains(&sentence, &["delivery_mode = 2\napp_id = \"x\""]);
    refused(
        "
            -mp delivery_mode=2 => `delivery_mode` … deliveryMode
            -mp DeliveryMode=2 => `DeliveryMode` … deliveryMode
            -mp headers=a => headers … KEY=VALUE
            -mp deliveryMode=persistent => deliveryMode … 1 … 2
            -mp timestamp=yesterday => timestamp … 2007-12-03T10:15:30Z
            -mp expiration=1m => expiration … milliseconds
            -mp deliveryMode=1 --persistent => delivery_mode … --persistent
        ",
    );
}

#[test]
fn values_of_perftest_have_their_meaning_there() {
    let pattern = "-qp q-%d -qpf 2 -qpt=3";
    for (typed, line) in [
        (
            pattern,
            "queue_pattern = \"q-%d\"\nqueue_from = 2\nqueue_to = 3",
        ),
        ("-ad false", "auto_delete = false"),
        ("--auto-delete true", "auto_delete = true"),
        ("-Q 100", "prefetch = 100\nglobal_qos = true"),
        ("-s 12", "size = 28"),
        ("-L 1000", "consumer_latency = \"1ms\""),
        ("-po -pi 1000", "polling_interval = \"1s\""),
        ("-prsd 3s", "random_start_delay = \"3s\""),
        ("-mlb 0 --id 007", "name = \"007\""),
        ("-mlb 5", "x-max-length-bytes = 5"),
        ("-x10", "clients = 10"),
    ] {
        let (code, text) = plan(&[], typed);
        assert!(code == Some(0) && text.contains(line), "{typed:?}: {text}");
    }
    refused(
        "
            -ew empty => --exit-when … --producers 0
            -q 65536 => --prefetch
            -t fanout => --type … --exchange fanout
            -mlb 20gb => -mlb … x-max-length-bytes=N
            -ptxsize 3 => -ptxsize … --confirm
        ",
    );
}

/// Options of PerfTest: the table of the program has a row for each.
const PERFTEST: &str = include_str!("../../src/cli/perftest.md");

/// Returns a value for each name of a value in the table, or the name itself.
fn sample(name: &str) -> &str {
    match name {
        "N" | "NUMBER" => "2",
        "BYTES" => "12",
        "RATE" => "0.5",
        "SECONDS" => "2",
        "FROM-TO" => "30-60",
        "FILES" => env!("CARGO_MANIFEST_PATH"),
        "PAIRS" => "priority=5",
        "ID" => "'test 1'",
        "WHEN" => "idle",
        "FLAG" => "persistent",
        "URI" | "URIS" => "amqp://127.0.0.1:1",
        "BOOL" => "false",
        "PATTERN" => "q-%d",
        "RATES" | "SIZES" => "100:5",
        other => other,
    }
}

#[test]
fn every_option_of_perftest_is_taken_or_refused_with_a_remedy() {
    for row in PERFTEST.lines().skip(2) {
        let (options, here) = row.trim_matches(['|', ' ']).split_once(" | ").unwrap();
        let options: Vec<&str> = options.split('`').skip(1).step_by(2).collect();
        let value = options[options.len() - 1].split(' ').nth(1);
        for option in &options {
            let option = option.split(' ').next().unwrap();
            // An option that needs another one.
            let other = match option.trim_matches('-') {
                "qp" | "queue-pattern" => "-qpt 3",
                "qpf" | "queue-pattern-from" => "-qp q-%d -qpt 3",
                "qpt" | "queue-pattern-to" => "-qp q-%d",
                "A" | "multi-ack-every" => "-q 9",
                "pi" | "polling-interval" => "-po",
                "t" | "type" => "-e direct",
                _ => "",
            };
            let value = value.map(sample).unwrap_or_default();
            let typed = format!("{option} {value} {other}");
            let (code, text) = plan(&[], &typed);
            if here.starts_with(['`', '–']) {
                assert_eq!(code, Some(0), "{typed:?}: {text}");
            } else {
                let remedy = here.replace('`', "");
                assert!(
                    code == Some(2) && text.contains(&remedy),
                    "{typed:?}: {text}"
                );
            }
        }
    }
}
