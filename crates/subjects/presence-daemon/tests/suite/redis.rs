//! A real Redis.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use test_kit::{LIMIT, becomes_true, skip};

use crate::daemon::Daemon;

/// A Redis that keeps nothing on disk, and is killed when this is dropped.
pub(crate) struct Redis {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Redis {
    /// Starts Redis; returns `None`, after saying so, if it is not installed.
    #[track_caller]
    pub(crate) fn start() -> Option<Self> {
        let is_installed = Command::new("redis-server")
            .arg("--version")
            .output()
            .is_ok();
        if !is_installed {
            skip("redis-server");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let folder = TempDir::new().expect("a folder");
        let child = spawn(port, &folder);
        let redis = Self {
            child,
            port,
            folder,
        };
        redis.wait();
        Some(redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts a node that soon notices what happens.
    pub(crate) fn node(&self, arguments: &[&str]) -> Daemon {
        let url = self.url();
        let quick = [
            "--redis",
            &url,
            "--node-lease-ms",
            "1500",
            "--redis-timeout-ms",
            "500",
        ];
        let node = Daemon::start(&[&quick, arguments].concat());
        node.wait_until("the node reaches Redis", || {
            node.metric("presence_redis_up") == 1
        });
        node
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was killed");
    }

    /// Starts an empty Redis at the same address.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(self.port, &self.folder);
        self.wait();
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
    }

    /// Returns the keys.
    pub(crate) fn keys(&self) -> String {
        self.ask("KEYS *\r\n").expect("Redis answers")
    }

    /// Returns the time on its clock in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        let answer = self.ask("TIME\r\n").expect("Redis answers");
        // Two strings, seconds and microseconds, each after a line with its length.
        let numbers = answer.lines().filter_map(|line| line.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        numbers[0] * 1_000 + numbers[1] / 1_000
    }

    fn wait(&self) {
        assert!(
            becomes_true(LIMIT, || self.ask("PING\r\n").is_some()),
            "Redis starts"
        );
    }

    fn ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.write_all(command.as_bytes()).ok()?;
        stream.write_all(b"QUIT\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, folder: &TempDir) -> Child {
    Command::new("redis-server")
        .args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--port",
        ])
        .arg(port.to_string())
        .arg("--dir")
        .arg(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("Redis starts")
}
