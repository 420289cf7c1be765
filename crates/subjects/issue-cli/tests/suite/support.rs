//! A folder with a database, in which the program runs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_issue");

/// A folder with a database. A daemon that a test starts in it is stopped at the end.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    /// Creates a folder with a database.
    pub(crate) fn new() -> Self {
        let folder = Self::empty();
        folder.done("init");
        folder
    }

    pub(crate) fn empty() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path().join(".issues/issues.db")
    }

    /// Returns a call, whose arguments are split as a shell does.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(shlex::split(arguments).unwrap())
            .current_dir(self.path())
            .env("USER", "tester")
            .stdin(Stdio::null());
        for variable in ["DB", "ACTOR", "TIMEOUT", "AUTO_START", "PREFIX"] {
            command.env_remove(format!("ISSUE_{variable}"));
        }
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command with an input.
    pub(crate) fn run_with(&self, arguments: &str, input: &str) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs a command that succeeds, and returns what it prints.
    pub(crate) fn done(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        text(&output.stdout).trim_end().to_owned()
    }

    /// Runs a command that succeeds, and returns its JSON.
    pub(crate) fn json(&self, arguments: &str) -> Value {
        let printed = self.done(&format!("{arguments} --json"));
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"))
    }

    /// Runs a command that fails with an exit code, and returns its error message.
    pub(crate) fn refused(&self, code: i32, arguments: &str) -> String {
        let output = self.run(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        error
    }

    /// Starts a daemon for the database.
    pub(crate) fn start_daemon(&self) {
        require_daemon();
        self.done("daemon start");
    }

    /// Returns the process id of the daemon, if one runs.
    pub(crate) fn daemon_pid(&self) -> Option<i32> {
        let output = self.run("daemon status --json");
        let status: Value = serde_json::from_slice(&output.stdout).ok()?;
        status["pid"].as_i64().map(|pid| pid as i32)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.database().exists()
            && let Some(pid) = self.daemon_pid()
        {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks that the daemon lies beside the program, which starts it from there.
#[track_caller]
pub(crate) fn require_daemon() {
    let daemon = Path::new(PROGRAM).with_file_name("issue-daemon");
    assert!(
        daemon.is_file(),
        "issue-daemon is another package's program: cargo build --workspace --bins"
    );
}
