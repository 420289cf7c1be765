//! Tests of the program with each kind of load: its counts match the servers' counts, to the byte.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/scripted.rs"]
mod scripted;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, socket,
};
use serde_json::Value;

use crate::scripted::{Scripted, Step};

const FIVE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const ENGINES: [&str; 2] = ["wire", "hyper"];

/// Starts a server that sends the same response to every request.
fn server() -> Scripted {
    Scripted::start(vec![Step::Expect, Step::Send(FIVE.to_vec()), Step::Again])
}

fn url_of(server: &Scripted) -> String {
    format!("http://{}/x", server.address())
}

/// A completed run.
struct Ran(Value);

impl Ran {
    fn number(&self, pointer: &str) -> u64 {
        let number = self.0.pointer(pointer).and_then(Value::as_u64);
        number.unwrap_or(0)
    }

    fn count(&self, name: &str) -> u64 {
        self.number(&format!("/counts/{name}"))
    }

    /// Returns the number of started operations, of successful ones, and of connections.
    fn sums(&self) -> (u64, u64, u64) {
        let of = |name: &str| self.number(&format!("/operations/{name}"));
        (of("started"), of("ok"), self.count("opened"))
    }

    /// Returns the number of started requests, of this many due ones: a busy machine may have missed a few. All started
    /// requests succeeded.
    #[track_caller]
    fn started_of(&self, due: u64) -> u64 {
        let of = |name: &str| self.number(&format!("/operations/{name}"));
        let (started, all) = (of("started"), &self.0["operations"]);
        assert_eq!(started + of("missed"), due, "{all}");
        assert_eq!(of("ok"), started, "{all}: {}", self.0["errors"]);
        assert!(started >= due / 2, "{all}");
        started
    }

    /// Checks that at least half of this many due requests were started, with any outcome.
    #[track_caller]
    fn started_of_any(&self, due: u64) {
        let of = |name: &str| self.number(&format!("/operations/{name}"));
        let all = &self.0["operations"];
        assert_eq!(of("started") + of("missed"), due, "{all}");
        assert!(of("started") >= due / 2, "{all}");
    }

    /// Returns the counters that must not depend on the kind of load.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        let names = ["answers", "body_bytes", "bytes", "bytes_sent", "opened"];
        names.map(|name| (name, self.count(name))).to_vec()
    }
}

/// Runs the program with this limit of open files per process.
fn run_within(files: Option<u64>, arguments: &[&str]) -> Ran {
    let out = tempfile::tempdir().unwrap();
    let limit = files.map_or_else(String::new, |files| format!("ulimit -n {files}; "));
    let output = Command::new("sh")
        .args(["-c", &format!("{limit}exec \"$@\""), "sh"])
        .arg(assert_cmd::cargo::cargo_bin!("http-load"))
        .args(["--quiet", "--into", "run"])
        .args(arguments)
        .current_dir(&out)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(out.path().join("run/result.json"));
    let text = text.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"));
    Ran(serde_json::from_str(&text).unwrap())
}

fn run(arguments: &[&str]) -> Ran {
    run_within(None, arguments)
}

/// Runs a plan of one group, with these settings. Its operations are numbered, and it ends when they have ended:
/// however busy the machine is, none is missed.
fn run_plan(files: Option<u64>, group: &str, driver: &str, arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    let plan = format!(
        "name = \"test\"\n[timeline]\nwarmup = \"1s\"\nmeasure = \"60s\"\ndrain = \"31s\"\n\
         [[groups]]\nname = \"all\"\n{group}\n[driver]\n{driver}\n"
    );
    std::fs::write(&path, plan).unwrap();
    let plan = ["--plan", path.to_str().unwrap()];
    run_within(files, &[&plan[..], arguments].concat())
}

/// Runs clients with this many requests each; all requests count.
fn run_users(users: u64, ops: u64, driver: &str, arguments: &[&str]) -> Ran {
    let group = format!("workers = {users}\nops = {ops}");
    let at_once = [&["--set", "timeline.warmup=0s"], arguments].concat();
    run_plan(None, &group, driver, &at_once)
}

#[test]
fn processes_and_source_addresses_share_a_load_exactly() {
    for engine in ENGINES {
        let server = server();
        let driver = format!("engine = \"{engine}\"\nsource_addresses = [\"auto\"]");
        let url = url_of(&server);
        let words = [url.as_str(), "--processes", "2", "--threads", "1"];
        let ran = run_users(6, 20, &driver, &words);
        assert_eq!(ran.number("/processes"), 2);
        assert_eq!(ran.sums(), (120, 120, 6), "{engine}: {}", ran.0["errors"]);
        assert_eq!(ran.count("bytes"), 120 * FIVE.len() as u64);
        let peers = server.peers();
        let auto = IpAddr::V4(Ipv4Addr::new(127, 64, 0, 1));
        let from_auto = peers.iter().filter(|peer| **peer == auto).count();
        // The kernel chooses the source of the two connections of the check.
        assert_eq!((from_auto, peers.len()), (6, 8), "{engine}: {peers:?}");
        // All requests have one length, including those of the check.
        let counts = server.finish();
        assert_eq!(counts.requests, 122);
        assert_eq!(ran.count("bytes_sent") * 122, counts.received * 120);
    }
}

#[test]
fn several_servers_have_the_connections_in_turn() {
    for engine in ENGINES {
        let servers = [server(), server()];
        let urls = servers.each_ref().map(url_of);
        let driver = format!("engine = \"{engine}\"");
        let ran = run_users(4, 25, &driver, &[&urls[0], &urls[1]]);
        assert_eq!(ran.sums(), (100, 100, 4), "{engine}: {}", ran.0["errors"]);
        // Before the run, each server gets one request, and the first a second one.
        for (server, before) in servers.into_iter().zip([2, 1]) {
            let counts = server.finish();
            let counts = (counts.requests, counts.connections);
            assert_eq!(counts, (50 + before, 2 + before), "{engine}");
        }
    }
}

/// Listens at a path, and forwards to a TCP server.
fn relay(path: &Path, server: SocketAddr) {
    let listener = UnixListener::bind(path).unwrap();
    let carry = |from: UnixStream, to: TcpStream| {
        let (mut up_from, mut up_to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            // The end of the client's data is passed on to the server.
            let _ = io::copy(&mut up_from, &mut up_to);
            let _ = up_to.shutdown(Shutdown::Write);
        });
        thread::spawn(move || io::copy(&mut &to, &mut &from));
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            carry(stream.unwrap(), TcpStream::connect(server).unwrap());
        }
    });
}

#[test]
fn unix_sockets_are_asked_like_addresses() {
    for engine in ENGINES {
        let (server, folder) = (server(), tempfile::tempdir().unwrap());
        let path = folder.path().join("server.sock");
        relay(&path, server.address());
        let url = format!("unix:{}:/y", path.display());
        let ran = run_users(3, 10, &format!("engine = \"{engine}\""), &[&url]);
        assert_eq!(ran.sums(), (30, 30, 3), "{engine}: {}", ran.0["errors"]);
        let seen = server.seen();
        assert_eq!(seen.len(), 32);
        assert!(seen.iter().all(|request| request.starts_with(b"GET /y ")));
    }
}

/// Starts a server that answers the check, and then accepts no more connections.
fn full() -> SocketAddr {
    let listener = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let listener = TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Connections in the queue are accepted by nobody.
        let short = Duration::from_millis(500);
        let mut filling = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, short) {
            filling.push(stream);
        }
        io::Write::write_all(&mut stream, FIVE).unwrap();
        // Stays open until the test is over.
        loop {
            thread::park();
        }
    });
    address
}

#[test]
fn connections_that_are_not_made_in_time_are_given_up() {
    for engine in ENGINES {
        let url = format!("http://{}/", full());
        let load = [
            "-c",
            "3",
            "-d",
            "1s",
            "--warmup",
            "0s",
            "-t",
            "1",
            "--any-content",
        ];
        let words = [
            url.as_str(),
            "--engine",
            engine,
            "--connect-timeout",
            "200ms",
        ];
        let ran = run(&[&load[..], &words].concat());
        let (started, ok, opened) = ran.sums();
        assert_eq!((ok, opened), (0, 0), "{engine}: {}", ran.0["errors"]);
        // Three clients, each at most once in 200 ms; and not each only once.
        assert!((4..=15).contains(&started), "{engine}: {started}");
        assert_eq!(
            ran.0["errors"],
            serde_json::json!({ "connect_timeout": started }),
            "{engine}"
        );
    }
}

#[test]
fn more_connections_than_one_process_may_open_are_spread_over_several() {
    // A hundred descriptors of a process are reserved.
    let (files, connections) = (Some(160), 150);
    for engine in ENGINES {
        let server = server();
        let driver = format!("engine = \"{engine}\"\nconnections = {connections}");
        let words = [url_of(&server), "-t".to_owned(), "1".to_owned()];
        // Half of them are due in the second before the measurement.
        let group = "rate = 300\nops = 600";
        let ran = run_plan(files, group, &driver, &words.each_ref().map(String::as_str));
        assert_eq!(ran.number("/processes"), 3, "{engine}");
        assert_eq!(ran.sums(), (300, 300, 150), "{engine}: {}", ran.0["errors"]);
        let counts = server.finish();
        assert_eq!((counts.connections, counts.requests), (152, 602));
    }
}

/// Starts a server that sends the normal response, but another one to every tenth request.
fn every_tenth(then: &str) -> Scripted {
    let answer = |text: &str| Step::Send(text.as_bytes().to_vec());
    let well = std::str::from_utf8(FIVE).unwrap();
    // The check makes two requests, over its own connections.
    let mut script = vec![[Step::Expect, answer(well)]; 9].concat();
    script.extend([Step::Expect, answer(then), Step::Again]);
    Scripted::start(script)
}

#[test]
fn another_content_of_the_right_length_is_a_failure_of_its_own() {
    let wrong = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHELLO";
    for engine in ENGINES {
        let driver = format!("engine = \"{engine}\"");
        for words in [&["--processes", "2"][..], &["-t", "1"]] {
            let server = every_tenth(wrong);
            let url = url_of(&server);
            let ran = run_users(2, 20, &driver, &[words, &[&url]].concat());
            assert_eq!(ran.0["errors"].to_string(), r#"{"body":4}"#, "{engine}");
            assert_eq!((ran.sums().1, ran.count("bodies_compared")), (36, 40));
            let warnings = ran.0["warnings"].to_string();
            assert!(warnings.contains("--any-content"), "{warnings}");
        }
        for (option, failed) in [
            ("any_content = true", 0),
            ("expect_body = \"hello\"", 4),
            ("checks = [\"status==200\"]", 4),
            ("checks = ['body contains \"e\"']", 4),
        ] {
            let server = every_tenth(wrong);
            let ran = run_users(2, 20, &format!("{driver}\n{option}"), &[&url_of(&server)]);
            assert_eq!(
                ran.number("/operations/failed"),
                failed,
                "{engine} {option}"
            );
        }
    }
}

#[test]
fn contents_that_change_from_answer_to_answer_are_not_compared() {
    let answer = |text: &str| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        Step::Send(format!("{head}{text}").into_bytes())
    };
    for engine in ENGINES {
        let server = Scripted::start_each(move |number| {
            let text = format!("{number:05}");
            vec![Step::Expect, answer(&text), Step::Again]
        });
        let driver = format!("engine = \"{engine}\"");
        let ran = run_users(2, 20, &driver, &[&url_of(&server)]);
        assert_eq!(ran.sums().1, 40, "{engine}: {}", ran.0["errors"]);
        assert_eq!(ran.count("bodies_compared"), 0);
    }
}

#[test]
fn bytes_after_an_answer_make_a_run_suspect() {
    let twice = std::str::from_utf8(FIVE).unwrap().repeat(2);
    for engine in ENGINES {
        let server = every_tenth(&twice);
        let driver = format!("engine = \"{engine}\"");
        let ran = run_users(1, 20, &driver, &[&url_of(&server)]);
        assert!(ran.count("excess_bytes") > 0, "{engine}");
        assert_ne!(ran.0["verdict"], "VALID");
        let warnings = ran.0["warnings"].to_string();
        let told = "bytes after the end of an answer";
        assert!(warnings.contains(told), "{engine}: {warnings}");
        let server = self::server();
        let ran = run_users(1, 20, &driver, &[&url_of(&server)]);
        assert_eq!(ran.0["counts"]["excess_bytes"], 0);
        assert!(!ran.0["warnings"].to_string().contains(told));
    }
}

#[test]
fn numbers_and_contents_in_rotation_arrive_as_they_were_asked_for() {
    for engine in ENGINES {
        let server = server();
        let load = ["-R", "20", "-d", "2s", "--warmup", "0s", "-c", "2"];
        let request = ["-m", "POST", "--path", "/items/{id:7}?n={id}"];
        let content = ["-H", "X-Number: n{id}", "-b", r#"{"id":{id}}"#, "-b", "no"];
        let url = url_of(&server);
        let words = [url.as_str(), "--engine", engine, "--processes", "2"];
        let ran = run(&[&load[..], &request, &content, &words].concat());
        let started = ran.started_of(40);
        assert_eq!(ran.count("opened"), 2, "{engine}");
        let mut numbers = BTreeSet::new();
        for request in server.seen() {
            let request = String::from_utf8(request).unwrap();
            let (head, content) = request.split_once("\r\n\r\n").unwrap();
            let number = head.split(['=', ' ']).nth(2).unwrap();
            let number: u64 = number.parse().unwrap();
            let head = head.to_lowercase();
            let mut fields = head.lines();
            let line = format!("post /items/{}?n={number} http/1.1", number % 7);
            assert_eq!(fields.next(), Some(line.as_str()), "{engine}");
            let field = format!("x-number: n{number}");
            assert!(fields.any(|line| line == field), "{engine}: {head}");
            let body = match number % 2 {
                0 => format!(r#"{{"id":{number}}}"#),
                _ => "no".to_owned(),
            };
            assert_eq!(content, body, "{engine}");
            numbers.insert(number);
        }
        // Each number once, except for the check, which uses number 0.
        assert_eq!(numbers.len() as u64, started, "{engine}: {numbers:?}");
        assert!(numbers.last() < Some(&40), "{engine}: {numbers:?}");
        assert_eq!(server.finish().requests, 1 + started);
    }
}

#[test]
fn held_connections_are_held_and_counted_each_second() {
    for engine in ENGINES {
        let server = server();
        let load = ["--hold", "-c", "40", "--connect-rate", "100", "-R", "40"];
        let url = url_of(&server);
        let words = [url.as_str(), "--engine", engine, "-t", "2"];
        let time = ["--warmup", "500ms", "-d", "2s"];
        let ran = run(&[&load[..], &time, &words].concat());
        ran.started_of(80);
        assert_eq!(ran.count("opened"), 40, "{engine}");
        let seconds = ran.0["seconds"].as_array().unwrap();
        let held: Vec<u64> = seconds
            .iter()
            .map(|second| second["counts"]["held"].as_u64().unwrap_or(0))
            .collect();
        // The last one is opened after 0.4 s. A second during which a thread slept is not reported, so any full second
        // will do.
        assert!(held[1..].contains(&40), "{engine}: {held:?}");
        assert!(held.iter().all(|held| *held <= 40), "{engine}: {held:?}");
        assert_eq!((ran.count("lost"), ran.count("unconnected")), (0, 0));
        assert!(!ran.0["warnings"].to_string().contains("connections held"));
        assert!(ran.count("warmup") <= 20, "{}", ran.count("warmup"));
        // Each was used, one after the other: the check and 40 connections.
        let peers: BTreeSet<IpAddr> = server.peers().into_iter().collect();
        assert!(peers.contains(&IpAddr::V4(Ipv4Addr::new(127, 64, 0, 1))));
        assert_eq!(server.finish().connections, 42);
    }
}

/// The last of twenty is opened after 0.18 s, long after the end of such a short warm-up.
#[test]
fn the_load_begins_when_all_connections_are_open_however_short_the_warm_up_is() {
    for (engine, processes, threads) in [
        ("wire", "1", "2"),
        ("hyper", "1", "2"),
        ("wire", "2", "1"),
        ("hyper", "2", "1"),
    ] {
        let server = server();
        let hold = ["--hold", "-c", "20", "--connect-rate", "100"];
        let load = ["-R", "80", "--warmup", "50ms", "-d", "500ms"];
        let (share, engine) = (
            ["--processes", processes, "--threads", threads],
            ["--engine", engine],
        );
        let url = [url_of(&server)];
        let url = url.each_ref().map(String::as_str);
        let ran = run(&[&hold[..], &load, &share, &engine, &url].concat());
        let all = format!("{engine:?}, {processes} processes");
        ran.started_of(40);
        assert!(ran.count("warmup") <= 4, "{all}");
        assert_eq!(ran.count("opened"), 20, "{all}");
        let opening = &ran.0["facts"]["opening"];
        assert_eq!(opening["complete"], true, "{all}");
        let took_s = opening["took_s"].as_f64().unwrap();
        assert!((0.18..30.0).contains(&took_s), "{all}: {took_s}");
        // The run lasts as long as its opening and its load.
        let wall_s = ran.0["wall_s"].as_f64().unwrap();
        assert!(wall_s >= took_s + 0.5, "{all}: {wall_s} of {took_s}");
        assert!(
            !ran.0["warnings"].to_string().contains("not all open"),
            "{all}"
        );
    }
}

#[test]
fn a_server_that_holds_fewer_than_were_asked_for_is_told_apart() {
    for engine in ENGINES {
        // The two of the check, and half of those that are to be held.
        let server = Scripted::start_each(|number| match number {
            0..=21 => vec![Step::Expect, Step::Send(FIVE.to_vec()), Step::Again],
            _ => vec![Step::Close],
        });
        let load = ["--hold", "-c", "40", "--connect-rate", "100", "-R", "40"];
        let url = url_of(&server);
        let words = [
            url.as_str(),
            "--engine",
            engine,
            "--open-timeout",
            "500ms",
            "-d",
            "1s",
        ];
        let ran = run(&[&load[..], &words].concat());
        // On a busy machine it may close all of them before they are open.
        let refused = ran.count("lost") + ran.count("unconnected");
        assert!(refused > 0, "{engine}");
        ran.started_of_any(40);
        let opening = &ran.0["facts"]["opening"];
        // On a busy machine the server may close the connections that it does not hold when all are open.
        if opening["complete"] == false {
            assert_eq!(opening["took_s"], 0.5, "{engine}");
            let warnings = ran.0["warnings"].to_string();
            assert!(warnings.contains("not all open") && warnings.contains("--open-timeout"));
        }
        let warnings = ran.0["warnings"].as_array().unwrap();
        let mut told = warnings
            .iter()
            .filter_map(|warning| warning["message"].as_str());
        let is_it = |message: &str| {
            message.starts_with("connections held, peak: ")
                && message.ends_with("but expected 40, none lost")
        };
        assert!(told.any(is_it), "{engine}: {warnings:?}");
    }
}

#[test]
fn how_the_driver_waits_changes_no_count() {
    let server = server();
    let url = url_of(&server);
    let users = |driver: &str| run_users(40, 20, driver, &[&url, "-t", "1"]).counts();
    assert_eq!(users("batch = true"), users("batch = false"));
    let paced = |engine: &str, pacing: &str| {
        let how = format!("engine = \"{engine}\"\npacing = \"{pacing}\"\nconnections = 5");
        let words = [url.as_str(), "-t", "1", "--set", "timeline.warmup=0s"];
        let ran = run_plan(None, "rate = 200\nops = 200", &how, &words);
        assert_eq!(ran.sums(), (200, 200, 5), "{engine}, {pacing}");
        // No request waits for an unrelated timer: the next one is half a second away, on average.
        let late = ran.number("/lag/p50_ns");
        assert!(late < 200_000_000, "{engine}, {pacing}: {late} ns late");
        ran.counts()
    };
    for engine in ENGINES {
        let precise = paced(engine, "precise");
        for pacing in ["spin", "quantum"] {
            assert_eq!(paced(engine, pacing), precise, "{engine}, {pacing}");
        }
    }
}

/// A measured second follows one that is not measured: open operations are integrated per iteration, not once per
/// second.
#[test]
fn the_audit_of_users_who_never_rest_adds_up() {
    let server = server();
    let url = url_of(&server);
    for engine in ENGINES {
        let load = ["-c", "50", "-d", "1s", "--warmup", "1s", "-t", "1"];
        let ran = run(&[&load[..], &["--engine", engine, &url]].concat());
        let warnings = ran.0["warnings"].as_array().unwrap();
        let doubts: Vec<&Value> = warnings
            .iter()
            .filter(|warning| warning["kind"] == "Audit")
            .collect();
        assert!(doubts.is_empty(), "{engine}: {doubts:?}");
    }
}

/// Returns the text of every file below a folder.
fn texts(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let found = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => texts(&path),
        path => {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            vec![(path, text)]
        }
    });
    found.collect()
}

#[test]
fn a_secret_reaches_the_server_and_nothing_that_is_shown_or_stored() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        format!("@{}", path.display())
    };
    let fields = "Authorization: Bearer s3cret\n\nCookie: a=\"s3cret\"; b=s3cret\n";
    let headers = file("fields", fields);
    let url = file(
        "url",
        &format!("http://{}/x?token=s3cret&a=1\n", server.address()),
    );
    let out = tempfile::tempdir().unwrap();
    let call = |more: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("http-load"));
        command
            .args([
                "-H",
                &headers,
                "-H",
                "X-Plain: plain",
                "-c",
                "1",
                "--warmup",
                "0s",
            ])
            .args(["-d", "200ms", "--check", "header.x-token==s3cret"])
            .args(more)
            .current_dir(&out);
        command.output().unwrap()
    };
    let texts_of = |output: &std::process::Output| {
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned())
    };
    let ran = call(&[
        &url,
        "--processes",
        "2",
        "--threads",
        "1",
        "--into",
        "run",
        "--output",
        "output.json",
        "--format",
        "json",
    ]);
    let [shown, said] = texts_of(&ran);
    assert!(matches!(ran.status.code(), Some(0 | 3)), "{said}");
    let seen = server.seen();
    let seen = String::from_utf8_lossy(seen.last().unwrap());
    for sent in [
        "GET /x?token=s3cret&a=1 ",
        "Authorization: Bearer s3cret\r\n",
        "Cookie: a=\"s3cret\"; b=s3cret\r\n",
        "X-Plain: plain\r\n",
    ] {
        assert!(seen.contains(sent), "{sent:?} is not in {seen}");
    }
    let stored = texts(out.path());
    assert!(
        stored
            .iter()
            .any(|(path, _)| path.ends_with("run/result.json"))
    );
    for (path, text) in &stored {
        assert!(!text.contains("s3cret"), "{}: {text}", path.display());
    }
    let result: Value =
        serde_json::from_str(&std::fs::read_to_string(out.path().join("run/result.json")).unwrap())
            .unwrap();
    let kept = [
        "Authorization: [redacted]",
        "Cookie: [redacted]",
        "X-Plain: plain",
    ];
    assert_eq!(result["plan"]["driver"]["headers"], serde_json::json!(kept));
    let target = result["daemon"]["target"].as_str().unwrap();
    assert!(target.ends_with("/x?token=[redacted]&a=1"), "{target}");
    assert!(!(shown + &said).contains("s3cret"));

    // A printed plan can't be run as if it were complete.
    let printed = call(&[&url, "--print-plan"]);
    let [shown, said] = texts_of(&printed);
    assert_eq!(printed.status.code(), Some(0), "{said}");
    assert!(
        shown.starts_with("# Secrets were removed.") && !shown.contains("s3cret"),
        "{shown}"
    );
    std::fs::write(out.path().join("plan.toml"), shown).unwrap();
    let mut again = Command::new(assert_cmd::cargo::cargo_bin!("http-load"));
    let again = again
        .args(["--plan", "plan.toml", &url])
        .current_dir(&out)
        .output()
        .unwrap();
    let [_, said] = texts_of(&again);
    assert_eq!(again.status.code(), Some(2), "{said}");
    assert!(
        said.contains("set it again") && said.contains("@FILE"),
        "{said}"
    );
}

#[test]
fn an_error_shows_no_secret_of_what_was_typed() {
    let out = tempfile::tempdir().unwrap();
    for arguments in [
        &["http://user:s3cret@127.0.0.1:1/"][..],
        &["user:s3cret@127.0.0.1:1"],
        &["http://127.0.0.1:1/?api_key=s3cret"],
        &["-H", "Authorization: s3cret\r\nx", "http://127.0.0.1:1/"],
        &["--no-such-option=http://user:s3cret@h/"],
        &["-H", "@/no/such/file", "http://127.0.0.1:1/?token=s3cret"],
    ] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("http-load"));
        let output = command.args(arguments).current_dir(&out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(1 | 2)),
            "{arguments:?}: {said}"
        );
        assert!(
            said.contains("error:") && !said.contains("s3cret"),
            "{arguments:?}: {said}"
        );
    }
}
