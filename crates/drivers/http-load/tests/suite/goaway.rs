//! Servers of HTTP/2 that close a connection with a GOAWAY while requests are in flight (RFC 9113 §6.8).

use std::fs;
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use harness_testing::program::Program;
use harness_testing::result::ResultFile;
use harness_testing::{peer, skip};
use http_load::Settings;
use load::recorder::OK;

use crate::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, begin, frame, goaway, next_block,
    next_request,
};
use crate::program::{PROGRAM, adds_up, program, run_users, started_of};
use crate::scenarios::{put, rate, users};
use crate::servers::ENGINES;

/// Answers a request with status 200, index 8 of the static table (RFC 7541 appendix A), and a body.
fn answer(out: &mut TcpStream, id: u32) -> io::Result<()> {
    out.write_all(&frame(HEADERS, END_HEADERS, id, &[0x88]))?;
    out.write_all(&frame(DATA, END_STREAM, id, b"hello"))
}

/// Refuses a request with REFUSED_STREAM (RFC 9113 §8.7).
fn refuse(out: &mut TcpStream, id: u32) -> io::Result<()> {
    out.write_all(&frame(RST_STREAM, 0, id, &7_u32.to_be_bytes()))
}

/// A reply to the request on a stream.
type Reply = fn(&mut TcpStream, u32) -> io::Result<()>;

/// The header blocks of the requests that a server took.
type Taken = Mutex<Vec<Vec<u8>>>;

/// Serves a connection: takes `limit` requests, and excludes all after them. It waits for as many excluded requests as
/// it is told before it sends the GOAWAY, then answers the last one taken, and closes.
fn converse(
    mut stream: TcpStream,
    (limit, excluded): (usize, usize),
    reply: Reply,
    taken: &Taken,
) -> io::Result<()> {
    begin(&mut stream)?;
    let mut ids = Vec::new();
    while ids.len() < limit + excluded {
        let (id, block) = next_block(&mut stream)?;
        ids.push(id);
        if ids.len() <= limit {
            taken.lock().unwrap().push(block);
        }
        if ids.len() < limit {
            reply(&mut stream, ids[ids.len() - 1])?;
        }
    }
    let last = limit.checked_sub(1).map_or(0, |index| ids[index]);
    stream.write_all(&goaway(last))?;
    if last > 0 {
        answer(&mut stream, last)?;
    }
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

/// Starts a server of such connections; the two of the check are not limited.
fn limited(limit: usize, excluded: usize) -> SocketAddr {
    limited_after(2, (limit, excluded), answer).0
}

/// The same after a check of this many connections. Returns the requests that it takes too.
fn limited_after(check: usize, limits: (usize, usize), reply: Reply) -> (SocketAddr, Arc<Taken>) {
    let (connections, taken) = (AtomicUsize::new(0), Arc::<Taken>::default());
    let own = Arc::clone(&taken);
    let address = peer::serve(move |stream| {
        if connections.fetch_add(1, SeqCst) < check {
            converse(stream, (usize::MAX / 2, 0), answer, &Taken::default())
        } else {
            converse(stream, limits, reply, &own)
        }
    });
    (address, taken)
}

#[test]
fn requests_that_a_goaway_excludes_are_repeated_over_the_next_connection() {
    for engine in ENGINES {
        let url = format!("http://{}/", limited(10, 3));
        let driver = format!("engine = \"{engine}\"\nhttp2 = true\nstreams = 4");
        repeats_all(&run_users(2, 95, &driver, &[&url]));
    }
}

/// A request that is sent again is the same one: the server takes the request of each row once.
#[test]
fn a_repeated_request_has_its_row() {
    let refuses_one: Reply = |out, id| match id {
        3 => refuse(out, id),
        _ => answer(out, id),
    };
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    let numbers: Vec<String> = (100..290).map(|number| format!("{number}\n")).collect();
    fs::write(&rows, format!("n\n{}", numbers.concat())).unwrap();
    let driver = format!("http2 = true\nstreams = 4\npath = \"/row{{{{n}}}}\"\nrows = {rows:?}");
    let answers: Reply = answer;
    // A refused request is taken twice.
    for (reply, most) in [(answers, 1), (refuses_one, 2)] {
        let (address, taken) = limited_after(1, (10, 3), reply);
        let result = run_users(2, 95, &driver, &[&format!("http://{address}/")]);
        let all = format!("{} {}", result["operations"], result["errors"]);
        assert_eq!(result.operations("ok"), 190, "{all}");
        assert!(result.count("retries") > 0, "{}", result["counts"]);
        let taken = taken.lock().unwrap();
        for number in 100..290 {
            let text = format!("/row{number}");
            let has_it = |block: &&Vec<u8>| block.windows(7).any(|part| part == text.as_bytes());
            let count = taken.iter().filter(has_it).count();
            assert!((1..=most).contains(&count), "{text}: {count}");
        }
    }
}

#[track_caller]
fn repeats_all(result: &ResultFile) {
    let all = format!("{} {}", result["operations"], result["errors"]);
    assert_eq!(result.operations("ok"), 190, "{all}");
    // Nine connections of each client took 10 and excluded 3; the last one takes the other 5.
    let (closed, retries) = (result.count("closed"), result.count("retries"));
    assert_eq!(closed, 18, "{}", result["counts"]);
    assert!(retries >= 3 * closed, "{retries}: {}", result["counts"]);
    assert_eq!(result.count("lost"), 0);
}

#[test]
fn an_open_loop_loses_no_request_to_goaways() {
    let url = format!("http://{}/", limited(10, 0));
    let call = [
        "-c", "2", "-R", "1000", "-d", "1s", "--warmup", "0s", "--http2",
    ];
    let ran = program(&call).args([&url]).run();
    adds_up(&ran, Some(1_000));
    let started = started_of(&ran.result, 1_000);
    let closed = ran.result.count("closed");
    assert!(25 * closed >= started, "{}", ran.result["counts"]);
    assert_eq!(ran.result.count("lost"), 0, "{}", ran.result["counts"]);
    assert!(!ran.stdout.contains("with keep-alive"), "{}", ran.stdout);
}

/// The preface is longer than the rest of a request, and sent before an operation is open. Numbers of the measured time
/// that are greater than the total's would be called damaged.
#[test]
fn bytes_of_connections_without_an_open_operation_are_in_the_total_too() {
    for engine in ENGINES {
        let url = format!("http://{}/", limited(usize::MAX / 2, 0));
        let call = ["-c", "20", "-n", "20", "--warmup", "0s", "--http2"];
        let ran = program(&call).args(["--engine", engine, &url]).run();
        adds_up(&ran, Some(20));
        let measured = &ran.result["throughput"]["counts"];
        for name in ["bytes", "bytes_sent"] {
            let (measured, total) = (measured[name].as_u64(), ran.result.count(name));
            assert!(
                measured.is_some_and(|of| of <= total),
                "{engine}: {name} {measured:?} {total}"
            );
        }
        assert!(ran.result.count("bytes_sent") > 20 * 24, "{engine}");
    }
}

#[test]
fn a_server_that_takes_no_request_is_not_asked_without_end() {
    let url = format!("http://{}/", limited(0, 1));
    let call = ["-c", "1", "-d", "500ms", "--warmup", "0s", "--http2"];
    let ran = program(&call).args([&url]).run();
    adds_up(&ran, None);
    assert_eq!(ran.result.operations("ok"), 0);
    let failed = ran.result.operations("failed");
    assert_eq!(
        ran.result["errors"]["early_close"], failed,
        "{}",
        ran.result["errors"]
    );
    // Each waits before it connects again.
    assert!((1..=60).contains(&failed), "{failed}");
}

/// A request that the server refuses has not been processed (RFC 9113 §8.7). The engine `wire` sends it again, once;
/// with hyper it fails.
#[test]
fn a_refused_stream_is_repeated_once_and_the_connection_goes_on() {
    let each_second: Reply = |out, id| match id % 4 {
        1 => answer(out, id),
        _ => refuse(out, id),
    };
    let all_but_the_check: Reply = |out, id| match id {
        1 => answer(out, id),
        _ => refuse(out, id),
    };
    for (engine, reply, ok, errors, retries) in [
        ("wire", each_second, 20, "{}", 19),
        ("hyper", each_second, 10, r#"{"reset":10}"#, 0),
        ("wire", all_but_the_check, 1, r#"{"reset":19}"#, 19),
    ] {
        let address = limited_after(0, (usize::MAX / 2, 0), reply).0;
        let url = format!("http://{address}/");
        let driver = format!("engine = \"{engine}\"\nhttp2 = true");
        let result = run_users(1, 20, &driver, &[&url]);
        assert_eq!(result["errors"].to_string(), errors, "{engine}");
        let counts = (
            result.operations("ok"),
            result.count("opened"),
            result.count("retries"),
        );
        assert_eq!(counts, (ok, 1, retries), "{engine}");
    }
}

#[test]
fn a_stream_that_is_not_answered_in_time_fails_alone_and_the_connection_goes_on() {
    let each_second: Reply = |out, id| match id % 4 {
        1 => answer(out, id),
        _ => Ok(()),
    };
    for engine in ENGINES {
        let address = limited_after(0, (usize::MAX / 2, 0), each_second).0;
        let url = format!("http://{address}/");
        let driver = format!("engine = \"{engine}\"\nhttp2 = true\ntimeout = \"100ms\"");
        let result = run_users(1, 6, &driver, &[&url]);
        // A busy machine may be late for others too.
        let timeouts = result["errors"]["timeout"].as_u64();
        assert!(timeouts >= Some(3), "{engine}: {}", result["errors"]);
        let sums = (
            result.operations("ok") + timeouts.unwrap_or(0),
            result.count("opened"),
        );
        assert_eq!(sums, (6, 1), "{engine}: {}", result["errors"]);
    }
}

/// A server that ends a connection in two steps (RFC 9113 §6.8): it announces the end, answers what it has, and then
/// names the last request that it took.
#[test]
fn a_goaway_in_two_steps_loses_nothing() {
    let address = peer::serve(|mut stream: TcpStream| {
        begin(&mut stream)?;
        let first = next_request(&mut stream)?;
        stream.write_all(&goaway(0x7fff_ffff))?;
        answer(&mut stream, first)?;
        stream.write_all(&goaway(first))?;
        stream.shutdown(Shutdown::Write)?;
        io::copy(&mut stream, &mut io::sink()).map(drop)
    });
    let settings = Settings {
        http2: true,
        streams: 2,
        ..Settings::default()
    };
    let tally = put(settings, users(1, 21), &format!("http://{address}/"));
    let counts = [OK, "closed", "opened", "lost"].map(|name| tally.counted(name));
    assert_eq!(
        counts,
        [21, 21, 21, 0],
        "{:?} {:?}",
        tally.counts,
        tally.errors
    );
}

/// Serves a connection of one request.
fn answer_one(mut stream: TcpStream) -> io::Result<()> {
    begin(&mut stream)?;
    let id = next_request(&mut stream)?;
    answer(&mut stream, id)?;
    stream.write_all(&goaway(id))?;
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

#[test]
fn a_goaway_while_a_client_thinks_does_not_shorten_its_pause() {
    let url = format!("http://{}/", peer::serve(answer_one));
    let result = run_users(1, 5, "http2 = true\nthink = \"60ms\"", &[&url]);
    let counts = (result.operations("ok"), result.count("closed"));
    assert_eq!(counts, (5, 5), "{}", result["counts"]);
    assert!(
        result["wall_s"].as_f64() >= Some(0.24),
        "{}",
        result["wall_s"]
    );
}

#[test]
fn an_idle_connection_that_a_goaway_ends_is_not_lost() {
    let address = peer::serve(answer_one);
    let settings = Settings {
        http2: true,
        connections: 1,
        ..Settings::default()
    };
    let tally = put(settings, rate(200.0, 10), &format!("http://{address}/"));
    let counts = [OK, "lost"].map(|name| tally.counted(name));
    assert_eq!(counts, [10, 0], "{:?} {:?}", tally.counts, tally.errors);
    // The load may end before the last one.
    assert!(tally.counted("closed") >= 9, "{:?}", tally.counts);
}

/// An nginx that ends each connection after some requests, over either version of HTTP.
const MANIFEST: &str = r#"
about  = "nginx with a limit of requests per connection"
serves = ["http"]
run    = ["sh", "-c", "sed -e s,PORT1,$1, -e s,PORT2,$2, nginx.conf >$3/nginx.conf && exec nginx -e stderr -p $3 -c $3/nginx.conf", "sh", "{port}", "{port2}", "{scratch}"]
ready  = { tcp = "127.0.0.1:{port2}" }
url    = "http://127.0.0.1:{port}/"
urls   = { h2c = "http://127.0.0.1:{port2}/" }
"#;
const CONFIGURATION: &str = r#"
daemon off;
worker_processes 1;
pid nginx.pid;
events { worker_connections 256; }
http {
    KEEPALIVE
    access_log off;
    error_log stderr crit;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    scgi_temp_path scgi;
    uwsgi_temp_path uwsgi;
    server {
        listen 127.0.0.1:PORT1;
        listen 127.0.0.1:PORT2 http2;
        location / { return 200 "hello"; }
    }
}
"#;

/// Runs a load on nginx, with a directive, over HTTP/1.1 and over HTTP/2.
fn on_nginx(directive: &str, load: &[&str], check: impl Fn(&ResultFile)) {
    if let Err(error) = Command::new("nginx").arg("-v").output() {
        return skip(format_args!("nginx: {error}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let limited = folder.path().join("daemons/limited");
    fs::create_dir_all(&limited).unwrap();
    fs::write(limited.join("daemon.toml"), MANIFEST).unwrap();
    let configuration = CONFIGURATION.replace("KEEPALIVE", directive);
    fs::write(limited.join("nginx.conf"), configuration).unwrap();
    for version in [&[][..], &["--http2", "--set", "endpoint=h2c"]] {
        let fixed = ["--quiet", "-t", "1", "--warmup", "0s", "--timeout", "5min"];
        let call = [&fixed[..], &["--daemon", "limited"], load, version].concat();
        let mut call = Program::new(PROGRAM).args(call);
        call.command()
            .current_dir(&folder)
            .env_remove("DROVER_ROOT");
        let ran = call.run();
        let (result, all) = (&ran.result, format!("{version:?}: {}", ran.stdout));
        assert_eq!(result.operations("failed"), 0, "{all}");
        assert_eq!(result.operations("unfinished"), 0, "{all}");
        assert_eq!(result.count("lost"), 0, "{all}");
        assert!(result.count("closed") > 0, "{all}");
        assert!(!ran.stdout.contains("with keep-alive"), "{all}");
        check(result);
    }
}

#[test]
fn nginx_with_its_default_limit_of_requests_per_connection_answers_all() {
    on_nginx("", &["-c", "2", "-R", "1500", "-d", "2s"], |result| {
        started_of(result, 3_000);
    });
}

#[test]
fn nginx_with_ten_requests_per_connection_answers_all() {
    let ten = "keepalive_requests 10;";
    on_nginx(ten, &["-c", "2", "-R", "1000", "-d", "1s"], |result| {
        started_of(result, 1_000);
    });
    on_nginx(ten, &["-c", "10", "-d", "500ms"], |result| {
        assert!(result.operations("ok") > 0, "{}", result["operations"]);
    });
}
