//! Runs that are divided over several programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::result::{self, ResultFile};

/// The parts of a run that is divided over several programs, in a temporary folder. Parts that still run are killed at
/// the end of the test.
#[derive(Debug)]
pub struct DividedRun {
    program: PathBuf,
    folder: TempDir,
    parts: Vec<Child>,
}

impl DividedRun {
    /// Creates a run without parts of the driver at a path.
    #[must_use]
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            folder: tempfile::tempdir().unwrap(),
            parts: Vec::new(),
        }
    }

    /// Returns the common folder of the parts.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Returns a call of the driver with the common folder.
    #[must_use]
    pub fn part(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--result-dir").arg(self.folder());
        command.arg("--quiet").args(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Starts a part. Parts are numbered from 0, in starting order.
    pub fn start(&mut self, arguments: &[&str]) {
        self.start_command(self.part(arguments));
    }

    /// Starts a part by its call.
    pub fn start_command(&mut self, mut command: Command) {
        self.parts.push(command.spawn().unwrap());
    }

    /// Starts all shards, each with the same arguments.
    pub fn start_shards(&mut self, of: u64, arguments: &[impl AsRef<OsStr>]) {
        for index in 0..of {
            let mut shard = self.part(&["--shard", &format!("{index}/{of}")]);
            shard.args(arguments);
            self.start_command(shard);
        }
    }

    /// Returns the process of a part.
    #[must_use]
    pub fn process(&self, part: usize) -> &Child {
        &self.parts[part]
    }

    /// Waits for all parts, and returns how each ended.
    pub fn wait(&mut self) -> Vec<Output> {
        let parts = self.parts.drain(..);
        parts.map(|part| part.wait_with_output().unwrap()).collect()
    }

    /// Waits for all parts, which must end with exit codes 0 or 3.
    #[track_caller]
    pub fn wait_for_results(&mut self) {
        for output in self.wait() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                matches!(output.status.code(), Some(0 | 3)),
                "{output:?}: {stderr}"
            );
        }
    }

    /// Returns the result of a shard.
    #[must_use]
    pub fn shard(&self, index: u64) -> ResultFile {
        let path = self.folder().join(format!("shard-{index}/result.json"));
        result::intact(&path)
    }

    /// Merges the parts, and returns how the command ended.
    #[must_use]
    pub fn try_merge(&self) -> Output {
        let mut command = Command::new(&self.program);
        command.arg("merge").arg(self.folder()).output().unwrap()
    }

    /// Merges the parts, and returns the merged result, the exit code and the report.
    #[track_caller]
    pub fn merge(&self) -> (ResultFile, i32, String) {
        let output = self.try_merge();
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        let code = output.status.code().unwrap();
        assert!(matches!(code, 0 | 1 | 3 | 4), "{output:?}");
        let path = self.folder().join("result.json");
        (result::intact(&path), code, report)
    }
}

impl Drop for DividedRun {
    fn drop(&mut self) {
        for part in &mut self.parts {
            // A part that has ended needs no signal.
            let _ = part.kill();
            let _ = part.wait();
        }
    }
}
