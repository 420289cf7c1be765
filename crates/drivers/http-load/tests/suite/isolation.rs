//! CPUs and limits of driver and daemon, as the kernel shows them during a run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness_testing::processes::{children, is_running, send, wait_until};
use harness_testing::program::{Program, RunningProgram};
use harness_testing::skip;
use nix::sys::signal::Signal;
use subject::cpus;
use subject::daemon::Limits;

use crate::program::{PROGRAM, plan};

/// More memory than any daemon here needs.
const ENOUGH: &str = "1GiB";

/// A server that takes `MIB` MiB at its start, and whose worker takes one more with each request, and keeps it. With
/// `WORKERS=1` the worker is a child that is started again when it has ended.
const GREEDY: &str = r#"
import http.server, os, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kept = []
    def do_GET(self):
        self.kept.append(bytearray(os.urandom(16) * 65536))
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *_):
        pass
first = os.urandom(16) * 65536 * int(os.environ.get("MIB", "0"))
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("up", flush=True)
while os.environ.get("WORKERS") and os.fork():
    os.wait()
server.serve_forever()
"#;

/// Returns the threads of a process with the CPUs that each may use.
fn cpus_of_threads(pid: i32) -> BTreeSet<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let status = |task: PathBuf| fs::read_to_string(task.join("status")).ok();
    let lists = tasks.flatten().flatten().filter_map(|task| {
        let text = status(task.path())?;
        let list = text
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Some(list?.trim().to_owned())
    });
    lists.collect()
}

/// Returns a process with all below it that run a program of this name.
pub(crate) fn running(root: i32, program: &str) -> Vec<i32> {
    let exe = fs::read_link(format!("/proc/{root}/exe")).unwrap_or_default();
    let own = exe.ends_with(program).then_some(root);
    let below = children(root)
        .into_iter()
        .flat_map(|child| running(child, program));
    own.into_iter().chain(below).collect()
}

pub(crate) fn pid(started: &RunningProgram) -> i32 {
    started.child.id().cast_signed()
}

/// Starts a load on a daemon without an end, and waits until it is under way.
fn start(options: &[&str]) -> RunningProgram {
    let load = "--quiet --daemon http-daemon -c 2 -R 200 -d 10min";
    let started = Program::new(PROGRAM).call(load).args(options).start();
    started.wait_for("ok", 1);
    started
}

#[test]
fn every_thread_stays_on_the_cpus_of_its_side() {
    let allowed: Vec<usize> = cpus::allowed().unwrap().iter().collect();
    let [first, last] = [allowed[0], allowed[allowed.len() - 1]].map(|cpu| cpu.to_string());
    for more in [&["--threads", "2"][..], &["--processes", "2"]] {
        let lists = ["--driver-cpus", &first, "--daemon-cpus", &last];
        let started = start(&[&lists, more].concat());
        let drivers = running(pid(&started), "http-load");
        let daemons = running(pid(&started), "http-daemon");
        assert_eq!(daemons.len(), 1, "{daemons:?}");
        assert_eq!(drivers.len(), if more[0] == "--processes" { 3 } else { 1 });
        for (processes, list) in [(drivers, &first), (daemons, &last)] {
            for process in processes {
                assert_eq!(cpus_of_threads(process), BTreeSet::from([list.clone()]));
            }
        }
        send(&started.child, Signal::SIGTERM);
        let ran = started.end();
        ran.result.adds_up();
        let isolation = &ran.result["isolation"];
        assert_eq!(isolation["driver_cpus"], *first, "{isolation}");
        assert_eq!(isolation["daemon_cpus"], *last, "{isolation}");
        // What others do elsewhere does not disturb them.
        let used = BTreeSet::from([&first, &last]).len() as u64;
        assert_eq!(ran.result.number("/usage/disturbance/cpus"), used);
        let overlap = ran.result["warnings"].to_string().contains("both name");
        assert_eq!(overlap, used == 1, "{}", ran.result["warnings"]);
    }
}

#[test]
fn a_daemon_that_is_started_again_keeps_the_cpus_that_it_had_before() {
    let allowed = cpus::allowed().unwrap();
    let first = allowed.iter().next().unwrap().to_string();
    let fault = "[[faults]]\nat = \"1s\"\nsignal = \"KILL\"\nback_after = \"100ms\"";
    let plan = plan(fault, "");
    let load = format!("--quiet --daemon http-daemon --driver-cpus {first}");
    let endless = "--set timeline.measure=10min --plan";
    let call = Program::new(PROGRAM).call(&load).call(endless);
    let started = call.args([plan.path()]).start();
    started.wait_for("ok", 1);
    let before = running(pid(&started), "http-daemon");
    wait_until("the daemon is started again", || {
        let daemons = running(pid(&started), "http-daemon");
        daemons.len() == 1 && daemons != before
    });
    let daemon = running(pid(&started), "http-daemon")[0];
    assert_eq!(
        cpus_of_threads(daemon),
        BTreeSet::from([allowed.to_string()])
    );
    send(&started.child, Signal::SIGTERM);
    started.end();
}

/// Reports the test as skipped if no control group can be made here.
#[track_caller]
fn has_control_groups() -> bool {
    let limits = Limits {
        memory_bytes: Some(1 << 30),
        cores: Some(1.0),
    };
    limits
        .require()
        .map_err(|problem| skip(problem.to_string()))
        .is_ok()
}

/// Returns the directories of the control groups of a process that were made for it.
fn made_groups(pid: i32) -> Vec<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let directory = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let made = path.rsplit('/').next()?.starts_with("drover-");
        let root = Path::new("/sys/fs/cgroup").join(controllers);
        made.then(|| root.join(path.trim_start_matches('/')))
    };
    text.lines().filter_map(directory).collect()
}

#[test]
fn a_daemon_that_uses_up_its_share_is_called_throttled() {
    if !has_control_groups() {
        return;
    }
    let started = start(&["--daemon-cpu", "0.01"]);
    started.wait_for("ok", 50);
    send(&started.child, Signal::SIGTERM);
    let ran = started.end();
    let throttled = ran.result.warning("Throttled");
    assert!(throttled.is_some(), "{}", ran.result["warnings"]);
}

#[test]
fn the_control_group_has_the_limits_and_is_removed_after_a_run_that_is_interrupted() {
    if !has_control_groups() {
        return;
    }
    let started = start(&["--daemon-memory", ENOUGH, "--daemon-cpu", "1.5"]);
    let daemon = running(pid(&started), "http-daemon")[0];
    let groups = made_groups(daemon);
    let files = |group: &PathBuf| {
        [
            "memory.max",
            "memory.limit_in_bytes",
            "cpu.max",
            "cpu.cfs_quota_us",
        ]
        .map(|file| fs::read_to_string(group.join(file)).unwrap_or_default())
        .join("")
    };
    let texts: String = groups.iter().map(files).collect();
    let has = |text: &str| texts.split_whitespace().any(|word| word == text);
    assert!(has("1073741824") && has("150000"), "{texts} {groups:?}");
    assert!(made_groups(pid(&started)).is_empty());
    send(&started.child, Signal::SIGTERM);
    let ran = started.end();
    assert_eq!(ran.result["isolation"]["daemon_memory_bytes"], 1 << 30);
    assert_eq!(ran.result["isolation"]["daemon_cores"], 1.5);
    assert!(!groups.iter().any(|group| group.exists()), "{groups:?}");
}

#[test]
fn the_next_run_removes_the_control_group_of_a_driver_that_was_killed() {
    if !has_control_groups() {
        return;
    }
    let mut killed = start(&["--daemon-memory", ENOUGH]);
    let daemon = running(pid(&killed), "http-daemon")[0];
    let left = made_groups(daemon);
    assert!(!left.is_empty());
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    wait_until("the daemon ends with its driver", || !is_running(daemon));
    let next = start(&["--daemon-memory", ENOUGH]);
    assert!(!left.iter().any(|group| group.exists()), "{left:?}");
    send(&next.child, Signal::SIGTERM);
    next.end();
}

/// Calls a load on the greedy daemon with a limit of 64 MiB, which has these variables.
fn call_greedy(folder: &Path, variables: &str, load: &[&str]) -> Program {
    let greedy = folder.join("daemons/greedy");
    fs::create_dir_all(&greedy).unwrap();
    fs::write(greedy.join("greedy.py"), GREEDY).unwrap();
    let manifest = format!(
        "about = 'grows'\nserves = ['http']\nrun = ['python3', 'greedy.py', '{{port}}']\nready = {{ line = 'up', timeout = '60s' }}\nurl = 'http://127.0.0.1:{{port}}/'\nenv = {{ {variables} }}\n"
    );
    fs::write(greedy.join("daemon.toml"), manifest).unwrap();
    let fixed = "--quiet --daemon greedy --daemon-memory 64MiB -c 1";
    let mut call = Program::new(PROGRAM).call(fixed).args(load);
    call.command().current_dir(folder).env_remove("DROVER_ROOT");
    call
}

#[test]
fn a_daemon_that_is_killed_by_its_memory_limit_is_reported_with_the_limit() {
    if !has_control_groups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Without an end: the limit ends it.
    let ran = call_greedy(folder.path(), "", &["-d", "10min"]).run();
    let died = ran.result.warning("DaemonDied").expect("it died");
    let message = died["message"].as_str().unwrap();
    assert!(
        message.contains("(was killed by its memory limit of 64.0 MiB)"),
        "{message}"
    );
    assert_eq!(ran.code, 1, "{}", ran.stderr);
}

#[test]
fn a_daemon_that_needs_more_than_its_memory_limit_to_start_is_refused_with_the_remedy() {
    if !has_control_groups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "was killed by its memory limit of 64.0 MiB before it was ready",
        "raise --daemon-memory",
    ];
    call_greedy(folder.path(), "MIB = '200'", &["-d", "10min"]).refused(1, &words);
}

#[test]
fn a_worker_of_a_daemon_that_is_killed_by_the_memory_limit_makes_the_result_suspect() {
    if !has_control_groups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let load = ["--set", "groups.0.ops=150", "-d", "60s"];
    let ran = call_greedy(folder.path(), "WORKERS = '1'", &load).run();
    assert!(ran.result.warning("DaemonDied").is_none());
    let processes = ran.result.warning("DaemonProcesses").expect("it is told");
    let message = processes["message"].as_str().unwrap();
    assert!(message.contains("memory limit of 64.0 MiB: "), "{message}");
}

#[test]
fn limits_without_a_control_group_that_can_be_made_are_refused_with_the_remedy() {
    let hidden = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let apart = ["-rm", "sh", "-c", hidden, "sh"];
    let tried = Command::new("unshare").args(apart).arg("true").status();
    if !tried.is_ok_and(|status| status.success()) {
        return skip("namespaces of mounts (unshare -rm)");
    }
    for (limit, controller) in [
        (["--daemon-memory", "1GiB"], "memory"),
        (["--daemon-cpu", "1"], "cpu"),
    ] {
        let mut command = Command::new("unshare");
        command
            .args(apart)
            .args([PROGRAM, "--daemon", "http-daemon"]);
        let words = [
            &format!("{}: needs a control group", limit[0]),
            &format!("limits of `{controller}`"),
            "systemd-run --user --scope",
        ];
        Program::from_command(command)
            .args(limit)
            .refused(2, &words);
    }
}

#[test]
fn cpus_and_limits_that_cannot_be_are_refused_before_anything_runs() {
    for (options, words) in [
        (
            ["--driver-cpus", "0,1023"],
            ["--driver-cpus 0,1023", "choose from"],
        ),
        (["--daemon-cpus", "3-1"], ["--daemon-cpus", "such as 0,2-3"]),
        (
            ["--daemon-memory", "10"],
            ["--daemon-memory", "at least 1MiB"],
        ),
        (["--daemon-cpu", "0"], ["--daemon-cpu", "from 0.01"]),
    ] {
        let call = Program::new(PROGRAM).args(["--daemon", "http-daemon"]);
        call.args(options).refused(2, &words);
    }
    for option in [
        ["--daemon-cpus", "0"],
        ["--daemon-memory", "1GiB"],
        ["--daemon-cpu", "1"],
    ] {
        let running = Program::new(PROGRAM)
            .args(["http://127.0.0.1:1/"])
            .args(option);
        running.refused(2, &[option[0], "only for a daemon that this call launches"]);
    }
}
