//! Requests and their answers.

use std::io::Write as _;

use issue_store::{Changes, Options, Store, Timestamp};
use serde_json::{Value, json};
use test_kit::wait_until;

use crate::support::Daemon;

#[test]
fn a_wrong_line_is_refused_and_the_connection_goes_on() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    for (line, code) in [
        ("garbage", "invalid_request"),
        ("", "invalid_request"),
        ("[]", "invalid_request"),
        ("{\"operation\":\"ping\"", "invalid_request"),
        ("\u{0}\u{1}", "invalid_request"),
        (r#"{"operation":"dance"}"#, "unknown_operation"),
        (r#"{"operation":"create","args":{"title":7}}"#, "validation"),
        (
            r#"{"operation":"create","args":{"title":""}}"#,
            "validation",
        ),
        (
            r#"{"operation":"create","args":{"title":"a","priority":9}}"#,
            "validation",
        ),
        (r#"{"operation":"show","args":"a"}"#, "validation"),
        (r#"{"operation":"show","args":{"id":"none"}}"#, "not_found"),
    ] {
        client
            .stream
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
        let answer = client.answer().expect("an answer");
        assert_eq!(answer["code"], code, "{line}: {answer}");
        assert!(answer["error"].as_str().unwrap().len() > 5, "{answer}");
    }
    client.stream.write_all(b"\xff\xfe\n").unwrap();
    assert_eq!(
        client.answer().unwrap()["code"],
        "invalid_request",
        "it is not UTF-8"
    );
    client.data("ping", Value::Null);
}

#[test]
fn pipelined_requests_are_answered_in_order_and_read_what_was_written_before() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let mut lines = String::new();
    let mut number = 0;
    let mut add = |request: Value| {
        let mut request = request;
        request["request_id"] = json!(number);
        number += 1;
        lines.push_str(&format!("{request}\n"));
    };
    for round in 0..50 {
        let id = format!("x-{round}");
        add(json!({"operation": "create", "args": {"title": "a", "id": id}}));
        add(json!({"operation": "update", "args": {"id": id, "notes": "noted"}}));
        add(json!({"operation": "show", "args": {"id": id}}));
        add(json!({"operation": "ping"}));
        add(json!({"operation": "count"}));
        // So long that another thread parses it.
        add(json!({"operation": "update", "args": {"id": id, "description": "d".repeat(40_000)}}));
        add(json!({"operation": "dance"}));
    }
    client.stream.write_all(lines.as_bytes()).unwrap();
    for number in 0..350 {
        let answer = client.answer().expect("an answer");
        assert_eq!(answer["request_id"], number, "{answer}");
        let (round, step) = (number / 7, number % 7);
        match step {
            2 => assert_eq!(answer["data"]["notes"], "noted", "{answer}"),
            4 => assert_eq!(answer["data"]["count"], round + 1, "{answer}"),
            6 => assert_eq!(answer["code"], "unknown_operation"),
            _ => assert_eq!(answer["success"], true, "{answer}"),
        }
    }
}

#[test]
fn a_write_happens_once_however_often_its_key_is_sent() {
    let daemon = Daemon::new(&[]);
    let request = json!({"operation": "create", "args": {"title": "a"}, "idempotency_key": "k", "request_id": 1});
    let first = daemon.client().request(&request);
    assert_eq!(first["success"], true, "{first}");
    // Another connection, and several at once.
    let mut client = daemon.client();
    for _ in 0..10 {
        client.send(&request).unwrap();
    }
    for _ in 0..10 {
        assert_eq!(client.answer().unwrap(), first);
    }
    let other = json!({"operation": "create", "args": {"title": "b"}, "idempotency_key": "k"});
    assert_eq!(client.request(&other)["code"], "conflict");
    assert_eq!(client.data("count", json!({}))["count"], 1);
}

#[test]
fn all_old_keys_are_removed_though_each_group_removes_a_part() {
    let daemon = Daemon::new(&[]);
    let store = Store::open(&daemon.database, Options::default()).unwrap();
    let mut writer = store.writer().unwrap();
    let keep = |changes: &mut Changes<'_>| {
        (0..2_500).try_for_each(|number| changes.keep_answer(&number.to_string(), ""))
    };
    writer.apply(Timestamp(1), keep).unwrap();
    let mut client = daemon.client();
    wait_until("all old keys are removed", || {
        client.create("a");
        let count = "SELECT count(*) FROM answers";
        let keys = writer.connection().query_row(count, [], |row| row.get(0));
        keys == Ok(0)
    });
}

#[test]
fn a_request_is_not_begun_after_its_deadline() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    for (operation, args) in [("create", json!({"title": "a"})), ("list", json!({}))] {
        let late =
            json!({"operation": operation, "args": args, "deadline_ms": 1_000_000_000_001_u64});
        assert_eq!(client.request(&late)["code"], "timeout");
    }
    let in_time = json!({"operation": "create", "args": {"title": "a"}, "deadline_ms": 32_000_000_000_000_u64});
    assert_eq!(client.request(&in_time)["success"], true);
    assert_eq!(client.data("count", json!({}))["count"], 1);
}

#[test]
fn a_client_of_another_version_or_for_another_database_is_refused() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let newer = json!({"operation": "stats", "client_version": "99.0.0"});
    assert_eq!(client.request(&newer)["code"], "version_mismatch");
    let ping = json!({"operation": "ping", "client_version": "99.0.0"});
    assert_eq!(client.request(&ping)["success"], true, "ping is exempt");
    let link = daemon.database.with_file_name("link.db");
    std::os::unix::fs::symlink(&daemon.database, &link).unwrap();
    for (database, success) in [
        (link, true),
        (daemon.database.with_file_name("other.db"), false),
    ] {
        let answer = client.request(&json!({"operation": "stats", "expected_db": database}));
        assert_eq!(answer["success"], success, "{answer}");
        if !success {
            assert_eq!(answer["code"], "database_mismatch");
        }
    }
}

#[test]
fn the_daemon_reports_itself() {
    let daemon = Daemon::new(&["--durability", "os"]);
    let mut client = daemon.client();
    client.create("a");
    let status = client.data("status", json!({}));
    assert_eq!(status["durability"], "os");
    assert_eq!(status["database"], daemon.database.to_str().unwrap());
    assert_eq!(status["pid"], daemon.pid());
    assert_eq!(
        (&status["writes"], &status["connections"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        client.data("health", json!({})),
        json!({"status": "healthy"})
    );
    let page = client.data("metrics", json!({}))["page"]
        .as_str()
        .unwrap()
        .to_owned();
    for sample in [
        "issue_daemon_writes_total 1\n",
        "issue_daemon_connections 1\n",
        "issue_daemon_requests_in_flight 1\n",
        "issue_daemon_answers_total{code=\"ok\"} 3\n",
        "issue_daemon_answers_total{code=\"too_large\"} 0\n",
    ] {
        assert!(page.contains(sample), "{sample}{page}");
    }
}

#[test]
fn a_lock_that_another_process_holds_is_busy_at_the_deadline_of_each_request_and_stops_no_reads() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let id = client.create("a");
    let store = issue_store::Store::open(&daemon.database, issue_store::Options::default());
    let mut writer = store.unwrap().writer().unwrap();
    let held = writer.begin().unwrap();
    let create = |args: Value, wait_ms: i64| {
        let deadline_ms = Timestamp::now().0 / 1_000 + wait_ms;
        json!({"operation": "create", "args": args, "deadline_ms": deadline_ms})
    };
    // As it is long, it is a group of its own.
    let (mut patient, mut hasty) = (daemon.client(), daemon.client());
    let args = json!({"title": "patient", "description": "d".repeat(20_000)});
    patient.send(&create(args, 600_000)).unwrap();
    wait_until("the long request waits", || {
        client.data("status", json!({}))["in_flight"] == 2
    });
    hasty.send(&create(json!({"title": "b"}), 300)).unwrap();
    assert_eq!(client.data("list", json!({}))["issues"][0]["id"], json!(id));
    let refused = hasty.answer().unwrap();
    assert_eq!(refused["code"], "busy", "{refused}");
    let in_flight = client.data("status", json!({}))["in_flight"].take();
    assert_eq!(in_flight, 2, "the patient one and the question itself");
    drop(held);
    assert_eq!(patient.answer().unwrap()["success"], true);
    assert_eq!(client.data("count", json!({}))["count"], 2);
}

#[test]
fn a_compatible_daemon_answers_in_the_shapes_of_bd() {
    let daemon = Daemon::new(&["--compat"]);
    let mut client = daemon.client();
    let id = client.create("a");
    assert_eq!(client.data("list", json!({}))[0]["id"], json!(id));
    assert_eq!(client.data("ready", json!({}))[0]["id"], json!(id));
    assert_eq!(client.data("stats", json!({}))["total_issues"], 1);
    let operations = json!([
        {"operation": "create", "args": {"title": "b"}},
        {"operation": "show", "args": {"id": "none"}},
        {"operation": "create", "args": {"title": "c"}},
    ]);
    let batch = client.data("batch", json!({"operations": operations}));
    let results = batch["results"].as_array().unwrap();
    let succeeded: Vec<&Value> = results.iter().map(|result| &result["success"]).collect();
    assert_eq!(succeeded, [true, false]);
}
