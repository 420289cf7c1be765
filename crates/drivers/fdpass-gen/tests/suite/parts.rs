//! Services of a daemon, and faults of one instance or of a service.

use std::path::{Path, PathBuf};

use harness_testing::processes::{is_running, wait_for_pids};
use measure::result::RunResult;
use measure::warning::Kind;
use tempfile::TempDir;

use crate::faulty;

/// A service that writes its process and its port, and works a little.
const SERVICE: &str =
    "echo $$ >>{root}/pids; echo up {port} {scratch}; while :; do sleep 0.05; done";

/// Creates a project whose daemon needs a service that runs this script.
fn project(service: &str) -> TempDir {
    let program = std::env::current_exe().unwrap();
    faulty::project_with(&format!(
        "about = 'needs a service'\nserves = ['fdpass']\n\
         run = ['sh', '-c', 'echo started with {{shared.port}}; rm -f {{socket}}; exec \"$0\" --exact is_the_daemon_where_it_was_launched_as_one --nocapture', '{}']\n\
         ready = {{ unix = '{{socket}}', timeout = '60s' }}\n\
         env = {{ FAULT = 'None', DAEMON_SOCKET_PATH = '{{socket}}', SHARED_PORT = '{{shared.port}}' }}\n\
         [services.shared]\nversion = ['echo', 'shared 1.2']\nrun = ['sh', '-c', '''{service}''']\nready = {{ line = 'up', timeout = '3s' }}\n\
         env = {{ PORT = '{{port}}' }}\n",
        program.display()
    ))
}

/// A run of two instances.
struct Run {
    root: TempDir,
    code: Option<i32>,
    result: RunResult,
}

impl Run {
    /// Runs 20 short streams per second for 8 s, with a fault. On a busy machine the fault may be some seconds late.
    fn with(service: &str, fault: &str) -> Self {
        let root = project(service);
        let (code, said) = drive(root.path(), fault);
        let text = std::fs::read_to_string(root.path().join("output.json"));
        let keys: serde_json::Value =
            serde_json::from_str(&text.unwrap_or_else(|_| panic!("{said}"))).unwrap();
        let result: RunResult = serde_json::from_value(keys["result"].clone()).unwrap();
        assert!(result.operations.add_up(), "{:?}", result.operations);
        Self { root, code, result }
    }

    fn pids(&self) -> Vec<i32> {
        wait_for_pids(&self.root.path().join("pids"), 1)
    }

    /// Returns the lines of a stored log that contain a word.
    fn logged(&self, log: &str, word: &str) -> Vec<String> {
        let folder = self.root.path().join("bench-results");
        let log = find(&folder, log).unwrap_or_else(|| panic!("no {log}"));
        let text = std::fs::read_to_string(log).unwrap();
        let lines = text.lines().filter(|line| line.contains(word));
        lines.map(str::to_owned).collect()
    }

    /// Returns how often the instances and the service were started.
    fn starts(&self) -> [usize; 3] {
        [
            self.logged("daemon.log", "started").len(),
            self.logged("daemon-2.log", "started").len(),
            self.logged("service-shared.log", "up").len(),
        ]
    }

    fn death(&self) -> Option<&str> {
        let mut warnings = self.result.warnings.iter();
        let death = warnings.find(|warning| warning.kind == Kind::DaemonDied);
        death.map(|warning| warning.message.as_str())
    }

    /// Returns the number of failures that the fault explains.
    fn due_to_fault(&self) -> u64 {
        let errors = &self.result.errors;
        let of = |kind| errors.get(kind).copied().unwrap_or(0);
        of("lost") + of("connect_ECONNREFUSED") + of("connect_ENOENT")
    }
}

/// Runs the driver with a plan in its project. Returns the exit code and the notes.
fn drive(root: &Path, fault: &str) -> (Option<i32>, String) {
    let plan = format!(
        "name = 'test'\ndaemon = 'faulty'\ninstances = 2\ndaemon_env = {{ DAEMON_MESSAGE_DELAY = '0ms' }}\n\
         [timeline]\nmeasure = '8s'\ndrain = '20s'\n[[groups]]\nname = 'open'\nrate = 20.0\n{fault}\n\
         [driver]\nmessages = 1\nmessage_delay = '0s'\n"
    );
    std::fs::write(root.join("plan.toml"), plan).unwrap();
    let call = "--plan plan.toml --quiet --output output.json";
    let (code, _, said) = faulty::ended(faulty::program(root, call));
    (code, said)
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find_map(|path| {
        if path.is_dir() {
            find(&path, name)
        } else {
            path.ends_with(name).then_some(path)
        }
    })
}

#[test]
fn a_service_is_started_once_for_all_instances_and_its_cost_stands_apart() {
    let run = Run::with(SERVICE, "");
    assert!(matches!(run.code, Some(0 | 3)), "{:?}", run.result.warnings);
    assert_eq!(run.result.operations.failed, 0, "{:?}", run.result.errors);
    assert_eq!(run.starts(), [1, 1, 1]);
    let [service] = run.result.services.as_slice() else {
        panic!("{:?}", run.result.services)
    };
    assert_eq!(service.name, "shared");
    assert_eq!(service.version.as_deref(), Some("shared 1.2"));
    let usage = &service.usage;
    assert!(usage.rss_peak_kb > 0 && usage.samples >= 2, "{usage:?}");
    let daemon = run.result.usage.daemon.as_ref().unwrap();
    assert_eq!(daemon.processes_peak, 2, "without the service");
    let driver = run.result.usage.driver.as_ref().unwrap();
    assert_eq!(driver.processes_peak, 1, "without the service");
    let mut resources = run.result.resources.iter();
    assert!(resources.all(|sample| sample.services.contains_key("shared")));
    let port = run.logged("service-shared.log", "up")[0].clone();
    let port = port.split(' ').nth(1).unwrap();
    for log in ["daemon.log", "daemon-2.log"] {
        assert_eq!(run.logged(log, "started"), [format!("started with {port}")]);
    }
    let csv = find(&run.root.path().join("bench-results"), "resources.csv").unwrap();
    let csv = std::fs::read_to_string(csv).unwrap();
    let rows: Vec<Vec<&str>> = csv.lines().map(|row| row.split(',').collect()).collect();
    assert!(rows[0].ends_with(&[
        "shared_rss_kb",
        "shared_utime",
        "shared_stime",
        "shared_cpu_pct"
    ]));
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    assert!(!run.pids().iter().any(|pid| is_running(*pid)));
}

#[test]
fn an_instance_that_was_killed_stays_away_and_the_other_serves_its_share() {
    let run = Run::with(
        SERVICE,
        "[[faults]]\nat = '1s'\nsignal = 'KILL'\ninstance = 2",
    );
    let operations = &run.result.operations;
    assert!(matches!(run.code, Some(0 | 3)), "{:?}", run.result.warnings);
    assert_eq!(run.death(), None);
    assert_eq!(run.starts(), [1, 1, 1]);
    let fault = &run.result.faults[0];
    assert_eq!(fault.what, "SIGKILL of instance 2, not started again");
    assert_eq!(fault.back_s, None);
    // Half of what was due in the last 7 s, unless the machine is busy and the fault is late.
    assert!(operations.failed > 0, "{operations:?}");
    assert!(operations.ok >= operations.started / 2, "{operations:?}");
    assert_eq!(
        operations.failed,
        run.due_to_fault(),
        "{:?}",
        run.result.errors
    );
    let last = run.result.resources.last().unwrap();
    assert!(
        last.daemon.is_some_and(|cost| cost.rss_kb > 0),
        "the other runs"
    );
}

#[test]
fn an_instance_that_was_killed_comes_back_alone() {
    let run = Run::with(
        SERVICE,
        "[[faults]]\nat = '1s'\nsignal = 'TERM'\ninstance = 1\nback_after = '200ms'",
    );
    assert!(matches!(run.code, Some(0 | 3)), "{:?}", run.result.warnings);
    assert_eq!(run.death(), None);
    assert_eq!(run.starts(), [2, 1, 1]);
    let fault = &run.result.faults[0];
    assert_eq!(
        fault.what,
        "SIGTERM of instance 1, started again after 200ms"
    );
    assert!(fault.back_s.unwrap() >= fault.at_s + 0.2, "{fault:?}");
    assert_eq!(run.result.operations.failed, run.due_to_fault());
}

#[test]
fn a_service_that_was_killed_comes_back_on_its_port_while_the_daemons_continue() {
    let run = Run::with(
        SERVICE,
        "[[faults]]\nat = '1s'\nsignal = 'KILL'\nservice = 'shared'\nback_after = '200ms'",
    );
    assert!(matches!(run.code, Some(0 | 3)), "{:?}", run.result.warnings);
    assert_eq!(run.death(), None);
    assert_eq!(run.result.operations.failed, 0, "{:?}", run.result.errors);
    assert_eq!(run.starts(), [1, 1, 2]);
    let starts = run.logged("service-shared.log", "up");
    assert_eq!(starts[0], starts[1], "the port and the folder");
    let last = run.result.resources.last().unwrap();
    assert!(
        last.services.contains_key("shared"),
        "the new process is sampled"
    );
    let fault = &run.result.faults[0];
    assert!(fault.back_s.unwrap() >= fault.at_s + 0.2, "{fault:?}");
    assert!(!run.pids().iter().any(|pid| is_running(*pid)));
}

#[test]
fn a_service_that_was_killed_may_stay_away() {
    let run = Run::with(
        SERVICE,
        "[[faults]]\nat = '1s'\nsignal = 'KILL'\nservice = 'shared'",
    );
    assert!(matches!(run.code, Some(0 | 3)), "{:?}", run.result.warnings);
    assert_eq!((run.death(), run.starts()), (None, [1, 1, 1]));
    assert!(run.result.services[0].usage.rss_peak_kb > 0);
    let last = run.result.resources.last().unwrap();
    assert!(last.services.is_empty(), "{last:?}");
}

#[test]
fn a_service_that_ends_by_itself_ends_the_run_and_is_named() {
    let run = Run::with("echo up; sleep 1; exit 7", "");
    assert_eq!(run.code, Some(1));
    let death = run.death().expect("it is reported");
    let expected = "a service of the daemon exited during the run (shared exited with status 7)";
    assert!(death.contains(expected), "{death}");
}

#[test]
fn a_service_that_does_not_come_back_ends_the_run_and_is_named() {
    let once = "[ -e {root}/was ] || echo up; touch {root}/was; exec sleep 60";
    let run = Run::with(
        once,
        "[[faults]]\nat = '500ms'\nsignal = 'KILL'\nservice = 'shared'\nback_after = '100ms'",
    );
    assert_eq!(run.code, Some(1));
    let death = run.death().expect("it is reported");
    let expected = "did not restart after a fault (shared took no connections within 3s";
    assert!(death.contains(expected), "{death}");
}

#[test]
fn a_service_that_does_not_start_and_one_that_is_unknown_are_errors_before_the_load() {
    let service = "[[faults]]\nat = '1s'\nsignal = 'KILL'\nservice = 'redis'";
    for (script, fault, code, part) in [
        (
            "echo full; exit 3",
            "",
            1,
            "the service `shared` of the daemon `faulty` exited with status 3",
        ),
        (
            SERVICE,
            service,
            2,
            "faults[0].service: `redis` is not in the [services] of daemons/faulty/daemon.toml: take one of shared",
        ),
    ] {
        let root = project(script);
        let (found, said) = drive(root.path(), fault);
        assert_eq!(found, Some(code), "{said}");
        assert!(said.contains(part), "{said}");
        assert!(!root.path().join("pids").exists(), "nothing was started");
    }
}

#[test]
fn a_check_and_functional_cases_start_a_service_with_each_daemon() {
    for arguments in [
        "check --daemon faulty --quiet",
        "conformance --daemon faulty --quiet --only default",
    ] {
        let root = project(SERVICE);
        let (_, out, said) = faulty::ended(faulty::program(root.path(), arguments));
        assert!(out.contains("faulty"), "{out}{said}");
        let pids = wait_for_pids(&root.path().join("pids"), 1);
        assert!(!pids.iter().any(|pid| is_running(*pid)), "{arguments:?}");
    }
}
