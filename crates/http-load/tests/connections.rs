//! When a connection is given up, and what of a request takes how long where it does not go out at once.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/load.rs"]
mod load;
#[path = "support/scripted.rs"]
mod scripted;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use harness::plan::{Group, PlannedStage};
use http_load::{Engine, Settings};
use measure::tally::Series;

use crate::load::{ENGINES, adds_up, put, put_for, users};
use crate::scripted::{Scripted, Step};

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
/// More than the buffers of both ends hold.
const LARGE: usize = 32 << 20;
/// How long a server may not read in a test.
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

/// A server that calls a function with each of so many connections; what that returned.
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

/// What is left of a request that was answered would have to be sent before the next one (RFC 9112 §9.3): as the next one
/// it would be read as a part of the first. hyper sends the rest; the readiness loop closes.
#[test]
fn after_an_answer_to_half_a_request_the_next_goes_over_another_connection() {
    let (url, server) = serve(2, |mut stream| {
        let mut all = read_head(&mut stream);
        stream.write_all(EMPTY).unwrap();
        // To the end that the client makes; it may reset what it has not sent.
        let _ = stream.read_to_end(&mut all);
        all.windows(5).filter(|word| word == b"POST ").count()
    });
    let tally = put(post(Engine::Wire), users(1, 2), &url);
    // Where there was no second connection, the server does not wait for it for ever.
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    drop(TcpStream::connect(address));
    assert!(adds_up(&tally), "{:?}", tally.errors);
    assert_eq!(tally.counted("ok"), 2, "{:?}", tally.errors);
    assert_eq!(server.join().unwrap(), [1, 1]);
}

#[test]
fn a_request_that_the_server_does_not_take_at_once_is_sent_for_as_long_as_that() {
    for engine in ENGINES {
        let (url, server) = serve(1, |mut stream| {
            read_head(&mut stream);
            thread::sleep(NAP);
            stream.read_exact(&mut vec![0; LARGE]).unwrap();
            stream.write_all(EMPTY).unwrap();
        });
        let tally = put(post(engine), users(1, 1), &url);
        server.join().unwrap();
        let longest = |name: &str| {
            let place = tally.series().position(|(of, _)| of == name).unwrap();
            let longest = tally.of(Series(place)).quantile(1.0).unwrap_or(0);
            Duration::from_nanos(longest)
        };
        assert!(
            longest("sending") > NAP / 2,
            "{engine:?}: {:?}",
            longest("sending")
        );
    }
}

/// Two users leave after a second and come again after 2.5: meanwhile nobody is connected, as each second's count says.
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
        // At the end of the first second they may be there; if they were at those of the next two, it were six.
        assert!(
            tally.counted("held") <= 4,
            "{engine:?}: {}",
            tally.counted("held")
        );
        assert_eq!(tally.counted("opened"), 4, "{engine:?}");
    }
}
