//! CPU samples beside a run, taken by the real `perf`, and the flame graphs that are drawn from them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use harness_testing::processes::{is_running, send, wait_until};
use harness_testing::program::{CompletedRun, Program, RunningProgram, copy_program, ended_with};
use harness_testing::{result, skip};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::isolation::{pid, running};
use crate::program::PROGRAM;
use crate::running::Python;
use crate::servers::{url, well};

/// Reports the test as skipped if `perf` can't take samples here.
#[track_caller]
fn has_perf() -> bool {
    let probe = ["record", "-e", "cpu-clock", "-o", "/dev/null", "true"];
    let probed = Command::new("perf").args(probe).output();
    let works = probed.is_ok_and(|output| output.status.success());
    if !works {
        skip("perf (linux-perf), and the right to take CPU samples with it");
    }
    works
}

/// Functions of daemon and driver.
const OF_DAEMON: &str = "http_daemon::";
const OF_DRIVER: &str = "load::event_loop";

/// Runs a load of some requests. Returns the run, its page, and the flame graphs of daemon and driver, empty if there are
/// none.
#[track_caller]
fn sampled(options: &[&str]) -> (CompletedRun, String, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(options).args(["--full", "--out"]);
    // So many requests of each of eight clients take a second of CPU time on each side, on any machine.
    let requests = "--set groups.0.ops=10000 --warmup 0s -d 2min".split(' ');
    let output = command.arg(folder.path()).args(requests).output().unwrap();
    let ran = CompletedRun::read(&output, folder.path());
    let result = result::find(folder.path(), "result.json").unwrap();
    let read = |name: &str| fs::read_to_string(result.with_file_name(name)).unwrap_or_default();
    let graphs = ["flamegraph-daemon.svg", "flamegraph-driver.svg"];
    (ran, read("report.html"), graphs.map(read))
}

/// Returns the number of samples in the functions of a flame graph whose names begin like this.
fn samples(graph: &str, name: &str) -> u64 {
    let functions = graph
        .split("<title>")
        .filter(|title| title.starts_with(name));
    let samples = functions.map(|title| {
        let (_, count) = title.split_once(" (").unwrap();
        count.split_once(' ').unwrap().0.parse::<u64>().unwrap()
    });
    samples.sum()
}

#[test]
fn the_flame_graphs_of_both_sides_name_their_functions_and_are_linked() {
    if !has_perf() {
        return;
    }
    let both = ["--daemon", "http-daemon", "-c", "8", "--flamegraph", "both"];
    let (ran, page, [daemon, driver]) = sampled(&both);
    for (side, graph, [own, other]) in [
        ("daemon", daemon, [OF_DAEMON, OF_DRIVER]),
        ("driver", driver, [OF_DRIVER, OF_DAEMON]),
    ] {
        let samples = &ran.result["cpu_samples"];
        assert!(samples[side].as_u64() > Some(0), "{samples}");
        assert!(graph.contains("<svg") && graph.contains(own), "{side}");
        assert!(!graph.contains(other), "{side}: {other}");
        let file = format!("flamegraph-{side}.svg");
        assert!(page.contains(&format!("href=\"{file}\"")), "{file}");
        assert!(ran.stdout.contains(&file), "{}", ran.stdout);
    }
    let note = ran.result.warning("CpuSamples").expect("it is noted");
    assert_eq!(note["severity"], "note", "{note}");
}

#[test]
fn the_processes_of_a_driver_are_sampled_too_and_a_side_that_is_not_asked_for_is_not() {
    if !has_perf() {
        return;
    }
    let driver = [
        "--daemon",
        "http-daemon",
        "-c",
        "8",
        "--flamegraph",
        "driver",
    ];
    let (ran, page, [daemon, driver]) = sampled(&[&driver[..], &["--processes", "2"]].concat());
    // Of both processes, whole stacks.
    let [workers, whole] = ["worker-", "load::event_loop::run"].map(|name| samples(&driver, name));
    assert!(whole > workers / 2, "{whole} of {workers}: {driver}");
    assert!(daemon.is_empty() && !page.contains("flamegraph-daemon"));
    assert_eq!(ran.result["cpu_samples"].as_object().unwrap().len(), 1);
}

/// Starts an endless load whose CPU samples are taken. Returns it with the processes that take them.
#[track_caller]
fn start() -> (RunningProgram, Vec<i32>) {
    let load = "--quiet --daemon http-daemon -c 2 -d 10min --flamegraph both";
    let started = Program::new(PROGRAM).call(load).start();
    started.wait_for("ok", 1);
    let samplers = running(pid(&started), "perf");
    assert_eq!(samplers.len(), 2, "{samplers:?}");
    (started, samplers)
}

#[test]
fn nothing_takes_samples_once_the_driver_is_killed() {
    if !has_perf() {
        return;
    }
    let (mut started, samplers) = start();
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    for sampler in samplers {
        wait_until("perf ends with its driver", || !is_running(sampler));
    }
}

#[test]
fn a_perf_that_dies_leaves_the_result_with_the_reason() {
    if !has_perf() {
        return;
    }
    let (started, samplers) = start();
    for sampler in samplers {
        kill(Pid::from_raw(sampler), Signal::SIGKILL).unwrap();
        wait_until("perf is killed", || !is_running(sampler));
    }
    send(&started.child, Signal::SIGTERM);
    let ran = started.end();
    ran.result.adds_up();
    let warnings = ran.result["warnings"].to_string();
    assert_eq!(
        warnings.matches("perf ended (signal: 9 (SIGKILL))").count(),
        2,
        "{warnings}"
    );
    assert!(
        !warnings.contains("WorkersFailed") && !warnings.contains("DaemonDied"),
        "{warnings}"
    );
}

#[test]
fn samples_that_cannot_be_taken_are_refused_before_the_load() {
    let call = |side| {
        let options = ["--quiet", "--daemon", "http-daemon", "--flamegraph", side];
        Program::new(PROGRAM).args(options)
    };
    call("all").refused(2, &["--flamegraph", "daemon, driver, both"]);
    let mut without = call("both");
    without.command().env("PATH", "/nowhere");
    let words = ["--flamegraph daemon: perf cannot be started", "linux-perf"];
    without.refused(2, &words);
}

/// Runs the driver as another user than the one of the server, with these options. It is refused with these words.
#[track_caller]
fn refused_as_another_user(server: &Python, options: &[&str], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("http-load");
    copy_program(Path::new(PROGRAM), &copy);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args([&server.url(), "--flamegraph", "daemon", "--out"])
        .arg(folder.path().join("out"))
        .args(options);
    ended_with(&command.output().unwrap(), 2, words, &command);
}

#[test]
fn a_server_that_may_not_be_sampled_is_refused_with_the_remedy() {
    if !has_perf() {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return skip("root, to run the driver as another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Python::start(folder.path(), 0);
    let unknown = ["--flamegraph daemon: has no process", "--pid"];
    refused_as_another_user(&server, &[], &unknown);
    let forbidden = [
        "perf cannot take samples here",
        "kernel.perf_event_paranoid",
        "run as root",
    ];
    let named = ["--pid", &server.pid().to_string()];
    refused_as_another_user(&server, &named, &forbidden);
}

#[test]
fn a_server_that_runs_already_is_sampled_without_the_driver_below_it() {
    if !has_perf() {
        return;
    }
    // It is this process, which starts the driver.
    let server = well();
    let address = url(&server);
    let (ran, _, [daemon, _]) = sampled(&[&address, "-c", "8", "--flamegraph", "daemon"]);
    let samples = &ran.result["cpu_samples"];
    assert!(samples["daemon"].as_u64() > Some(0), "{samples}");
    assert!(!daemon.contains(OF_DRIVER));
}
