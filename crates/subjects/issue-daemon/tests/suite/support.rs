//! A daemon in a folder of its own, and a client that sends lines.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use issue_store::{Options, Reader, Store};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for any machine; a test that waits for it fails.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running daemon. It is killed when this is dropped.
pub(crate) struct Daemon {
    pub(crate) database: PathBuf,
    pub(crate) socket: PathBuf,
    child: Child,
    stderr: BufReader<ChildStderr>,
    _folder: Option<TempDir>,
}

/// Returns the command that serves a database.
pub(crate) fn command(database: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_issue-daemon"));
    command.arg("--db").arg(database).stderr(Stdio::piped());
    command
}

impl Daemon {
    /// Starts a daemon on a new database.
    pub(crate) fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut daemon = Self::on(&folder.path().join("issues.db"), options);
        daemon._folder = Some(folder);
        daemon
    }

    /// Starts a daemon on a database that is kept.
    pub(crate) fn on(database: &Path, options: &[&str]) -> Self {
        let mut command = command(database);
        command.args(options);
        Self::start(command, database)
    }

    pub(crate) fn start(command: Command, database: &Path) -> Self {
        Self::try_start(command, database).expect("the daemon starts")
    }

    /// Starts a daemon. Returns none if it ends at once.
    pub(crate) fn try_start(mut command: Command, database: &Path) -> Option<Self> {
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let Some((_, socket)) = line.trim_end().split_once("listening on ") else {
            assert_eq!(child.wait().unwrap().code(), Some(1), "{line}");
            return None;
        };
        Some(Self {
            database: database.to_owned(),
            socket: PathBuf::from(socket),
            child,
            stderr,
            _folder: None,
        })
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket).unwrap()
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Returns true if it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Returns the number of its open descriptors, and its resident memory in bytes.
    pub(crate) fn usage(&self) -> (usize, usize) {
        let process = format!("/proc/{}", self.pid());
        let files = fs::read_dir(format!("{process}/fd")).unwrap().count();
        let pages = fs::read_to_string(format!("{process}/statm")).unwrap();
        let resident = pages.split_whitespace().nth(1).unwrap();
        (files, resident.parse::<usize>().unwrap() * 4096)
    }

    /// Waits for the next line of stderr.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    /// Waits for the end. Returns the exit code, and what was written to stderr after the lines that were read.
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }

    /// Ends the daemon by SIGTERM.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let (code, text) = self.wait();
        assert_eq!((code, text.as_str()), (Some(0), ""));
    }

    pub(crate) fn reader(&self) -> Reader {
        reader(&self.database)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens a database beside the daemon.
pub(crate) fn reader(database: &Path) -> Reader {
    let store = Store::open(database, Options::default()).unwrap();
    store.reader().unwrap()
}

/// A connection that sends lines as they are.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Client {
    pub(crate) fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(LONG))?;
        stream.set_write_timeout(Some(LONG))?;
        Ok(Self {
            answers: BufReader::new(stream.try_clone()?),
            stream,
        })
    }

    pub(crate) fn send(&mut self, request: &Value) -> io::Result<()> {
        self.stream.write_all(format!("{request}\n").as_bytes())
    }

    /// Returns the next answer, or none at the end of the connection.
    pub(crate) fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) => None,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            read => {
                read.unwrap();
                Some(serde_json::from_str(&line).unwrap())
            }
        }
    }

    pub(crate) fn request(&mut self, request: &Value) -> Value {
        self.send(request).unwrap();
        self.answer().expect("an answer")
    }

    pub(crate) fn call(&mut self, operation: &str, args: impl Into<Value>) -> Value {
        self.request(&json!({"operation": operation, "args": args.into(), "actor": "me"}))
    }

    pub(crate) fn data(&mut self, operation: &str, args: impl Into<Value>) -> Value {
        let mut answer = self.call(operation, args);
        assert_eq!(answer["success"], true, "{operation}: {answer}");
        answer["data"].take()
    }

    pub(crate) fn create(&mut self, title: &str) -> String {
        let issue = self.data("create", json!({"title": title}));
        issue["id"].as_str().unwrap().to_owned()
    }
}
