//! Creates a small project for a test, with scripted daemons and a scripted driver, and runs the program in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

pub(crate) use harness_testing::assert_contains;
use harness_testing::processes;
use harness_testing::program::{copy_program, words};
use harness_testing::result::ResultFile;
pub(crate) use harness_testing::result::json;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Suites of other tests may have to end first, one after the other.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

const PLAN: &str = r#"# Which of the scripted daemons is the better one?
name = "tiny"
[timeline]
measure = "1s"
drain = "1s"
[[groups]]
name = "fixed"
clients = 5
ops = 1
"#;

/// A project in its own folder, with the daemons `a`, `b` and `c`.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    /// Creates a project. `rest` is the rest of the plan: the instructions for the driver, and the suite.
    pub(crate) fn new(rest: &str) -> Self {
        let project = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let driver = project.file(
            "crates/drivers/fake-gen/Cargo.toml",
            "[package]\nname = 'fake-gen'\ndescription = 'Drives nothing'\n[package.metadata.drover]\nprotocol = 'fake'\n",
        );
        assert!(driver.is_file());
        for daemon in ["a", "b", "c"] {
            project.daemon(daemon, "true");
        }
        let template =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../measure/tests/data/result-2.json");
        fs::copy(template, project.path("template.json")).unwrap();
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fake-gen.py");
        fs::create_dir(project.path("bin")).unwrap();
        copy_program(&driver, &project.path("bin/fake-gen"));
        project.plan("tiny", rest);
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn daemon(&self, name: &str, tool: &str) {
        let manifest = format!(
            "about = 'Daemon {name}'\nserves = ['fake']\nneeds = [['{tool}']]\nrun = ['true']\nready = {{ line = 'up' }}\n"
        );
        self.file(&format!("daemons/{name}/daemon.toml"), &manifest);
    }

    pub(crate) fn plan(&self, name: &str, rest: &str) {
        self.file(
            &format!("configs/fake/{name}.toml"),
            &format!("{PLAN}{rest}"),
        );
    }

    /// Returns a command of the program in this project, with its own driver in PATH.
    pub(crate) fn drover(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        command
            .args(words(arguments))
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env_remove("DROVER_REQUIRE_ALL")
            .env_remove("DROVER_ROOT")
            .stdin(Stdio::null());
        command
    }

    /// Calls the program, and asserts its exit code.
    #[track_caller]
    pub(crate) fn call(&self, arguments: &str, code: i32) -> Output {
        let output = self.drover(arguments).output().unwrap();
        ends_with(&output, code);
        output
    }

    /// Runs the plan to its end, and asserts the exit code. Several tests, and thus suites, run at once.
    #[track_caller]
    pub(crate) fn run(&self, more: &str, code: i32) -> Output {
        self.call(&format!("run configs/fake/tiny.toml --force {more}"), code)
    }

    /// Starts the plan and waits until one of its runs hangs. Without `--force` it waits for the lock of the machine,
    /// which suites of other tests may hold.
    pub(crate) fn hang(&self, more: &str) -> (Started, Pid) {
        self.file("hang", "");
        let mut command = self.drover(&format!("run configs/fake/tiny.toml {more}"));
        let child = Started::spawn(&mut command);
        let mut pid = None;
        processes::wait_until_within(LIMIT, "a run that hangs", || {
            let text = fs::read_to_string(self.path("hanging")).unwrap_or_default();
            pid = text.parse().ok().map(Pid::from_raw);
            pid.is_some()
        });
        fs::remove_file(self.path("hang")).unwrap();
        fs::remove_file(self.path("hanging")).unwrap();
        (child, pid.unwrap())
    }

    /// Returns the runs that the driver has made, in order: `a/5/1`.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("log")).unwrap_or_default();
        let run = |line: &str| line.split(' ').next().unwrap().to_owned();
        text.lines().map(run).collect()
    }

    /// Returns the folder of a suite, by its name.
    pub(crate) fn suite(&self, name: &str) -> PathBuf {
        let out = self.path("bench-results");
        let day = fs::read_dir(out).unwrap().next().unwrap().unwrap().path();
        day.join(name)
    }

    pub(crate) fn suites(&self) -> usize {
        fs::read_dir(self.suite("")).unwrap().count()
    }

    pub(crate) fn record(&self) -> Value {
        json(&self.suite("tiny/suite.json"))
    }
}

/// The running program; it is killed if the test fails.
pub(crate) struct Started {
    child: Option<Child>,
    pub(crate) pid: Pid,
}

impl Started {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        let child = Some(child);
        Self { child, pid }
    }

    /// Waits for the end of the program.
    pub(crate) fn end(mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn interrupt(started: &Started) {
    kill(started.pid, Signal::SIGINT).unwrap();
}

/// Returns true if a process has ended, including a zombie.
pub(crate) fn has_exited(pid: Pid) -> bool {
    !processes::is_running(pid.as_raw())
}

pub(crate) fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asserts the exit code, and shows the output if it differs.
#[track_caller]
pub(crate) fn ends_with(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}\n{}",
        messages(output),
        shown(output)
    );
}

/// Asserts that a merged result has three shards, all complete.
#[track_caller]
pub(crate) fn has_three_shards(merged: &ResultFile) {
    assert_eq!(merged["shards"].as_array().unwrap().len(), 3);
    for kind in ["ShardsMissing", "CountsDisagree", "WorkersFailed"] {
        assert!(merged.warning(kind).is_none(), "{}", merged["warnings"]);
    }
}
