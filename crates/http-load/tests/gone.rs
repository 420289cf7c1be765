//! Requests that wait for a connection to a server that is gone. By itself: the port is free then, and a server of another
//! test of the same program could take it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/load.rs"]
mod load;

use std::io::Read as _;
use std::net::TcpListener;
use std::time::Duration;

use http_load::Settings;

use crate::load::{ENGINES, adds_up, put, rate};

/// Whoever waits for a connection is told one after the other that there is none: each within the last would take more
/// stack than a thread has.
#[test]
fn many_that_wait_for_a_server_that_is_gone_fail_one_by_one() {
    for engine in ENGINES {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            drop(listener);
            // All are due within 30 ms: until then this one is not answered.
            std::thread::sleep(Duration::from_millis(500));
            stream.read(&mut [0; 4096]).unwrap()
        });
        let settings = Settings {
            engine,
            connections: 1,
            keep_alive: false,
            ..Settings::default()
        };
        let url = format!("http://{address}/");
        let tally = put(settings, rate(1_000_000.0, 30_000), &url);
        assert!(server.join().unwrap() > 0);
        assert!(adds_up(&tally), "{engine:?}: {tally:?}");
        // One was with the server when it went, and perhaps one in its queue.
        let refused = tally.errors["refused"];
        assert!(refused >= 29_990, "{engine:?}: {refused}");
    }
}
