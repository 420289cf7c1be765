//! Tests of the options and the configuration file, valid and invalid.

use std::fs;
use std::process::Output;

use crate::support::{Daemon, command};

use test_kit::assert_contains;

/// The configuration file of the original methodology, with free ports.
const SEED: &str = r#"
[server]
workers = 2
http_port = 0
tcp_nodelay = true
tcp_keepalive = true
backlog = 65535

[performance]
max_connections = 2000000
connection_timeout = 30
keep_alive_timeout = 60
request_buffer_size = 8192
response_buffer_size = 65536

[cache]
enabled = false

[logging]
level = "error"
"#;

#[test]
fn the_seeds_configuration_serves_and_says_how_to_hold_what_it_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("http.toml");
    fs::write(&file, SEED).unwrap();
    let mut daemon = Daemon::start(&format!("--config {} --workers 1", file.to_str().unwrap()));
    assert_eq!(daemon.get("/1kb.txt").body.len(), 1024);
    assert!(daemon.stop().success());
    let stderr = daemon.stderr();
    assert_contains(&stderr, &["of 2000000 connections", "--processes"]);
}

fn refused(arguments: &str) -> String {
    let Output { status, stderr, .. } = command()
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{arguments:?}: {stderr}");
    stderr
}

#[test]
fn a_wrong_file_is_answered_with_the_key_and_2() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("http.toml");
    for (text, words) in [
        ("[server]\nwrokers = 2", ["wrokers", "workers"]),
        ("[sever]\nworkers = 2", ["sever", "server"]),
        ("[server]\nworkers = 0", ["server.workers", "non-zero"]),
        ("[server]\nhttp_port = 70000", ["http_port", "65535"]),
        (
            "[cache]\nenabled = 'no'",
            ["cache.enabled", "true or false"],
        ),
        ("[logging]\nlevel = 'loud'", ["level", "warn"]),
        (
            "[performance]\nrequest_buffer_size = 1024",
            ["request_buffer_size", "8192"],
        ),
        ("[server]\ntls_cert = 'a.pem'", ["tls_key", "both"]),
    ] {
        fs::write(&file, text).unwrap();
        let stderr = refused(&format!("--config {}", file.to_str().unwrap()));
        assert!(
            words.iter().all(|word| stderr.contains(word)),
            "{text}: {stderr}"
        );
    }
    let stderr = refused("--config /nowhere/http.toml");
    assert_contains(&stderr, &["/nowhere/http.toml", "HTTP_DAEMON_CONFIG"]);
}

#[test]
fn a_wrong_option_is_answered_with_its_variable_and_2() {
    for (arguments, words) in [
        ("--workers 0", ["--workers", "HTTP_DAEMON_WORKERS"]),
        ("--bind here", ["--bind", "HTTP_DAEMON_BIND"]),
        (
            "--tcp-nodelay perhaps",
            ["--tcp-nodelay", "HTTP_DAEMON_TCP_NODELAY"],
        ),
        (
            "--logging-level loud",
            ["--logging-level", "HTTP_DAEMON_LOGGING_LEVEL"],
        ),
    ] {
        let stderr = refused(arguments);
        assert!(
            words.iter().all(|word| stderr.contains(word)),
            "{arguments:?}: {stderr}"
        );
    }
}

#[test]
fn an_option_goes_before_its_variable_and_that_before_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("http.toml");
    fs::write(&file, "[server]\nsink = true\nsink_body = 1\n").unwrap();
    let config = format!("--config {}", file.to_str().unwrap());
    assert_eq!(Daemon::start(&config).get("/").body.len(), 1);
    let by_variable = |command: &mut std::process::Command| {
        command.env("HTTP_DAEMON_SINK_BODY", "2");
    };
    assert_eq!(
        Daemon::start_by(&config, by_variable).get("/").body.len(),
        2
    );
    let typed = format!("{config} --sink-body 3");
    assert_eq!(Daemon::start_by(&typed, by_variable).get("/").body.len(), 3);
}

#[test]
fn a_port_that_somebody_has_is_not_shared() {
    let first = Daemon::start("");
    let port = first.http.port().to_string();
    let output = command()
        .args(["--http-port", &port, "--root"])
        .arg(first.www())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_contains(&stderr, &[&port, "--http-port"]);
}
