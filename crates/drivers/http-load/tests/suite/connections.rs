//! Tests of the end of connections, and of the times of a request that is not sent at once.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use http_load::{Engine, Settings};
use load::plan::{Group, PlannedStage};
use measure::tally::Series;

use crate::program::{program, run_users};
use crate::scenarios::{ENGINES, adds_up, put, put_for, users};
use crate::scripted::{Scripted, Step};
use crate::servers::{OK, answer_each, url, well};

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
/// More bytes than the buffers of both ends hold.
const LARGE: usize = 32 << 20;
/// Time for which a server of a test does not read.
const NAP: Duration = Duration::from_millis(300);

fn post(engine: Engine) -> Settings {
    Settings {
        engine,
        method: "POST".to_owned(),
        body: vec!["x".repeat(LARGE)],
        phases: true,
        ..Settings::default()
    }
}

/// Starts a server that calls a function with each of its connections; returns the function's results.
fn serve<T: Send + 'static>(
    connections: usize,
    each: impl Fn(TcpStream) -> T + Send + 'static,
) -> (String, thread::JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serve = move || {
        let accepted = (0..connections).map(|_| listener.accept().unwrap().0);
        accepted.map(each).collect()
    };
    (url, thread::spawn(serve))
}

fn read_head(stream: &mut TcpStream) -> Vec<u8> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    head
}

/// The rest of a request that was already answered would have to be sent before the next one (RFC 9112 §9.3), which
/// would otherwise be read as part of the first. hyper sends the rest; the event loop of `wire` closes.
#[test]
fn after_an_answer_to_half_a_request_the_next_goes_over_another_connection() {
    let (url, server) = serve(2, |mut stream| {
        let mut all = read_head(&mut stream);
        stream.write_all(EMPTY).unwrap();
        // Up to the client's end; the client may reset the connection with unsent data.
        let _ = stream.read_to_end(&mut all);
        all.windows(5).filter(|word| word == b"POST ").count()
    });
    let tally = put(post(Engine::Wire), users(1, 2), &url);
    // If there was no second connection, the server does not wait for it forever.
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    drop(TcpStream::connect(address));
    assert!(adds_up(&tally), "{:?}", tally.errors);
    assert_eq!(tally.counted("ok"), 2, "{:?}", tally.errors);
    assert_eq!(server.join().unwrap(), [1, 1]);
}

/// Its limit is a property of the server, not a defect of the measurement.
#[test]
fn a_server_that_closes_after_each_answer_is_a_note_with_the_remedy() {
    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for engine in crate::servers::ENGINES {
        let server = Scripted::start(vec![Step::Expect, Step::Send(answer.to_vec())]);
        let driver = format!("engine = \"{engine}\"");
        let result = run_users(2, 100, &driver, &[&crate::servers::url(&server)]);
        let (ok, closed) = (result.operations("ok"), result.count("closed"));
        assert!(ok > 0 && ok == closed, "{engine}: {ok} {closed}");
        let warnings = result["warnings"].as_array().unwrap();
        let named = |text: &str| {
            let has = |warning: &&serde_json::Value| warning.to_string().contains(text);
            warnings.iter().find(has)
        };
        assert_eq!(
            named("connections opened, with keep-alive"),
            None,
            "{engine}"
        );
        let note = named("--no-keep-alive").expect("the remedy is named");
        assert_eq!(note["severity"], "note", "{engine}: {note}");
        // Both counts of the note include the warm-up, in contrast to the answers.
        let url = crate::servers::url(&server);
        let load = ["-c", "2", "-d", "100ms", "--warmup", "500ms"];
        let ran = program(&[&load[..], &["--engine", engine, &url]].concat()).run();
        let counts = ["closed", "opened"].map(|name| ran.result.count(name));
        let [closed, opened] = counts.map(measure::units::count);
        let text = format!("closed {closed} of the {opened} opened connections");
        let warnings = ran.result["warnings"].to_string();
        assert!(warnings.contains(&text), "{text:?}: {warnings}");
    }
}

/// The server answers its first request half a second after the load, and then closes.
#[test]
fn requests_that_wait_for_a_connection_when_the_load_ends_get_one() {
    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for engine in crate::servers::ENGINES {
        // The check, whose answer is empty, is the first connection.
        let server = Scripted::start_each(|number| match number {
            1 => vec![
                Step::Expect,
                Step::SendSlowly(answer.to_vec(), 40, Duration::from_secs(1)),
            ],
            _ => vec![Step::Expect, Step::Send(EMPTY.to_vec()), Step::Again],
        });
        let url = crate::servers::url(&server);
        let load = ["-c", "1", "-R", "20", "-d", "500ms", "--warmup", "0s"];
        let limits = ["--timeout", "10s", "--engine", engine, &url];
        let ran = program(&[&load[..], &limits].concat()).run();
        assert_eq!(ran.result.operations("failed"), 0, "{}", ran.stdout);
        assert_eq!(ran.result.count("opened"), 2, "{engine}");
    }
}

#[test]
fn a_request_that_the_server_does_not_take_at_once_is_sent_for_as_long_as_that() {
    for engine in ENGINES {
        let (url, server) = serve(1, |mut stream| {
            read_head(&mut stream);
            // The time of the request that is tested.
            thread::sleep(NAP);
            stream.read_exact(&mut vec![0; LARGE]).unwrap();
            stream.write_all(EMPTY).unwrap();
        });
        let tally = put(post(engine), users(1, 1), &url);
        server.join().unwrap();
        let longest = |name: &str| {
            let place = tally.series().position(|(of, _)| of == name).unwrap();
            let longest = tally.distribution(Series(place)).quantile(1.0).unwrap_or(0);
            Duration::from_nanos(longest)
        };
        assert!(
            longest("sending") > NAP / 2,
            "{engine:?}: {:?}",
            longest("sending")
        );
    }
}

/// Two clients leave after a second and come back after 2.5 s: in between nobody is connected, as the count of each
/// second shows.
#[test]
fn users_who_leave_take_their_connections_with_them() {
    let stage = |users, ms| PlannedStage::to_users(users, Duration::from_millis(ms));
    for engine in ENGINES {
        let server = Scripted::start(vec![Step::Expect, Step::Send(EMPTY.to_vec()), Step::Again]);
        let settings = Settings {
            engine,
            ..Settings::default()
        };
        let group = Group {
            stages: vec![
                stage(2, 0),
                stage(2, 1_000),
                stage(0, 0),
                stage(0, 2_500),
                stage(2, 0),
                stage(2, 200),
            ],
            ops: None,
            ..users(0, 0)
        };
        let url = format!("http://{}/", server.address());
        let (measure, drain) = (Duration::from_millis(3_700), Duration::from_secs(30));
        let tally = put_for(settings, group, &url, measure, drain);
        assert!(adds_up(&tally), "{engine:?}: {:?}", tally.errors);
        // At the end of the first second they may be connected; if they were at the end of the next two, the sum would
        // be six.
        assert!(
            tally.counted("held") <= 4,
            "{engine:?}: {}",
            tally.counted("held")
        );
        assert_eq!(tally.counted("opened"), 4, "{engine:?}");
    }
}

/// An address that no longer accepts fails the requests of its own connections, and is named.
#[test]
fn an_address_that_refuses_in_the_run_is_named_and_others_go_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let refuses = listener.local_addr().unwrap();
    let serves = well();
    thread::spawn(move || {
        // Two are of the check.
        for _ in 0..4 {
            let (stream, _) = listener.accept().unwrap();
            answer_each(stream, |_| OK);
        }
    });
    let (both, url) = (format!("{refuses},{}", serves.address()), url(&serves));
    let call = ["-c", "2", "-n", "20", "--no-keep-alive"];
    let ran = program(&[&call[..], &["--connect-to", &both, &url]].concat()).run();
    let result = &ran.result;
    let [ok, failed] = ["ok", "failed"].map(|name| result.operations(name));
    assert_eq!(ok + failed, 20);
    // A connection that waited to be accepted is reset.
    let refused = result.error("refused");
    assert!(ok >= 10 && refused > 0, "{ok}: {}", result["errors"]);
    let says = format!("no connection to {refuses}, one of 2 addresses");
    assert!(ran.stderr.contains(&says), "{}", ran.stderr);
}
