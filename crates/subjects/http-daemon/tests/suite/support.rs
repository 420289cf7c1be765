//! Runs a daemon as a separate process, and clients that send raw bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use test_kit::{metrics, wait_until};

/// A time that nothing here takes, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A running daemon. Dropping it kills it and its processes.
pub(crate) struct Daemon {
    child: Child,
    lines: Receiver<String>,
    /// The lines that it printed before it listened.
    first: Vec<String>,
    pub(crate) dir: TempDir,
    pub(crate) http: SocketAddr,
    pub(crate) https: Option<SocketAddr>,
    pub(crate) metrics: SocketAddr,
}

impl Daemon {
    pub(crate) fn start(arguments: &str) -> Self {
        Self::start_by(arguments, |_| {})
    }

    /// Starts a daemon after a change to its command.
    pub(crate) fn start_by(arguments: &str, change: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command();
        command.args(["--http-port", "0", "--metrics-port", "0"]);
        command
            .arg("--root")
            .arg(dir.path().join("www"))
            .args(arguments.split_whitespace());
        change(&mut command);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (line, lines) = channel();
        thread::spawn(move || {
            stderr
                .lines()
                .map_while(Result::ok)
                .try_for_each(|text| line.send(text))
        });
        let mut places = BTreeMap::new();
        let mut first = Vec::new();
        while !places.contains_key("metrics") {
            let text = lines.recv_timeout(LONG).expect("it says where it listens");
            if let Some(place) = text.strip_prefix("http-daemon: listening on ") {
                let (scheme, rest) = place.split_once("://").expect("a URL");
                match rest.strip_suffix("/metrics") {
                    Some(rest) => places.insert("metrics", rest.parse().unwrap()),
                    None => places.insert(
                        if scheme == "https" { "https" } else { "http" },
                        rest.parse().unwrap(),
                    ),
                };
            } else {
                first.push(text);
            }
        }
        Self {
            first,
            child,
            lines,
            dir,
            http: places["http"],
            https: places.get("https").copied(),
            metrics: places["metrics"],
        }
    }

    pub(crate) fn www(&self) -> PathBuf {
        self.dir.path().join("www")
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.http)
    }

    /// Sends a request over its own connection.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.connect().get(path)
    }

    /// Returns a value of the metrics page.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        metrics::read(self.metrics, name)
    }

    /// Waits until the value is right.
    pub(crate) fn await_metric(&self, name: &str, is_right: impl Fn(u64) -> bool) {
        wait_until(name, || is_right(self.metric(name)));
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Returns its child processes.
    pub(crate) fn children(&self) -> Vec<Pid> {
        let pids = test_kit::children(self.pid()).into_iter();
        pids.map(Pid::from_raw).collect()
    }

    /// Returns the processes that serve.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let mut pids = self.children();
        pids.push(self.pid());
        pids
    }

    /// Returns the anonymous memory of all processes in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let anonymous = |pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("RssAnon:"));
            let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
            kilobytes.parse::<u64>().unwrap() << 10
        };
        self.processes().into_iter().map(anonymous).sum()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_until("the end of the daemon", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    /// Waits until it prints a line with these words.
    pub(crate) fn await_line(&self, words: &str) {
        while !self
            .lines
            .recv_timeout(LONG)
            .expect("it says more")
            .contains(words)
        {}
    }

    /// Returns all lines it has printed except its addresses. Must be called after its end.
    pub(crate) fn stderr(&self) -> String {
        self.first
            .iter()
            .cloned()
            .chain(self.lines.iter())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_http-daemon"));
    command.env_clear().process_group(0);
    command
}

/// A connection that sends exactly the given bytes.
pub(crate) struct Client<S = TcpStream>(pub(crate) S);

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self(stream)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn send(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.write_all(bytes).unwrap();
        self
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())
            .answer()
    }

    /// Reads the next response, by its length.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        let length = answer
            .field("content-length")
            .expect("it has a length")
            .parse()
            .unwrap();
        answer.body.resize(length, 1);
        self.0.read_exact(&mut answer.body).unwrap();
        answer
    }

    /// Reads the next head, without a body.
    pub(crate) fn head(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap_or_else(|error| {
                panic!("{error} after {:?}", String::from_utf8_lossy(&head))
            });
            head.push(byte[0]);
        }
        Answer {
            head: String::from_utf8(head).unwrap(),
            body: Vec::new(),
        }
    }

    /// Reads everything until the connection ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        rest
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(self) -> String {
        String::from_utf8(self.body).unwrap()
    }
}
