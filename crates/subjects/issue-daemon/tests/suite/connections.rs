//! Clients that send too much, too little, or nothing; and too many of them.

use std::io::{ErrorKind, Write as _};
use std::net::Shutdown;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use test_kit::wait_until;

use crate::support::{Client, Daemon};

#[test]
fn a_line_of_100_mb_is_refused_and_the_reason_can_be_read() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        match client.stream.write_all(&piece) {
            Ok(()) => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                ) =>
            {
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let answer = client.answer().expect("the reason");
    assert_eq!(answer["code"], "too_large", "{answer}");
    assert!(client.answer().is_none(), "the connection is closed");
    daemon.client().data("ping", Value::Null);
}

#[test]
fn half_a_request_and_silence_is_refused_and_closed() {
    let daemon = Daemon::new(&["--stall-timeout", "1"]);
    let mut client = daemon.client();
    let mut idle = daemon.client();
    client.data("ping", Value::Null);
    client.stream.write_all(b"{\"operation\":\"pi").unwrap();
    let answer = client.answer().expect("the reason");
    assert_eq!(answer["code"], "invalid_request");
    assert!(
        answer["error"].as_str().unwrap().contains("newline"),
        "{answer}"
    );
    assert!(client.answer().is_none());
    // A connection without an unfinished line may be silent for as long as it likes.
    idle.data("ping", Value::Null);
}

#[test]
fn requests_are_carried_out_also_if_the_client_has_left() {
    let daemon = Daemon::new(&[]);
    for round in 0..20 {
        let mut client = daemon.client();
        for number in 0..10 {
            client.send(&json!({"operation": "create", "args": {"title": "a", "id": format!("x-{round}-{number}")}})).unwrap();
        }
        // The daemon reads what was sent before the end. It may be unable to send the answers.
        drop(client);
    }
    let mut client = daemon.client();
    wait_until("all were created", || {
        client.data("count", json!({}))["count"] == 200
    });
}

#[test]
fn a_client_that_ends_its_side_gets_its_answers() {
    let daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    for _ in 0..100 {
        client
            .send(&json!({"operation": "create", "args": {"title": "a"}}))
            .unwrap();
    }
    client.stream.write_all(b"half a line").unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..100 {
        assert_eq!(client.answer().expect("an answer")["success"], true);
    }
    assert!(client.answer().is_none());
}

#[test]
fn a_client_that_reads_no_answers_is_not_read_either_and_then_closed() {
    let daemon = Daemon::new(&["--stall-timeout", "1"]);
    let mut other = daemon.client();
    other.data(
        "create",
        json!({"title": "a", "id": "x", "description": "d".repeat(20_000)}),
    );
    let mut client = daemon.client();
    client.stream.set_nonblocking(true).unwrap();
    let line = "{\"operation\":\"show\",\"args\":{\"id\":\"x\"}}\n".repeat(100);
    let mut sent = 0_usize;
    wait_until("the connection was closed", || {
        match client.stream.write(line.as_bytes()) {
            Ok(bytes) => {
                sent += bytes;
                false
            }
            Err(error) => matches!(
                error.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            ),
        }
    });
    // Its answers would be 500 times as long as its requests.
    assert!(sent < 4 << 20, "{sent} bytes were read from it");
    other.data("ping", Value::Null);
}

#[test]
fn the_memory_of_long_answers_is_given_back() {
    // Its lists have no pages.
    let daemon = Daemon::new(&["--durability", "none", "--compat"]);
    let mut client = daemon.client();
    let args = json!({"title": "t", "description": "d".repeat(3_000)});
    let operations = vec![json!({"operation": "create", "args": args}); 1_000];
    for _ in 0..4 {
        client.data("batch", json!({ "operations": operations }));
    }
    let rss_mib = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = rss.unwrap().trim().strip_suffix(" kB").unwrap();
        kib.parse::<u64>().unwrap() >> 10
    };
    let before = rss_mib();
    // 13 MB each.
    for _ in 0..3 {
        client.data("list", json!({}));
    }
    wait_until("most of it is given back", || rss_mib() < before + 25);
}

#[test]
fn ten_thousand_connections_are_served_and_the_next_one_is_told_why_not() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let daemon = Daemon::new(&[]);
    let mut clients = Vec::new();
    for _ in 0..10_000 {
        clients.push(std::os::unix::net::UnixStream::connect(&daemon.socket).unwrap());
    }
    let mut last = daemon.client();
    let answer = last.answer().expect("the reason");
    assert_eq!(answer["code"], "busy", "{answer}");
    assert!(last.answer().is_none());
    drop(clients.pop());
    let mut client = None;
    wait_until("a connection is free", || {
        let mut new = daemon.client();
        // Either side may be first to notice.
        let served = new.send(&json!({"operation": "ping"})).is_ok()
            && new.answer().is_some_and(|answer| answer["success"] == true);
        client = Some(new);
        served
    });
    let status = client.unwrap().data("status", json!({}));
    assert_eq!(status["connections"], 10_000);
    drop(clients);
}

#[test]
fn too_many_writes_are_answered_busy_in_their_order() {
    let daemon = Daemon::new(&["--max-queued", "1", "--max-in-flight", "2000"]);
    let mut client = daemon.client();
    let mut lines = String::new();
    for number in 0..1_000 {
        let request = json!({"operation": "create", "args": {"title": "a"}, "request_id": number});
        lines.push_str(&format!("{request}\n"));
    }
    client.stream.write_all(lines.as_bytes()).unwrap();
    let (mut created, mut busy) = (0, 0);
    for number in 0..1_000 {
        let answer = client.answer().expect("an answer");
        assert_eq!(answer["request_id"], number);
        match answer["code"].as_str() {
            None => created += 1,
            Some(code) => {
                assert_eq!(code, "busy", "{answer}");
                busy += 1;
            }
        }
    }
    assert!(created >= 1 && busy >= 1, "{created} created, {busy} busy");
    assert_eq!(client.data("count", json!({}))["count"], created);
}

#[test]
fn a_request_to_stop_answers_what_was_accepted() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut daemon = Daemon::new(&[]);
        let mut clients: Vec<Client> = (0..8).map(|_| daemon.client()).collect();
        for client in &mut clients {
            client.data("ping", Value::Null);
            for _ in 0..200 {
                client
                    .send(&json!({"operation": "create", "args": {"title": "a"}}))
                    .unwrap();
            }
        }
        daemon.signal(signal);
        let mut acknowledged = 0;
        for client in &mut clients {
            while let Some(answer) = client.answer() {
                assert_eq!(answer["success"], true, "{answer}");
                acknowledged += 1;
            }
        }
        assert_eq!(daemon.wait(), (Some(0), String::new()));
        assert!(!daemon.socket.exists(), "its socket is removed");
        let log = daemon.database.with_file_name("issues.db-wal");
        assert!(!log.exists(), "the log is in the database");
        assert_eq!(daemon.reader().stats().unwrap().total, acknowledged);
    }
}

#[test]
fn the_operation_shutdown_is_a_request_to_stop() {
    let mut daemon = Daemon::new(&[]);
    let mut client = daemon.client();
    client.create("a");
    assert_eq!(client.data("shutdown", json!({})), json!({}));
    assert!(client.answer().is_none());
    assert_eq!(daemon.wait(), (Some(0), String::new()));
}
