//! The daemon as a process, with the descriptors that a system grants it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use test_kit::{metrics, wait_until};

use crate::support::{Client, WEBSOCKET, stream};

/// A daemon in conformance mode, killed when this is dropped.
struct Daemon {
    child: Child,
    address: SocketAddr,
    metrics: SocketAddr,
}

impl Daemon {
    /// Starts a daemon that may have this many descriptors.
    fn start(descriptors: u32) -> Self {
        let options = "--conformance-echo --port 0 --workers 2 --metrics-addr 127.0.0.1:0";
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -n {descriptors}; exec \"$0\" {options}"))
            .arg(env!("CARGO_BIN_EXE_presence-daemon"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let errors = child.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(errors).lines();
        let mut address = || {
            let line = lines.next().expect("a line").expect("text");
            let address = line.rsplit(' ').next().expect("a word");
            let address = address.trim_start_matches("http://");
            address.parse().unwrap_or_else(|_| panic!("{line}"))
        };
        Self {
            address: address(),
            metrics: address(),
            child,
        }
    }

    fn metric(&self, name: &str) -> u64 {
        metrics::read(self.metrics, name)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn clients_wait_while_no_descriptor_is_left() {
    let daemon = Daemon::start(60);
    let mut first = Client::open(daemon.address, WEBSOCKET);
    first.text();
    first.send("40");
    first.text();
    first.text();
    // More than the daemon has descriptors for.
    let mut others: Vec<_> = (0..60).map(|_| stream(daemon.address)).collect();
    first.echo("1");
    drop(others.split_off(20));
    let errors = || daemon.metric("presence_accept_errors_total");
    wait_until("accepting failed", || errors() > 0);
    drop(others);
    let mut late = Client::open(daemon.address, WEBSOCKET);
    assert!(late.text().starts_with("0{"));
    first.echo("2");
}
