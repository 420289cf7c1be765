//! A program of the workspace, run as its users do.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use tempfile::TempDir;

use crate::result::{self, ResultFile};
use test_kit::skip;

/// Copies a program or a script, executable for everybody, so that it can be run at once.
///
/// Another process copies it: a program that is open for writing cannot be run (ETXTBSY), and whatever another test
/// starts in this moment inherits the open file until it calls exec.
#[track_caller]
pub fn copy_program(from: &Path, to: &Path) {
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).args([from, to]).status();
    assert!(status.unwrap().success(), "cannot copy {}", from.display());
}

/// Returns other programs of the workspace, which lie beside the one under test: `env!("CARGO_BIN_EXE_drover")`. Returns
/// `None`, and reports the test as skipped, if one was not built: only a build of the whole workspace builds them.
#[track_caller]
pub fn beside<const N: usize>(program: &str, names: [&str; N]) -> Option<[PathBuf; N]> {
    let folder = Path::new(program).parent().unwrap();
    let paths = names.map(|name| folder.join(name));
    let missing = paths.iter().find(|path| !path.is_file());
    if let Some(path) = missing {
        skip(format!(
            "{}: cargo build --workspace --bins --examples",
            path.display()
        ));
        return None;
    }
    Some(paths)
}

/// Splits the arguments of a call as a shell does: `--rate 5 --only 'two words'`.
///
/// # Panics
/// A quote is left open.
#[must_use]
pub fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap()
}

/// A call of a driver, with a temporary folder for its result.
#[derive(Debug)]
pub struct Program {
    command: Command,
    folder: TempDir,
}

impl Program {
    /// Returns a call of the driver at a path: `Program::new(env!("CARGO_BIN_EXE_http-load"))`.
    #[must_use]
    pub fn new(path: impl AsRef<OsStr>) -> Self {
        Self::from_command(Command::new(path))
    }

    /// Returns a call by any command that ends with a driver and its arguments.
    #[must_use]
    pub fn from_command(mut command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        command.arg("--into").arg(folder.path().join("run"));
        Self { command, folder }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Adds arguments as they are typed: `--rate 5 --only 'two words'`.
    #[must_use]
    pub fn call(self, line: &str) -> Self {
        self.args(words(line))
    }

    /// Returns the command, for its directory or its environment.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs it to its end, and reads its result.
    ///
    /// # Panics
    /// It wrote no result.
    #[track_caller]
    pub fn run(mut self) -> CompletedRun {
        let output = self.command.output().unwrap();
        CompletedRun::read(&output, self.folder.path())
    }

    /// Starts it, with stderr to be read by [`RunningProgram::lines`] or [`RunningProgram::end`].
    pub fn start(mut self) -> RunningProgram {
        let command = self.command.stdout(Stdio::null()).stderr(Stdio::piped());
        RunningProgram {
            child: command.spawn().unwrap(),
            folder: self.folder,
        }
    }

    /// Checks that it ends with an exit code and these words in stderr, and writes no result; returns its stderr.
    #[track_caller]
    pub fn refused(mut self, code: i32, words: &[&str]) -> String {
        let output = self.command.output().unwrap();
        let stderr = ended_with(&output, code, words, &self.command);
        let written = std::fs::read_dir(&self.folder).unwrap().count();
        assert_eq!(
            written, 0,
            "a run that did not begin leaves nothing: {stderr}"
        );
        stderr
    }
}

/// Checks an exit code and these words in stderr, which it returns. `call` is shown if they differ.
#[track_caller]
pub fn ended_with(
    output: &Output,
    code: i32,
    words: &[&str],
    call: &impl std::fmt::Debug,
) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{call:?}: {stderr}");
    for word in words {
        assert!(
            stderr.contains(word),
            "{word:?} is not in {stderr}: {call:?}"
        );
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
    stderr
}

/// A started driver.
#[derive(Debug)]
pub struct RunningProgram {
    /// The process.
    pub child: Child,
    folder: TempDir,
}

impl RunningProgram {
    /// Returns the lines of its stderr, once.
    pub fn lines(&mut self) -> Lines<BufReader<ChildStderr>> {
        BufReader::new(self.child.stderr.take().unwrap()).lines()
    }

    /// Waits until it has reported this many operations of a kind: `ok`, `failed`.
    #[track_caller]
    pub fn wait_for(&self, kind: &str, count: u64) {
        result::wait_for(self.folder.path(), kind, count);
    }

    /// Waits for its end, and reads its result.
    ///
    /// # Panics
    /// It wrote no result.
    #[track_caller]
    pub fn end(self) -> CompletedRun {
        let output = self.child.wait_with_output().unwrap();
        CompletedRun::read(&output, self.folder.path())
    }
}

/// A completed run.
#[derive(Debug)]
pub struct CompletedRun {
    /// The exit code.
    pub code: i32,
    /// The report.
    pub stdout: String,
    /// Warnings, progress and errors.
    pub stderr: String,
    /// The result that it wrote.
    pub result: ResultFile,
}

impl CompletedRun {
    /// Reads the only result below a folder.
    ///
    /// # Panics
    /// There is none.
    #[track_caller]
    pub fn read(output: &Output, folder: &Path) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let path = result::find(folder, "result.json");
        let path = path.unwrap_or_else(|| panic!("no result: {:?}: {stderr}", output.status));
        let code = output.status.code();
        Self {
            code: code.unwrap_or_else(|| panic!("{:?}: {stderr}", output.status)),
            result: result::intact(&path),
            stdout,
            stderr,
        }
    }
}
