//! How a load is shared among processes, addresses, servers and connections, and how the driver waits.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use harness_testing::calibration::lateness;
use harness_testing::result::ResultFile;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, socket,
};

use crate::program::{program, run, run_plan, run_users, sums};
use crate::servers::{ENGINES, OK, url, well};

#[test]
fn processes_and_source_addresses_share_a_load_exactly() {
    // Two of eight processes have no user.
    for (engine, processes) in ENGINES
        .into_iter()
        .flat_map(|it| [(it, 1), (it, 2), (it, 8)])
    {
        let server = well();
        let driver = format!("engine = \"{engine}\"\nsource_addresses = [\"auto\"]");
        let (url, number) = (url(&server), processes.to_string());
        let words = [url.as_str(), "--processes", &number, "--threads", "1"];
        let ran = run_users(6, 20, &driver, &words);
        let how = format!("{engine}, {processes}: {}", ran["errors"]);
        assert_eq!(ran.number("/processes"), processes);
        assert_eq!(sums(&ran), (120, 120, 6), "{how}");
        assert_eq!(ran.count("bytes"), 120 * OK.len() as u64);
        let peers = server.peers();
        let auto = IpAddr::V4(Ipv4Addr::new(127, 64, 0, 1));
        let from_auto = peers.iter().filter(|peer| **peer == auto).count();
        // The kernel chooses the source of the two connections of the check.
        assert_eq!((from_auto, peers.len()), (6, 8), "{how}: {peers:?}");
        // All requests have one length, including the check's.
        let counts = server.finish();
        assert_eq!(counts.requests, 122);
        assert_eq!(ran.count("bytes_sent") * 122, counts.received * 120);
    }
}

#[test]
fn a_number_of_requests_is_one_for_all_connections() {
    for how in [&["-c", "5"][..], &["-c", "2", "-R", "500"]] {
        let server = well();
        let ran = program(&[&url(&server), "-n", "100"]).args(how).run();
        assert_eq!(ran.result.operations("ok"), 100, "{how:?}: {}", ran.stderr);
        assert_eq!(ran.result.count("warmup"), 0);
        assert_eq!(server.finish().requests, 102, "{how:?}, with the check's");
    }
}

#[test]
fn several_servers_have_the_connections_in_turn() {
    for engine in ENGINES {
        let servers = [well(), well()];
        let urls = servers.each_ref().map(url);
        let driver = format!("engine = \"{engine}\"");
        let ran = run_users(4, 25, &driver, &[&urls[0], &urls[1]]);
        assert_eq!(sums(&ran), (100, 100, 4), "{engine}: {}", ran["errors"]);
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
        let (server, folder) = (well(), tempfile::tempdir().unwrap());
        let path = folder.path().join("server.sock");
        relay(&path, server.address());
        let url = format!("unix:{}:/y", path.display());
        let ran = run_users(3, 10, &format!("engine = \"{engine}\""), &[&url]);
        assert_eq!(sums(&ran), (30, 30, 3), "{engine}: {}", ran["errors"]);
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
        io::Write::write_all(&mut stream, OK.as_bytes()).unwrap();
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
        let load = "-c 3 -d 1s --warmup 0s -t 1 --any-content --connect-timeout 200ms";
        let program = program(&[&url, "--engine", engine]);
        let ran = program.call(load).run().result;
        let (started, ok, opened) = sums(&ran);
        assert_eq!((ok, opened), (0, 0), "{engine}: {}", ran["errors"]);
        // Three clients, each at most once in 200 ms; and not each only once.
        assert!((4..=15).contains(&started), "{engine}: {started}");
        assert_eq!(
            ran["errors"],
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
        let server = well();
        let driver = format!("engine = \"{engine}\"\nconnections = {connections}");
        let words = [url(&server), "-t".to_owned(), "1".to_owned()];
        // Half of them are due in the second before the measurement.
        let group = "rate = 300\nops = 600";
        let ran = run_plan(files, group, &driver, &words.each_ref().map(String::as_str));
        assert_eq!(ran.number("/processes"), 3, "{engine}");
        assert_eq!(sums(&ran), (300, 300, 150), "{engine}: {}", ran["errors"]);
        let counts = server.finish();
        assert_eq!((counts.connections, counts.requests), (152, 602));
    }
}

/// Returns the counters that must not depend on the kind of load.
fn counts(result: &ResultFile) -> Vec<(&'static str, u64)> {
    let names = ["answers", "body_bytes", "bytes", "bytes_sent", "opened"];
    names.map(|name| (name, result.count(name))).to_vec()
}

#[test]
fn how_the_driver_waits_changes_no_count() {
    let server = well();
    let url = url(&server);
    let users = |driver: &str| run_users(40, 20, driver, &[&url, "-t", "1"]);
    let (batched, single) = (users(""), users("batch = false"));
    assert_eq!(counts(&batched), counts(&single));
    assert!(batched["counts"]["batched_ms"].is_u64());
    assert!(single["counts"]["batched_ms"].is_null());
    let paced = |engine: &str, pacing: &str| {
        let how = format!("engine = \"{engine}\"\npacing = \"{pacing}\"\nconnections = 5");
        let words = [url.as_str(), "-t", "1", "--set", "timeline.warmup=0s"];
        let (wake_ms, ran) = lateness(|| run_plan(None, "rate = 200\nops = 200", &how, &words));
        assert_eq!(sums(&ran), (200, 200, 5), "{engine}, {pacing}");
        // No request waits for an unrelated timer: the next one is half a second away, on average.
        assert!(ran["counts"]["batched_ms"].is_null(), "{engine}, {pacing}");
        let late_ms = ran.number("/lag/p50_ns") as f64 / 1e6;
        let allowed = f64::max(200.0, 10.0 * wake_ms);
        assert!(late_ms < allowed, "{engine}, {pacing}: {late_ms} ms late");
        counts(&ran)
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
    let server = well();
    let url = url(&server);
    for engine in ENGINES {
        let load = ["-c", "50", "-d", "1s", "--warmup", "1s", "-t", "1"];
        let ran = run(&[&load[..], &["--engine", engine, &url]].concat());
        assert_eq!(ran.warning("Audit"), None, "{engine}");
    }
}
