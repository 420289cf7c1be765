//! Readiness: probes, and daemons that never become ready.

use std::time::Duration;

use harness_testing::assert_contains;
use harness_testing::processes::{is_running, wait_until};
use subject::daemon::{DaemonError, Options};

use crate::project::{Project, role, script};

#[tokio::test]
async fn a_daemon_that_exits_at_once_is_reported_with_its_status_and_last_lines() {
    let project = Project::with(
        "exits-at-once",
        &script("echo to stdout; echo the disk is full >&2; exit 3"),
    );
    let error = project.start("exits-at-once").await.unwrap_err();
    let DaemonError::ExitedEarly {
        status, last_lines, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (status.as_str(), last_lines.as_str()),
        ("exited with status 3", "to stdout\nthe disk is full")
    );
    assert_contains(
        &error.to_string(),
        &[
            "exits-at-once",
            "exited with status 3",
            "| the disk is full",
            "started as: sh -c",
        ],
    );
}

#[tokio::test]
async fn a_daemon_that_is_killed_before_it_is_ready_is_reported_with_the_signal() {
    let project = Project::with("kills-itself", &script("kill -s SEGV $$; exec sleep 1000"));
    let error = project.start("kills-itself").await.unwrap_err().to_string();
    assert_contains(
        &error,
        &[
            "was killed by SIGSEGV before it was ready",
            "it wrote nothing",
        ],
    );
}

#[tokio::test]
async fn a_daemon_that_is_never_ready_is_killed_and_the_error_says_what_was_waited_for() {
    let manifest = "run = ['sh', '-c', 'echo $$ >{dir}/pids; echo still thinking; sleep 1000; exit']\nready = { unix = '{socket}', timeout = '60s' }";
    let project = Project::with("never-ready", manifest);
    let prepared = project.prepare("never-ready").unwrap();
    let options = Options {
        ready_timeout: Some(Duration::from_millis(700)),
        ..Options::default()
    };
    let error = prepared.start(&[], &options).await.unwrap_err();
    let DaemonError::NotReady {
        waited_for, limit, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*limit, Duration::from_millis(700));
    assert_contains(waited_for, &["daemon.sock", "No such file"]);
    assert_contains(&error.to_string(), &["within 700ms", "`timeout`"]);
    // The script had written its id when it was killed, or was killed before it could.
    let pids = std::fs::read_to_string(project.dir("never-ready").join("pids")).unwrap_or_default();
    assert!(
        pids.trim().parse().is_ok_and(|pid| !is_running(pid)) || pids.is_empty(),
        "{pids}"
    );
}

#[tokio::test]
async fn every_kind_of_probe_says_what_it_waited_for() {
    for (ready, expected) in [
        ("{ tcp = '127.0.0.1:{port}' }", "a connection to 127.0.0.1:"),
        (
            "{ http = 'http://127.0.0.1:{port}/healthz' }",
            "/healthz, last: ",
        ),
        (
            "{ line = 'listening on' }",
            "the text \"listening on\" in its output",
        ),
    ] {
        let project = Project::with(
            "silent",
            &format!("run = ['sleep', '1000']\nready = {ready}"),
        );
        let options = Options {
            ready_timeout: Some(Duration::from_millis(20)),
            ..Options::default()
        };
        let error = project
            .prepare("silent")
            .unwrap()
            .start(&[], &options)
            .await
            .unwrap_err()
            .to_string();
        assert_contains(&error, &[expected, "within 20ms"]);
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let project = Project::with(
        "no-program",
        "run = ['{build}/nothing']\nready = { line = 'x' }",
    );
    let error = project.start("no-program").await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DaemonError::NotStarted { .. }), "{text}");
    assert_contains(&text, &["starting `", "/nothing`", "correct the path"]);
    for (name, keys, part) in [
        (
            "misspelled",
            "run = ['pyhton3']",
            "correct `pyhton3` in `run`, or install",
        ),
        (
            "no-folder",
            "run = ['true']\ncwd = '/no/where'",
            "correct `cwd`",
        ),
        (
            "no-permission",
            "run = ['./daemon.toml']",
            "chmod +x ./daemon.toml",
        ),
        (
            "background",
            "run = ['true']",
            "must keep it in the foreground",
        ),
    ] {
        let project = Project::with(name, &format!("{keys}\nready = {{ line = 'x' }}"));
        let error = project.start(name).await.unwrap_err().to_string();
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}

#[tokio::test]
async fn a_daemon_whose_address_another_program_has_is_not_started() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let project = Project::with(
        "occupied",
        &format!("run = ['sleep', '60']\nready = {{ tcp = '{address}' }}"),
    );
    let error = project.start("occupied").await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DaemonError::Occupied { .. }), "{text}");
    for part in [&address.to_string(), "{port}"] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[tokio::test]
async fn a_unix_socket_of_either_type_is_probed() {
    for kind in ["seqpacket", "stream"] {
        let project = Project::with(kind, &role(kind, "{ unix = '{socket}', timeout = '60s' }"));
        let mut daemon = project.start(kind).await.unwrap();
        let socket = daemon.endpoint().socket.clone().unwrap();
        assert!(socket.exists() && daemon.endpoint().port.is_some());
        // The probe connects and closes: nothing comes after it.
        // With one core, the test runner has begun the line with the name of the test.
        wait_until("the probe was seen", || {
            daemon.last_lines(1).ends_with("0 bytes")
        });
        daemon.stop().await;
        assert!(!is_running(daemon.pid().cast_signed()));
    }
}

#[tokio::test]
async fn an_http_probe_waits_for_a_good_status_and_the_metrics_can_be_scraped() {
    let manifest = role(
        "http",
        "{ http = 'http://127.0.0.1:{port}/healthz', timeout = '60s' }",
    );
    let project = Project::with(
        "http",
        &(manifest + "metrics = 'http://127.0.0.1:{port}/metrics'"),
    );
    let daemon = project.start("http").await.unwrap();
    let values = subject::prometheus::scrape(daemon.endpoint().metrics.as_deref().unwrap())
        .await
        .unwrap();
    // Three refused probes, one answered probe, and this request.
    assert_eq!(values["requests"], 5.0);
}

#[tokio::test]
async fn a_tcp_probe_and_two_runs_at_once_have_ports_and_directories_of_their_own() {
    let project = Project::with(
        "tcp",
        &role("http", "{ tcp = '127.0.0.1:{port}', timeout = '60s' }"),
    );
    let prepared = project.prepare("tcp").unwrap();
    let one = prepared.start(&[], &Options::default()).await.unwrap();
    let two = prepared.start(&[], &Options::default()).await.unwrap();
    assert_ne!(one.endpoint().port, two.endpoint().port);
    assert_ne!(one.log_path(), two.log_path());
    assert!(one.try_exit().is_none() && two.try_exit().is_none());
}
