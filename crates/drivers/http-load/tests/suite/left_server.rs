//! Test of requests that wait for a connection to a server that has left. Its port stays reserved, since another test's
//! server could take it.

use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use http_load::{Engine, Settings};
use load::recorder::STARTED;

use crate::scenarios::{ENGINES, adds_up, put_and_watch, rate};
use crate::scripted::nobody;

const REQUESTS: u64 = 30_000;

/// Starts all requests at once, each over a new connection, to a server that has left by then. Tells the server when
/// all of them have started.
fn ask(engine: Engine, url: &str, server: JoinHandle<usize>, started: Sender<()>) {
    let settings = Settings {
        engine,
        connections: 1,
        keep_alive: false,
        // None of them ends for lack of time.
        timeout: Duration::from_secs(3600),
        ..Settings::default()
    };
    let tally = put_and_watch(settings, rate(1_000_000.0, REQUESTS), url, move |counts| {
        if counts.counted(STARTED) == REQUESTS {
            // The server may have heard it already, and ended.
            let _ = started.send(());
        }
    });
    assert!(server.join().unwrap() > 0);
    assert!(adds_up(&tally), "{engine:?}: {tally:?}");
    // One request was at the server when it left, and perhaps one in its queue.
    let refused = tally.errors["refused"];
    assert!(refused >= REQUESTS - 10, "{engine:?}, {url}: {refused}");
}

/// Until all requests have started, the first one is not answered: the others wait for its connection.
fn answer_late(mut stream: impl Read, all_started: &Receiver<()>) -> usize {
    all_started.recv().unwrap();
    stream.read(&mut [0; 4096]).unwrap()
}

/// The waiting operations must fail one after the other: nested calls would need more stack than a thread has. Over TCP
/// the kernel reports the failure a moment later, for a path at once.
#[test]
fn requests_that_wait_for_a_stopped_server_fail_one_by_one() {
    for engine in ENGINES {
        let (address, _reserved) = nobody(0);
        let listener = TcpListener::bind(address).unwrap();
        let url = format!("http://{address}/");
        let (started, all_started) = channel();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            drop(listener);
            answer_late(stream, &all_started)
        });
        ask(engine, &url, server, started);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let url = format!("unix:{}:/", path.display());
        let (started, all_started) = channel();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            drop(listener);
            answer_late(stream, &all_started)
        });
        ask(engine, &url, server, started);
    }
}
