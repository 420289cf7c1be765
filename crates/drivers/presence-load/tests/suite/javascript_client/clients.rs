//! The process with the JavaScript clients: `members.js`.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};

const PROGRAM: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/suite/javascript_client/members.js"
);
/// The packages of the daemon node-presence, in its build folder.
const PACKAGES: &str = concat!(
    env!("CARGO_TARGET_TMPDIR"),
    "/../daemons/node-presence/node_modules"
);

/// A report of what one client has received.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) room_id: String,
    pub(crate) user_id: String,
    pub(crate) conn_id: String,
    pub(crate) transport: String,
    /// The transport at the end: `polling` or `websocket`.
    pub(crate) ended_on: String,
    /// The answer to the join.
    pub(crate) joined: Value,
    /// In the order of their arrival.
    pub(crate) events: Vec<Event>,
    pub(crate) failures: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) room_id: String,
    pub(crate) user_id: String,
    pub(crate) conn_id: String,
    pub(crate) state: Value,
    pub(crate) ts: u64,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) reason: Option<String>,
}

/// A running process with clients; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Clients {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Clients {
    pub(crate) fn start(
        url: &str,
        rooms: &[&str],
        clients_per_room: usize,
    ) -> anyhow::Result<Self> {
        let config = json!({ "url": url, "rooms": rooms, "clientsPerRoom": clients_per_room });
        let mut child = Command::new("node")
            .arg(PROGRAM)
            .arg(config.to_string())
            .env("NODE_PATH", PACKAGES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = child.stdin.take().context("has no standard input")?;
        let answers = child.stdout.take().context("has no standard output")?;
        Ok(Self {
            child,
            commands,
            answers: BufReader::new(answers).lines(),
        })
    }

    /// Gives a command to all clients, and returns the answer. Each takes at most half a minute.
    pub(crate) fn command(&mut self, command: &str) -> anyhow::Result<Value> {
        writeln!(self.commands, "{command}")?;
        let line = self.answers.next();
        let line = line.with_context(|| format!("the clients failed: {command}"))?;
        Ok(serde_json::from_str(&line?)?)
    }

    /// Waits until everything that was published has arrived.
    pub(crate) fn reports(mut self) -> anyhow::Result<Vec<Report>> {
        let answer = self.command("report")?;
        Ok(Vec::deserialize(&answer["clients"])?)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
