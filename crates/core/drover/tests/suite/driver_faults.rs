//! Tests all drivers under faults of the machine and of the server that they load. The page `faults.md` names them.
//!
//! The server runs apart from the driver wherever a fault is for the driver alone.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use harness::drivers;
use harness_testing::program::{CompletedRun, beside, ended_with, words};
use harness_testing::result::ResultFile;
use harness_testing::{daemons, processes, result, skip};
use load::driver::Address;
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subject::daemon::Options;
use subject::manifest::Roots;

use crate::streaming::root;
use crate::support::{Started, messages};

mod clock;
mod descriptors;
mod disk;
mod ends;
mod falsehoods;
mod folder;
mod instances;
mod interruptions;
mod memory;
mod names;
mod peer;

/// A driver, by its protocol, and its load.
#[derive(Debug)]
struct Driver {
    protocol: &'static str,
    /// The daemon that it launches.
    daemon: &'static str,
    /// The option that takes the address of a daemon; the address alone if absent.
    target: Option<&'static str>,
    /// Its load, with the seconds that it lasts as `{s}`.
    load: &'static str,
    /// Limits the time for which it waits for an answer, with the seconds as `{s}`.
    limits: &'static str,
}

const DRIVERS: [Driver; 5] = [
    Driver {
        protocol: "fdpass",
        daemon: "rust-streaming",
        target: Some("--socket"),
        load: "--connections={s}0 --ramp-up={s}s",
        limits: "--stream-timeout={s}s",
    },
    Driver {
        protocol: "amqp",
        daemon: "broker-daemon",
        target: Some("--uri"),
        load: "--rate=20 --confirms --duration={s}s",
        limits: "--confirm-timeout={s}s --heartbeat={s}",
    },
    Driver {
        protocol: "http",
        daemon: "http-daemon",
        target: None,
        load: "--connections=2 --rate=20 --duration={s}s --warmup=0s",
        limits: "--timeout={s}s",
    },
    Driver {
        protocol: "presence",
        daemon: "presence-daemon",
        target: Some("--url"),
        load: "--rooms=5 --duration={s}s --ramp-up=0s",
        limits: "--ack-timeout={s}s --connect-timeout={s}s",
    },
    Driver {
        protocol: "issue",
        daemon: "issue-daemon",
        target: Some("--socket"),
        load: "--rate=20 --duration={s}s",
        limits: "--timeout={s}s",
    },
];

/// Performs a test with each driver, all at the same time.
fn on_each(test: impl Fn(&'static Driver) + Sync) {
    on(|_| true, test);
}

/// Performs a test with each driver that connects to an address with a port.
fn on_each_of_tcp(test: impl Fn(&'static Driver) + Sync) {
    on(|driver| driver.target != Some("--socket"), test);
}

fn on(is_tested: impl Fn(&Driver) -> bool, test: impl Fn(&'static Driver) + Sync) {
    let names = DRIVERS.each_ref().map(Driver::name);
    let names = names.each_ref().map(String::as_str);
    if beside(env!("CARGO_BIN_EXE_drover"), names).is_none() {
        return;
    }
    thread::scope(|scope| {
        for driver in DRIVERS.iter().filter(|driver| is_tested(driver)) {
            let named = thread::Builder::new().name(driver.name());
            named.spawn_scoped(scope, || test(driver)).unwrap();
        }
    });
}

impl Driver {
    /// Returns the name of its program.
    fn name(&self) -> String {
        let known = drivers::list(&Roots::from(&root()));
        let mut names = known
            .into_iter()
            .filter(|known| known.protocol == self.protocol);
        names.next().expect("the protocol has a driver").name
    }

    /// Returns a call without a target: the driver launches its daemon. The load lasts until it is ended.
    fn call(&self, into: &Path) -> Command {
        self.call_for(600, into)
    }

    /// Returns a call whose load lasts some seconds.
    fn call_for(&self, seconds: u64, into: &Path) -> Command {
        let folder = Path::new(env!("CARGO_BIN_EXE_drover")).parent().unwrap();
        let mut command = Command::new(folder.join(self.name()));
        command.args(["--quiet", "--threads=1", "--into"]).arg(into);
        command.args(within(self.load, seconds));
        command.current_dir(root()).stdin(Stdio::null());
        command
    }

    /// Returns a call with the address of a server. The load lasts until it is ended, and every answer is waited for.
    fn call_on(&self, into: &Path, address: &str) -> Command {
        self.on(self.call(into), address, 60)
    }

    /// Returns the same call, but answers are waited for one second.
    fn impatient_call_on(&self, into: &Path, address: &str) -> Command {
        self.on(self.call(into), address, 1)
    }

    /// Returns a call with the address of a server, and a load that ends by itself.
    fn short_call_on(&self, into: &Path, address: &str) -> Command {
        self.on(self.call_for(3, into), address, 60)
    }

    fn on(&self, mut call: Command, address: &str, limit_s: u64) -> Command {
        call.args(within(self.limits, limit_s));
        call.args(self.target).arg(address);
        call
    }

    /// Starts its daemon, and performs a test with the address.
    fn with_server(&self, test: impl FnOnce(&str)) {
        self.with_daemon(|address, _| test(address));
    }

    /// Starts its daemon, and performs a test with the address and the process.
    fn with_daemon(&self, test: impl FnOnce(&str, Pid)) {
        let Some(prepared) = daemons::prepared(self.daemon, self.protocol) else {
            return;
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let options = Options::default();
        let daemon = runtime.block_on(prepared.start(&[], &options)).unwrap();
        let pid = Pid::from_raw(daemon.pid().cast_signed());
        match daemon.endpoint().address(None).unwrap() {
            Address::Url(url) => test(&url, pid),
            Address::Socket(path) => test(path.to_str().unwrap(), pid),
        }
    }
}

/// Returns options with a number of seconds in them.
fn within(options: &str, seconds: u64) -> Vec<String> {
    words(&options.replace("{s}", &seconds.to_string()))
}

/// Returns the same call, made by another program, such as `strace`.
fn by<S: AsRef<OsStr>>(wrapper: impl IntoIterator<Item = S>, call: &Command) -> Command {
    let mut words = wrapper.into_iter();
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .arg(call.get_program())
        .args(call.get_args());
    for (name, value) in call.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
        .current_dir(call.get_current_dir().unwrap())
        .stdin(Stdio::null());
    command
}

/// Returns a folder for the results of a driver, and one for temporary files.
fn folders() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    (folder, run)
}

/// Waits until a run has reported operations that succeeded.
fn wait_until_under_way(run: &Path) {
    result::wait_for(run, "ok", 1);
}

/// Ends a load, and reads the result.
#[track_caller]
fn end(started: Started, folder: &Path) -> CompletedRun {
    kill(started.pid, Signal::SIGTERM).unwrap();
    CompletedRun::read(&started.end(), folder)
}

/// Asserts that every operation succeeded, and that the result is whole.
#[track_caller]
fn is_undisturbed(driver: &Driver, run: &CompletedRun) {
    let CompletedRun { result, stderr, .. } = run;
    result.adds_up();
    assert_eq!(result["errors"].to_string(), "{}", "{driver:?}: {stderr}");
    let [ok, started] = ["ok", "started"].map(|name| result.operations(name));
    assert!(
        ok > 0 && ok == started,
        "{driver:?}: {}",
        result["operations"]
    );
    for kind in ["CountsDisagree", "WorkersFailed", "RowsLost"] {
        assert_eq!(result.warning(kind), None, "{driver:?}");
    }
}

/// Waits until a run has reported one more second than now.
fn wait_for_next_second(run: &Path) {
    let before = result::live_seconds(run).len();
    processes::wait_until("the next second", || {
        result::live_seconds(run).len() > before
    });
}

/// Asserts that a run ended with exit code 1, and with words that name the fault and the file that has the whole result.
#[track_caller]
fn is_saved_elsewhere(driver: &Driver, output: &Output, elsewhere: &Path, fault: &str) {
    ended_with(output, 1, &[fault, "the result was saved to"], driver);
    let files = std::fs::read_dir(elsewhere).unwrap().flatten();
    let mut names = files.map(|file| file.path());
    let [Some(saved), None] = [names.next(), names.next()] else {
        panic!("{driver:?}: not one file");
    };
    assert!(messages(output).contains(saved.to_str().unwrap()));
    let result = ResultFile(result::json(&saved));
    result.adds_up();
    assert!(result.operations("ok") > 0, "{driver:?}");
}

/// A mount that only the thread of its test, and programs that the thread starts, can see.
#[derive(Debug)]
struct Mount(PathBuf);

impl Mount {
    /// Mounts something on a folder or a file. Returns `None`, and reports the test as skipped, without the right to.
    fn create(options: &[&str], path: &Path) -> Option<Self> {
        let is_alone = unshare(CloneFlags::CLONE_NEWNS).is_ok()
            && succeeds("mount", &["--make-rprivate", "/"]);
        let path_text = path.to_str().unwrap();
        if is_alone && succeeds("mount", &[options, &[path_text]].concat()) {
            return Some(Self(path.to_owned()));
        }
        skip(format_args!("the right to mount {options:?}"));
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Otherwise it ends with the thread, and its folder cannot be removed before.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).status();
    status.is_ok_and(|status| status.success())
}

/// Returns true if system calls can be traced here.
fn can_trace() -> bool {
    let can_trace = succeeds("strace", &["-qq", "-o", "/dev/null", "true"]);
    if !can_trace {
        skip("strace and the right to trace");
    }
    can_trace
}
