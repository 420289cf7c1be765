//! The program.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use test_kit::{LIMIT, becomes_true, metrics};

/// A daemon that is killed when this is dropped.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    metrics: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_presence-daemon"))
            .args([
                "--port",
                "0",
                "--metrics-addr",
                "127.0.0.1:0",
                "--workers",
                "1",
            ])
            .args(arguments)
            .env_clear()
            .env("PRESENCE_REAPER_INTERVAL_MS", "50")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
        let mut address = |before: &str| {
            loop {
                let line = lines.next().expect("the daemon starts").expect("text");
                if let Some((_, address)) = line.split_once(before) {
                    return address.parse().expect("an address");
                }
            }
        };
        let (listening, metrics) = (address("listening on "), address("metrics on "));
        let kept = Arc::clone(&log);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *kept.lock().expect("no panic") += &(line + "\n");
            }
        });
        Self {
            child,
            address: listening,
            metrics,
            log,
        }
    }

    /// Returns the value of a metric.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let page = metrics::page(self.metrics).expect("the daemon listens");
        let samples = page.lines().filter(|line| line.starts_with(name));
        let values = samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        values.sum()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was killed");
    }

    pub(crate) fn wait_until(&self, condition: &str, holds: impl FnMut() -> bool) {
        if !becomes_true(LIMIT, holds) {
            panic!(
                "waited for this: {condition}; log:\n{}",
                self.log.lock().expect("no panic")
            );
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
