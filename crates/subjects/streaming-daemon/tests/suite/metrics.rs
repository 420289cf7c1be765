//! Tests of `/metrics` and `/healthz` over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{PAYLOAD, start};

fn request(address: &str, line: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    write!(
        client,
        "{line} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_page_shows_what_happened() {
    let daemon = start(|_| {});
    daemon.ask(PAYLOAD);
    daemon.ask(PAYLOAD);
    let page = request(&daemon.metrics_addr, "GET /metrics");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    assert!(
        page.contains("content-type: text/plain; version=0.0.4"),
        "{page}"
    );
    for line in [
        "daemon_active_connections 0",
        "daemon_active_streams 0",
        "daemon_connections_total 2",
        "daemon_connections_rejected_total 0",
        "daemon_handoffs_total 2",
        "daemon_handoff_errors_total{reason=\"empty\"} 0",
        "daemon_stream_errors_total{reason=\"network\"} 0",
        "daemon_bytes_sent_total 2452",
        "daemon_chunks_sent_total 36",
        "daemon_backend_requests_total{backend=\"mock\"} 2",
        "daemon_backend_errors_total{backend=\"mock\"} 0",
        "daemon_handoff_duration_seconds_count 2",
        "daemon_stream_duration_seconds_count 2",
        "daemon_backend_duration_seconds_count{backend=\"mock\"} 2",
        "daemon_backend_ttfb_seconds_count{backend=\"mock\"} 2",
    ] {
        assert!(
            page.lines().any(|found| found == line),
            "{line} is not in\n{page}"
        );
    }
    // 17 delays of a millisecond each.
    assert!(
        page.contains("daemon_stream_duration_seconds_bucket{le=\"0.01\"} 0\n"),
        "{page}"
    );
}

#[test]
fn other_paths_and_methods_are_answered_as_http_wants_it() {
    let daemon = start(|_| {});
    let answer = |line| request(&daemon.metrics_addr, line);
    assert!(answer("GET /healthz").ends_with("\r\n\r\nok\n"));
    assert!(answer("GET /").starts_with("HTTP/1.1 404 "));
    let refused = answer("POST /metrics");
    assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("allow: GET, HEAD"));
    assert!(request(&daemon.metrics_addr, "GET").starts_with("HTTP/1.1 400 "));
}
