//! A connection to a host: the user's own ssh, which copies this program there and runs it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use harness::command_line::quoted;
use tokio::sync::mpsc::UnboundedSender;

use super::message::{self, FromHost, READY, ToHost};

/// Options after the user's own, which thus win: nobody is asked anything, and a host that does not answer is noticed.
const OPTIONS: [&str; 6] = [
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oClearAllForwardings=yes",
];
/// Time without another message after which the host is sent a [`ToHost::Ping`].
const PING: Duration = Duration::from_secs(5);
/// Time that a host has to end what it runs, once the connection is closed.
const CLOSING: Duration = Duration::from_secs(15);
/// Time between two looks at a connection that is closing.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of ssh's standard error that are read, and its last lines that are shown.
const MOST_STDERR: usize = 64 << 10;
const SHOWN_LINES: usize = 3;

/// An event of a connection.
#[derive(Debug)]
pub(super) enum Event {
    /// This program runs on the host.
    Ready,
    Message(FromHost, Vec<u8>),
    /// The connection has ended, with the reason.
    Lost(String),
}

/// A connection to a host.
#[derive(Debug)]
pub(super) struct Session {
    /// True once something may run on the host that has to end.
    pub(super) is_ready: bool,
    ssh: Child,
    /// Closing it ends the connection, and all that the host runs for it.
    outbox: Option<Sender<(ToHost, Arc<[u8]>)>>,
}

impl Session {
    /// Connects to a host. Its events have its index.
    ///
    /// # Errors
    /// ssh cannot be started, or a program of this machine cannot be read.
    pub(super) fn open(
        index: usize,
        host: &str,
        options: &[String],
        program: &Path,
        events: UnboundedSender<(usize, Event)>,
    ) -> anyhow::Result<Self> {
        let reading = || format!("reading {}", program.display());
        let program = File::open(program).with_context(reading)?;
        let size = program.metadata().with_context(reading)?.len();
        let stderr = tempfile::tempfile().context("creating a temporary file")?;
        let mut ssh = Command::new("ssh")
            .args(options)
            .args(OPTIONS)
            .args(["--", host])
            .arg(remote_command(size))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone().context("creating a temporary file")?)
            // Ctrl-C is for this program: it tells the hosts.
            .process_group(0)
            .spawn()
            .context("starting ssh: install an ssh client (Debian: openssh-client)")?;
        let (outbox, messages) = channel();
        let stdin = ssh.stdin.take().context("ssh has no stdin")?;
        let stdout = ssh.stdout.take().context("ssh has no stdout")?;
        thread::spawn(move || write(stdin, program, &messages));
        thread::spawn(move || {
            // Nobody receives it once this program ends.
            let tell = |event| events.send((index, event)).is_ok();
            let ended = read(stdout, tell);
            tell(Event::Lost(reason(&stderr, ended)));
        });
        Ok(Self {
            is_ready: false,
            ssh,
            outbox: Some(outbox),
        })
    }

    /// Sends a message. The loss of the connection is an event of its own.
    pub(super) fn send(&self, message: ToHost, content: &Arc<[u8]>) {
        if let Some(outbox) = &self.outbox {
            let _ = outbox.send((message, Arc::clone(content)));
        }
    }

    /// Begins to close the connection.
    pub(super) fn close(&mut self) {
        self.outbox = None;
    }
}

impl Drop for Session {
    /// Waits until the host has ended what it runs.
    fn drop(&mut self) {
        self.close();
        let mut left = if self.is_ready {
            CLOSING
        } else {
            Duration::ZERO
        };
        while matches!(self.ssh.try_wait(), Ok(None)) && !left.is_zero() {
            thread::sleep(LOOK);
            left = left.saturating_sub(LOOK);
        }
        // One that has ended needs no signal.
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// Returns the command of the host's shell: a new folder gets this program, which then reads its messages. The folder is
/// removed at the end. No text of a user is in it.
fn remote_command(size: u64) -> String {
    let script = format!(
        "d=$(mktemp -d \"${{TMPDIR:-/tmp}}/drover-XXXXXX\") || exit 1; \
         trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP INT TERM; \
         cd \"$d\" && head -c {size} > drover && chmod 700 drover && ./drover cluster host"
    );
    // The shell of the user may be another one.
    format!("exec sh -c {}", quoted(&script))
}

/// Sends the program, and then messages until there is none to come. The first message follows [`Event::Ready`]: `head`
/// may read more than it was asked for.
fn write(mut stdin: ChildStdin, mut program: File, messages: &Receiver<(ToHost, Arc<[u8]>)>) {
    // A connection that is lost is noticed by its reader.
    if io::copy(&mut program, &mut stdin).is_err() {
        return;
    }
    let mut next = messages.recv().map_err(|_| RecvTimeoutError::Disconnected);
    loop {
        let (message, content) = match next {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => (ToHost::Ping, Arc::default()),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if message::send(&mut stdin, &message, &content).is_err() || stdin.flush().is_err() {
            return;
        }
        next = messages.recv_timeout(PING);
    }
}

/// Reads the messages of a host until its end.
fn read(stdout: ChildStdout, tell: impl Fn(Event) -> bool) -> io::Result<()> {
    let mut from = BufReader::new(stdout);
    let mut line = Vec::new();
    while line.trim_ascii() != READY.as_bytes() {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
    }
    let mut is_heard = tell(Event::Ready);
    while is_heard && let Some((message, content)) = message::receive(&mut from)? {
        is_heard = tell(Event::Message(message, content));
    }
    Ok(())
}

/// Returns the reason why a connection has ended: the last lines that ssh or the host have printed.
fn reason(stderr: &File, ended: io::Result<()>) -> String {
    let mut bytes = vec![0; MOST_STDERR];
    let length = stderr.read_at(&mut bytes, 0).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    match (lines.as_slice(), ended) {
        ([], Ok(())) => "the connection has ended".to_owned(),
        ([], Err(error)) => format!("the connection has ended: {error}"),
        (lines, _) => lines[lines.len().saturating_sub(SHOWN_LINES)..].join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_without_anything_else_runs_what_was_copied_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let program = "#!/bin/sh\necho \"$0 $*\"; cat\n";
        let mut shell = Command::new("sh")
            .args(["-c", &remote_command(program.len() as u64)])
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        stdin.write_all(program.as_bytes()).unwrap();
        stdin.write_all(b"messages").unwrap();
        drop(stdin);
        let output = shell.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, "./drover cluster host\nmessages");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
