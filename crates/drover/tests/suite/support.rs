//! Creates a small project for a test, with scripted daemons and a scripted driver, and runs the program in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use harness_testing::processes;
use harness_testing::program::copy_program;
pub(crate) use harness_testing::result::json;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Generous limit: a machine may be busy, and a release build may have to come first.
const LIMIT: Duration = Duration::from_secs(900);

/// A driver without load: it does what the plan's `driver.do` says for a `daemon/level`, and writes results.
const DRIVER: &str = r#"#!/usr/bin/env -S python3 -I -S
import json, os, pathlib, signal, sys, time, tomllib
here = pathlib.Path(sys.argv[0]).resolve().parent.parent
arguments = sys.argv[1:]
if arguments[0] == "check":
    print("checked", *arguments[2:])
    sys.exit(4)
named = {key: arguments[arguments.index(key) + 1] for key in ("--plan", "--daemon")}
plan = tomllib.load(open(named["--plan"], "rb"))
for place, argument in enumerate(arguments):
    if argument == "--set":
        path, value = arguments[place + 1].split("=", 1)
        *parents, last = path.split(".")
        table = plan
        for key in parents:
            table = table[int(key)] if isinstance(table, list) else table[key]
        table[last] = tomllib.loads("x = " + value)["x"]
if "--print-plan" in arguments:
    if plan["driver"].get("refuse"):
        print("error: driver.refuse: leave it out", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)
into = pathlib.Path(arguments[arguments.index("--into") + 1])
assert not (into / "result.json").exists() and "--quiet" in arguments
daemon, level = named["--daemon"], plan["level"]
assert isinstance(level, str)
workers = plan["groups"][0]["clients"]
with open(here / "log", "a") as log:
    log.write(f"{daemon}/{level}/{into.name} {os.getpid()}\n")
if "--metrics-addr" in arguments:
    (here / "metrics").write_text(arguments[arguments.index("--metrics-addr") + 1])
what = plan["driver"].get("do", {}).get(f"{daemon}/{level}", "")
if what == "limit":
    print("error: the driver needs 999 open files, but may open 7\n  ulimit -n 999", file=sys.stderr)
    sys.exit(5)
if what == "refuse":
    print("error: driver.x: is wrong today", file=sys.stderr)
    sys.exit(2)
if what == "fail":
    print("error: building it: `make` exited with status 1", file=sys.stderr)
    sys.exit(1)
result = json.load(open(here / "template.json"))
result["daemon"]["name"], result["level"], result["verdict"], result["warnings"] = daemon, level, "VALID", []
result["run_id"] = f"{daemon}-{level}-{into.name}"
result["operations"] = {"started": workers, "ok": workers, "failed": 0, "unfinished": 0, "missed": 0, "peak_active": workers}
result["errors"], result["thresholds"], result["counts"], result["seconds"] = {}, [], {}, []
code = 0
def warn(kind, severity):
    result["warnings"] = [{"kind": kind, "severity": severity, "message": "it began late", "hint": "give it cores"}]
    result["verdict"] = severity.upper()
def write():
    into.mkdir(parents=True, exist_ok=True)
    (into / "result.json.part").write_text(json.dumps(result))
    os.rename(into / "result.json.part", into / "result.json")
def interrupted(*_):
    if what == "deaf":
        return
    warn("Interrupted", "suspect")
    write()
    os._exit(3)
if what in ("hang", "deaf") and (here / "hang").exists():
    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, interrupted)
    (here / "hanging").write_text(str(os.getpid()))
    while True:
        time.sleep(0.05)
if what == "errors":
    result["operations"].update(ok=workers - 3, failed=3)
    result["errors"], code = {"rejected": 3}, 1
if what == "allowed":
    result["operations"].update(ok=workers - 3, failed=3)
    result["errors"] = {"rejected": 3}
if what == "suspect":
    warn("NoisyHost", "suspect")
    code = 3
tries = len(list(into.parent.glob(into.name + ".invalid-*")))
late = what == "late" or what == "late once" and into.name == "1" or what == "late first" and tries == 0
for threshold in plan.get("thresholds", []):
    met = workers <= plan["driver"]["capacity"][daemon]
    result["thresholds"].append({"text": threshold, "measured": f"{workers} us", "met": met})
    code = code or (0 if met else 4)
if late:
    for threshold in result["thresholds"]:
        threshold["met"] = False
    warn("GeneratorLate", "invalid")
    code = 4 if result["thresholds"] else 3
if what == "late and failing":
    warn("GeneratorLate", "invalid")
    result["operations"].update(ok=workers - 3, failed=3)
    result["errors"], code = {"rejected": 3}, 1
try:
    write()
except OSError as error:
    print(f"error: writing {into}/result.json: {error.strerror}", file=sys.stderr)
    sys.exit(1)
sys.exit(code)
"#;

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
            "crates/fake-gen/Cargo.toml",
            "[package]\nname = 'fake-gen'\ndescription = 'Drives nothing'\n[package.metadata.drover]\nprotocol = 'fake'\n",
        );
        assert!(driver.is_file());
        for daemon in ["a", "b", "c"] {
            project.daemon(daemon, "true");
        }
        let template =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../measure/tests/data/result-1.json");
        fs::copy(template, project.path("template.json")).unwrap();
        let script = project.file("bin/fake-gen.py", DRIVER);
        copy_program(&script, &project.path("bin/fake-gen"));
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
    pub(crate) fn drover(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        let path = format!(
            "{}:{}",
            self.path("bin").display(),
            std::env::var("PATH").unwrap()
        );
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("PATH", path)
            .env_remove("DROVER_REQUIRE_ALL")
            .env_remove("DROVER_ROOT")
            .stdin(Stdio::null());
        command
    }

    /// Runs the plan to its end. Several tests, and thus suites, run at once.
    pub(crate) fn run(&self, more: &[&str]) -> Output {
        let arguments = [&["run", "configs/fake/tiny.toml", "--force"], more].concat();
        self.drover(&arguments).output().unwrap()
    }

    /// Starts the plan and waits until one of its runs hangs. Without `--force` it waits for the lock of the machine,
    /// which suites of other tests may hold.
    pub(crate) fn hang(&self, more: &[&str]) -> (Started, Pid) {
        self.file("hang", "");
        let arguments = [&["run", "configs/fake/tiny.toml"], more].concat();
        let mut command = self.drover(&arguments);
        let child = Started::spawn(&mut command);
        let mut pid = None;
        until("a run that hangs", || {
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

pub(crate) fn until(what: &str, happens: impl FnMut() -> bool) {
    processes::wait_until_within(LIMIT, what, happens);
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
pub(crate) fn ends_with(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}\n{}",
        messages(output),
        shown(output)
    );
}
