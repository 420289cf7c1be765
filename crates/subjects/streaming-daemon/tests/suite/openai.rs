//! Tests of the backend `openai` with a mock API.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use daemon_kit::MetricsPage;
use mock_llm::{Counts, Listener, Pattern, Server, Settings};
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use streaming_daemon::{Config, Http, Key, OpenAiConfig};
use tempfile::TempDir;
use test_kit::assert_contains;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use test_kit::wait_until;

use crate::process::Process;
use crate::support::{Running, client, pass, read_all, start};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\
    Connection: close\r\nX-Accel-Buffering: no\r\n\r\n";
const DONE: &str = "data: [DONE]\n\n";
const BAD_GATEWAY: &str =
    "HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const GATEWAY_TIMEOUT: &str =
    "HTTP/1.1 504 Gateway Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
const TOKENS: u32 = 12;
const BOTH_HTTP: [Http; 2] = [Http::One, Http::Two];

/// A backend in a thread of this process; it ends with the test.
struct Llm {
    base: String,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Transport {
    Tcp,
    Unix,
}

impl Llm {
    fn start(transport: Transport, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            pattern: Pattern::Plain,
            tokens: TOKENS,
            delay: Duration::from_millis(1),
            key: None,
        };
        change(&mut settings);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("llm.sock");
        let server = Server::new(settings);
        let counts = server.counts();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::spawn(move || {
            Runtime::new().unwrap().block_on(async {
                let listener = match transport {
                    Transport::Tcp => Listener::tcp("127.0.0.1:0".parse().unwrap()).await,
                    Transport::Unix => Listener::unix(&path),
                };
                let listener = listener.unwrap();
                tell.send(listener.base()).unwrap();
                server.run(listener, async { drop(stopped.await) }).await;
            });
        });
        Self {
            base: told.recv().unwrap(),
            counts,
            stop: Some(stop),
            thread: Some(thread),
            _folder: folder,
        }
    }
}

impl Drop for Llm {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().unwrap().join();
    }
}

/// Returns the configuration for this backend.
fn backend(base: &str, http: Http) -> OpenAiConfig {
    OpenAiConfig {
        base: base.parse().unwrap(),
        http,
        key: None,
        model: None,
        timeout: Duration::from_secs(30),
    }
}

fn start_on(base: &str, http: Http, change: impl FnOnce(&mut Config)) -> Running {
    start(|config| {
        config.openai = Some(backend(base, http));
        change(config);
    })
}

fn payload(pattern: &str) -> Vec<u8> {
    format!(r#"{{"prompt":"p","test_pattern":"{pattern}"}}"#).into_bytes()
}

fn event(content: &str) -> String {
    format!("data: {}\n\n", serde_json::json!({ "content": content }))
}

fn events(pattern: Pattern, count: u32) -> String {
    (0..count)
        .map(|index| event(&pattern.content(index)))
        .collect()
}

/// Returns the expected response to the pattern of this name.
fn expected(name: &str) -> String {
    let pattern: Pattern = name.parse().unwrap();
    let contents = events(pattern, pattern.contents(TOKENS));
    match pattern {
        Pattern::Status(_) | Pattern::NotSse => BAD_GATEWAY.to_owned(),
        Pattern::StallHead => GATEWAY_TIMEOUT.to_owned(),
        Pattern::Stall | Pattern::AbortAfter(_) | Pattern::NoFinish | Pattern::ErrorEvent => {
            format!("{HEAD}{contents}")
        }
        Pattern::FinishLength => {
            let finish = "data: {\"content\":\"\",\"finish_reason\":\"length\"}\n\n";
            format!("{HEAD}{contents}{finish}{DONE}")
        }
        _ => format!("{HEAD}{contents}{DONE}"),
    }
}

fn for_each_way(check: impl Fn(Transport, Http)) {
    for transport in [Transport::Tcp, Transport::Unix] {
        for http in BOTH_HTTP {
            check(transport, http);
        }
    }
}

fn backend_metric(daemon: &Running, name: &str) -> u64 {
    daemon.metric(&format!("daemon_backend_{name}{{backend=\"openai\"}}"))
}

#[test]
fn a_client_with_unread_data_reads_its_whole_response() {
    let llm = Llm::start(Transport::Unix, |_| {});
    for (base, end) in [(llm.base.as_str(), DONE), ("unix:/none", BAD_GATEWAY)] {
        let daemon = start_on(base, Http::One, |_| {});
        let (mut ours, theirs) = client();
        ours.write_all(b"unread").unwrap();
        pass(&daemon.connect(), b"{}", &[theirs.as_raw_fd()]);
        drop(theirs);
        assert!(read_all(ours).ends_with(end), "{base}");
    }
}

#[test]
fn every_pattern_comes_through_on_every_way_to_the_backend() {
    let whole = [
        "plain",
        "unicode",
        "byte-chunks",
        "4k-chunks",
        "quirks",
        "finish-only",
        "linger",
    ];
    let broken = [
        "abort-after-3",
        "abort-after-0",
        "no-finish",
        "error-event",
        "status-400",
        "status-503",
        "not-sse",
    ];
    for_each_way(|transport, http| {
        let llm = Llm::start(transport, |_| {});
        let daemon = start_on(&llm.base, http, |_| {});
        for name in whole.iter().chain(&["finish-length"]).chain(&broken) {
            let answer = daemon.ask(&payload(name));
            assert_eq!(
                answer,
                expected(name),
                "{name} over {transport:?}, {http:?}"
            );
        }
        let failed = broken.len() as u64;
        let completed = whole.len() as u64 + 1;
        assert_eq!(daemon.stream_errors("backend"), failed);
        assert_eq!(backend_metric(&daemon, "errors_total"), failed);
        assert_eq!(
            backend_metric(&daemon, "requests_total"),
            failed + completed
        );
        assert_eq!(backend_metric(&daemon, "duration_seconds_count"), completed);
        // Three of the broken ones had a content.
        assert_eq!(backend_metric(&daemon, "ttfb_seconds_count"), completed + 3);
        // Each complete one has this many events, and one of them a finish reason too.
        let chunks = u64::from(TOKENS) * (completed + 2) - 1 + 3 + 1;
        assert_eq!(daemon.metric("daemon_chunks_sent_total"), chunks);
        let summary = daemon.stop();
        assert_eq!((summary.completed, summary.failed), (completed, failed));
    });
}

#[test]
fn a_silent_backend_is_given_up_before_the_head_with_504_and_after_it_without_an_end() {
    for_each_way(|transport, http| {
        let llm = Llm::start(transport, |_| {});
        // The head of the second must come in time on a busy machine.
        for (name, timeout_ms) in [("stall-head", 200), ("stall", 2_000)] {
            let daemon = start_on(&llm.base, http, |config| {
                let openai = config.openai.as_mut().unwrap();
                openai.timeout = Duration::from_millis(timeout_ms);
            });
            let answer = daemon.ask(&payload(name));
            assert_eq!(
                answer,
                expected(name),
                "{name} over {transport:?}, {http:?}"
            );
            assert_eq!(daemon.stream_errors("backend_timeout"), 1);
            assert_eq!(backend_metric(&daemon, "errors_total"), 1);
        }
        wait_until("the end of both requests", || llm.counts.canceled() == 2);
    });
}

#[test]
fn a_backend_that_is_not_there_is_answered_502() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    for base in [
        &*address,
        "unix:/no/such/llm.sock",
        "http://no-such-host.invalid",
    ] {
        for http in [Http::One, Http::Two, Http::Auto] {
            let daemon = start_on(base, http, |_| {});
            assert_eq!(daemon.ask(b"{}"), BAD_GATEWAY, "{base}");
        }
    }
}

/// The model echoes its request, and rejects requests without the key.
#[test]
fn the_request_has_what_the_handoff_asks_for_and_the_key() {
    for http in BOTH_HTTP {
        let llm = Llm::start(Transport::Tcp, |settings| {
            settings.pattern = Pattern::Echo;
            settings.key = Some("secret".to_owned());
        });
        let daemon = start_on(&llm.base, http, |config| {
            let openai = config.openai.as_mut().unwrap();
            openai.key = Some(Key::new("secret").unwrap());
            openai.model = Some("small".to_owned());
        });
        for (payload, sent) in [
            (
                r#"{"prompt":"hi","user_id":1,"response_headers":{"X-A":"1"}}"#,
                r#"{"model":"small","messages":[{"role":"user","content":"hi"}],"stream":true}"#,
            ),
            (
                r#"{"messages":[{"role":"user","content":"é"}],"model":"big","max_tokens":3,"temperature":0.5}"#,
                r#"{"model":"big","messages":[{"role":"user","content":"é"}],"stream":true,"max_tokens":3,"temperature":0.5}"#,
            ),
            (
                "\0",
                r#"{"model":"small","messages":[{"role":"user","content":""}],"stream":true}"#,
            ),
        ] {
            let answer = daemon.ask(payload.as_bytes());
            assert!(
                answer.ends_with(&format!("{}{DONE}", event(sent))),
                "{answer}"
            );
            assert_eq!(
                answer.contains("\r\nX-A: 1\r\n\r\n"),
                payload.contains("X-A")
            );
        }
        assert_eq!(daemon.handoff_errors("invalid_json"), 0);
        let without_a_key = start_on(&llm.base, http, |_| {});
        assert_eq!(without_a_key.ask(b"{}"), BAD_GATEWAY);
    }
}

#[test]
fn a_payload_of_the_wrong_shape_is_counted_and_asks_for_nothing() {
    let llm = Llm::start(Transport::Unix, |settings| settings.pattern = Pattern::Echo);
    let daemon = start_on(&llm.base, Http::One, |_| {});
    let nothing = r#"{"messages":[{"role":"user","content":""}],"stream":true}"#;
    for payload in [
        "hello",
        r#"{"prompt":1}"#,
        r#"{"messages":"hi"}"#,
        r#"{"max_tokens":"1"}"#,
    ] {
        let answer = daemon.ask(payload.as_bytes());
        assert_eq!(
            answer,
            format!("{HEAD}{}{DONE}", event(nothing)),
            "{payload}"
        );
    }
    assert_eq!(daemon.handoff_errors("invalid_json"), 4);
}

#[test]
fn connections_are_used_again() {
    for_each_way(|transport, http| {
        let llm = Llm::start(transport, |settings| settings.delay = Duration::ZERO);
        let daemon = start_on(&llm.base, http, |_| {});
        for count in 1..=20 {
            assert_eq!(daemon.ask(b"{}"), expected("plain"));
            wait_until("the end", || llm.counts.finished() == count);
        }
        // Three, because a client sees its end a moment before its connection is free.
        let opened = llm.counts.connections();
        assert!(opened <= 3, "{opened} over {transport:?}, {http:?}");
    });
}

#[test]
fn a_backend_that_closed_its_idle_connections_is_connected_to_again() {
    for http in BOTH_HTTP {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("llm.sock");
        let link = |llm: &Llm| {
            let _ = std::fs::remove_file(&path);
            let target = llm.base.strip_prefix("unix:").unwrap();
            std::os::unix::fs::symlink(target, &path).unwrap();
        };
        let first = Llm::start(Transport::Unix, |_| {});
        link(&first);
        let daemon = start_on(&format!("unix:{}", path.display()), http, |_| {});
        assert_eq!(daemon.ask(b"{}"), expected("plain"));
        drop(first);
        let second = Llm::start(Transport::Unix, |_| {});
        link(&second);
        // Until the daemon has noticed that its connection is closed, a request may be lost with it: it is not sent twice.
        wait_until("a new connection", || {
            daemon.ask(b"{}") == expected("plain")
        });
        for _ in 0..2 {
            assert_eq!(daemon.ask(b"{}"), expected("plain"), "{http:?}");
        }
    }
}

#[test]
fn a_client_that_leaves_cancels_its_request_even_while_the_backend_is_silent() {
    for_each_way(|transport, http| {
        let llm = Llm::start(transport, |_| {});
        let daemon = start_on(&llm.base, http, |_| {});
        let mut after_the_head = daemon.hand_over(&payload("stall"));
        after_the_head.read_exact(&mut [0; 119]).unwrap();
        let before_the_head = daemon.hand_over(&payload("stall-head"));
        wait_until("two requests", || llm.counts.requests() == 2);
        assert_eq!(daemon.metric("daemon_active_streams"), 2);
        drop((after_the_head, before_the_head));
        let awaited = format!("both to be noticed over {transport:?} and {http:?}");
        wait_until(&awaited, || {
            daemon.stream_errors("client_disconnected") == 2
        });
        let awaited = format!("both to be canceled over {transport:?} and {http:?}");
        wait_until(&awaited, || llm.counts.canceled() == 2);
        assert_eq!(backend_metric(&daemon, "errors_total"), 0);
        // The connection is still usable for others.
        assert_eq!(daemon.ask(b"{}"), expected("plain"));
    });
}

/// A client whose socket buffer is as small as the kernel allows.
fn hand_over_narrow_client(daemon: &Running, payload: &[u8]) -> UnixStream {
    let (ours, theirs) = client();
    setsockopt(&theirs, sockopt::SndBuf, &0).unwrap();
    pass(&daemon.connect(), payload, &[theirs.as_raw_fd()]);
    ours
}

/// Ten clients that do not read 2 MiB each, all on one connection with HTTP/2: the memory held for them is bounded, and
/// the backend waits.
#[test]
fn slow_clients_hold_back_their_own_requests_and_nobody_else() {
    const SLOW: u64 = 10;
    const PIECES: u32 = 512;
    for_each_way(|transport, http| {
        let llm = Llm::start(transport, |settings| {
            settings.tokens = PIECES;
            settings.delay = Duration::ZERO;
        });
        let daemon = start_on(&llm.base, http, |_| {});
        let payload = payload("4k-chunks");
        let narrow = |_| hand_over_narrow_client(&daemon, &payload);
        let mut slow: Vec<_> = (0..SLOW).map(narrow).collect();
        wait_until("all requests", || llm.counts.requests() == SLOW);
        // Until the backend can send no more. If this is detected too early, the bound holds all the more.
        let mut before = u64::MAX;
        wait_until("a standstill", || {
            // A standstill is that nothing changes for a while.
            thread::sleep(Duration::from_millis(30));
            std::mem::replace(&mut before, llm.counts.sent()) == before
        });
        // Over TCP the kernel alone buffers megabytes for the connection of one stream.
        if (transport, http) != (Transport::Tcp, Http::One) {
            let per_stream = llm.counts.sent() / SLOW;
            assert!(
                per_stream < 1 << 20,
                "{per_stream} by {transport:?}, {http:?}"
            );
        }
        for _ in 0..5 {
            let answer = daemon.ask(br#"{"test_pattern":"plain"}"#);
            assert!(answer.ends_with(DONE));
        }
        // None of them lost a byte.
        let contents = events(Pattern::FourKChunks, PIECES);
        let last = read_all(slow.pop().unwrap());
        assert!(last == format!("{HEAD}{contents}{DONE}"), "{}", last.len());
    });
}

#[test]
fn a_client_that_never_reads_runs_into_the_write_timeout_and_cancels_its_request() {
    for http in BOTH_HTTP {
        let llm = Llm::start(Transport::Unix, |settings| {
            settings.tokens = 2_000;
            settings.delay = Duration::ZERO;
        });
        let daemon = start_on(&llm.base, http, |config| {
            config.write_timeout = Duration::from_millis(200);
        });
        let _idle = hand_over_narrow_client(&daemon, &payload("4k-chunks"));
        wait_until("the timeout", || daemon.stream_errors("timeout") == 1);
        wait_until("the cancel", || llm.counts.canceled() == 1);
    }
}

#[test]
fn five_hundred_streams_at_once_are_all_whole() {
    const MANY: u64 = 500;
    const PIECES: u32 = 4;
    let contents = events(Pattern::FourKChunks, PIECES);
    let expected = format!("{HEAD}{contents}{DONE}");
    for_each_way(|transport, http| {
        let llm = Llm::start(transport, |settings| {
            settings.tokens = PIECES;
            settings.delay = Duration::ZERO;
        });
        let daemon = start_on(&llm.base, http, |config| {
            config.write_timeout = Duration::from_secs(3600);
        });
        // None of them ends before its client reads.
        let payload = payload("4k-chunks");
        let narrow = |_| hand_over_narrow_client(&daemon, &payload);
        let clients: Vec<_> = (0..MANY).map(narrow).collect();
        wait_until("all requests", || llm.counts.requests() == MANY);
        for client in clients {
            assert!(read_all(client) == expected);
        }
        let connections = llm.counts.connections();
        let most = if http == Http::Two { 7 } else { MANY };
        assert!(
            connections <= most,
            "{connections} over {transport:?}, {http:?}"
        );
        let summary = daemon.stop();
        assert_eq!((summary.completed, summary.failed), (MANY, 0));
        assert_eq!(summary.peak_concurrent, MANY);
    });
}

#[test]
fn above_the_limit_clients_are_answered_503_and_the_backend_is_not_asked() {
    let llm = Llm::start(Transport::Unix, |_| {});
    let daemon = start_on(&llm.base, Http::One, |config| config.max_connections = 1);
    let held = daemon.hand_over(&payload("stall"));
    wait_until("the request", || llm.counts.requests() == 1);
    assert!(daemon.ask(b"{}").starts_with("HTTP/1.1 503 "));
    drop(held);
    wait_until("the free stream slot", || {
        daemon.metric("daemon_active_streams") == 0
    });
    assert_eq!(daemon.ask(b"{}"), expected("plain"));
    assert_eq!(llm.counts.requests(), 2);
}

#[test]
fn streams_may_finish_after_the_shutdown_began_and_those_that_do_not_are_canceled() {
    for http in BOTH_HTTP {
        let llm = Llm::start(Transport::Unix, |settings| {
            settings.delay = Duration::from_millis(10)
        });
        let daemon = start_on(&llm.base, http, |config| {
            // Twenty streams of 0.2 s must end within it on a busy machine.
            config.shutdown_grace = Duration::from_secs(4);
        });
        let metrics = Arc::clone(&daemon.metrics);
        let whole: Vec<_> = (0..20).map(|_| daemon.hand_over(b"{}")).collect();
        let stalled = daemon.hand_over(&payload("stall"));
        wait_until("the requests", || llm.counts.requests() == 21);
        let summary = daemon.stop();
        assert_eq!((summary.started, summary.completed), (21, 20));
        for client in whole {
            assert_eq!(read_all(client), expected("plain"));
        }
        assert_eq!(read_all(stalled), HEAD);
        wait_until("the cancel", || llm.counts.canceled() == 1);
        let canceled = "daemon_stream_errors_total{reason=\"canceled\"} 1\n";
        assert!(metrics.render(&MetricsPage::new()).contains(canceled));
        assert!(
            metrics
                .render(&MetricsPage::new())
                .contains("daemon_active_streams 0\n")
        );
    }
}

#[test]
fn auto_finds_out_what_the_backend_speaks() {
    let llm = Llm::start(Transport::Tcp, |settings| {
        settings.delay = Duration::from_millis(10)
    });
    let daemon = start_on(&llm.base, Http::Auto, |_| {});
    // Of requests that come before the first connection is open, two may open one each.
    assert_eq!(daemon.ask(b"{}"), expected("plain"));
    let clients: Vec<_> = (0..50).map(|_| daemon.hand_over(b"{}")).collect();
    for client in clients {
        assert_eq!(read_all(client), expected("plain"));
    }
    // One connection to find out the version, and one for all streams.
    assert_eq!(llm.counts.connections(), 2);

    let body = format!(
        "data: {}\n\ndata: [DONE]\n\n",
        r#"{"choices":[{"delta":{"content":"a"}}]}"#
    );
    let old = canned(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream ; x=y\r\nConnection: close\r\n\r\n{body}"
    ));
    let daemon = start_on(&old, Http::Auto, |_| {});
    for _ in 0..2 {
        assert_eq!(daemon.ask(b"{}"), format!("{HEAD}{}{DONE}", event("a")));
    }
}

/// Starts an HTTP/1.1 server that sends one response to every request that ends with an empty line and a body, and 400
/// to everything else. It runs as long as the test program.
fn canned(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut request) = (client.unwrap(), Vec::new());
            let mut buffer = [0; 4096];
            while !request.ends_with(b"}") && !request.starts_with(b"PRI") {
                match client.read(&mut buffer) {
                    Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let refused = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
            let is_post = request.starts_with(b"POST ");
            let answer = if is_post { &answer } else { refused };
            // The daemon may have read enough.
            let _ = client.write_all(answer.as_bytes());
        }
    });
    base
}

/// Without the limit the response would be complete.
#[test]
fn a_line_of_more_than_1_mib_is_given_up() {
    for (length, rest) in [(1_000_000, DONE), (2_000_000, "")] {
        let comment = "x".repeat(length);
        let base = canned(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: {comment}\n{DONE}"
        ));
        let daemon = start_on(&base, Http::One, |_| {});
        assert_eq!(daemon.ask(b"{}"), format!("{HEAD}{rest}"));
        assert_eq!(daemon.stream_errors("backend"), u64::from(rest.is_empty()));
    }
}

#[test]
fn a_connection_that_breaks_or_speaks_no_http_is_a_failure_of_the_backend() {
    for (answer, expected) in [
        ("", BAD_GATEWAY),
        ("SSH-2.0-OpenSSH_9.2\r\n", BAD_GATEWAY),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000\r\n\r\n: x\n",
            HEAD,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: nonsense\n\n",
            HEAD,
        ),
    ] {
        let daemon = start_on(&canned(answer.to_owned()), Http::One, |_| {});
        assert_eq!(daemon.ask(b"{}"), expected, "{answer}");
        assert_eq!(daemon.stream_errors("backend"), 1);
    }
}

/// Tests the command itself, with a key that must not be shown.
#[test]
fn sigterm_lets_open_streams_finish_and_the_key_is_nowhere_printed() {
    let key = "sk-not-to-be-seen";
    let llm = Llm::start(Transport::Unix, |settings| {
        settings.delay = Duration::from_millis(50);
        settings.key = Some(key.to_owned());
    });
    let mut daemon = Process::start(
        "",
        &[
            ("DAEMON_BACKEND_PROVIDER", "openai"),
            ("DAEMON_OPENAI_BASE", &llm.base),
            ("DAEMON_OPENAI_KEY", key),
        ],
    );
    let clients: Vec<_> = (0..50).map(|_| daemon.hand_over()).collect();
    wait_until("the requests", || llm.counts.requests() == 50);
    daemon.signal(Signal::SIGTERM);
    for client in clients {
        assert_eq!(read_all(client), expected("plain"));
    }
    let (code, printed) = daemon.wait();
    assert_eq!(code, Some(0));
    assert_contains(&printed, &["started: 50\ncompleted: 50\nfailed: 0\n"]);
    let notes = daemon.notes();
    assert!(!printed.contains(key) && !notes.contains(key), "{notes}");
    assert_eq!(llm.counts.finished(), 50);
}
