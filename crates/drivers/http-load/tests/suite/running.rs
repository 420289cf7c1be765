//! Servers that run already: their processes are found, measured, and watched during the run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use harness_testing::processes::{send, wait_until};
use harness_testing::program::{CompletedRun, Program, copy_program};
use harness_testing::skip;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{PROGRAM, program};
use crate::servers::{url, well};

/// An HTTP server in Python. It notes its port, and then each response, in its log.
const SERVER: &str = r#"
import http.server, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *_):
        log.write("response\n")
class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    def server_bind(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.socket.getsockname()
log = open(sys.argv[2], "w", buffering=1)
server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
log.write(f"{server.server_port}\n")
server.serve_forever()
"#;

/// A running [`SERVER`], killed at the end of the test.
pub(crate) struct Python {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl Python {
    /// Starts a server on a port, or on a free one.
    pub(crate) fn start(folder: &Path, port: u16) -> Self {
        let log = folder.join(format!("log-{}", fs::read_dir(folder).unwrap().count()));
        let child = Command::new("python3")
            .args(["-c", SERVER, &port.to_string()])
            .arg(&log)
            .args(["--api-token", "s3cret"])
            .stderr(Stdio::null())
            .spawn();
        let mut server = Self {
            child: child.unwrap(),
            log,
            port,
        };
        wait_until("the server listens", || server.lines() > 0);
        let text = fs::read_to_string(&server.log).unwrap();
        server.port = text.lines().next().unwrap().parse().unwrap();
        server
    }

    fn lines(&self) -> usize {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        text.matches('\n').count()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns its largest resident memory, as the kernel counted it, KiB.
    fn peak_kb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let number = line.unwrap().split_whitespace().next();
        number.unwrap().parse().unwrap()
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        self.kill();
    }
}

fn text<'a>(ran: &'a CompletedRun, pointer: &str) -> &'a str {
    let value = ran.result.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_else(|| panic!("{pointer} in {}", ran.result["daemon"]))
}

fn warning(ran: &CompletedRun, kind: &str) -> String {
    let warning = ran.result.warning(kind);
    warning.map_or_else(
        || panic!("{kind}: {}", ran.result["warnings"]),
        |warning| warning["message"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn a_printed_plan_drives_the_server_that_it_was_printed_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = Python::start(folder.path(), 0);
    let url = format!("{}page?x=1", server.url());
    let load = ["-c", "1", "-d", "200ms", "--warmup", "0s"];
    let printed = Command::new(PROGRAM)
        .args(load)
        .args([&url, "--print-plan"])
        .output();
    let plan = folder.path().join("plan.toml");
    fs::write(&plan, printed.unwrap().stdout).unwrap();
    let ran = program(&["--plan", plan.to_str().unwrap()]).run();
    assert_eq!(text(&ran, "/daemon/target"), url);
    assert_eq!(text(&ran, "/plan/driver/path"), "/page?x=1");
    assert!(
        ran.result["plan"].get("targets").is_none(),
        "a target does not belong to a load"
    );
    // A daemon to launch is another choice.
    let both = format!("daemon = \"nginx\"\n{}", fs::read_to_string(&plan).unwrap());
    fs::write(&plan, both).unwrap();
    let words = ["targets", "`daemon`", "leave one of both out"];
    program(&["--plan", plan.to_str().unwrap()]).refused(2, &words);
}

#[test]
fn the_process_behind_a_url_is_measured_like_a_launched_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Python::start(folder.path(), 0);
    let ran = program(&[&server.url(), "-c", "2", "-d", "2s", "--full"])
        .args(["--threshold", "daemon.rss.peak <= 1KiB"])
        .run();
    assert_eq!(
        ran.code, 4,
        "a threshold judges the process: {}",
        ran.stderr
    );
    let usage = |name: &str| ran.result.number(&format!("/usage/daemon/{name}"));
    let (peak, counted) = (usage("rss_peak_kb"), server.peak_kb());
    // The kernel's counters of memory are exact to some pages of each thread.
    let apart = peak.abs_diff(counted);
    assert!(apart * 10 <= counted, "{peak} {counted}");
    assert_eq!(usage("processes_peak"), 1);
    assert!(
        usage("fds_peak") >= 4 && usage("threads_peak") >= 1,
        "{}",
        ran.result
    );
    assert!(usage("voluntary_switches") > 0);
    assert!(ran.result.pointer("/usage/daemon/backlog_peak").is_some());
    assert_eq!(
        text(&ran, "/daemon/name"),
        format!("127.0.0.1:{}", server.port)
    );
    let process = text(&ran, "/daemon/process");
    let named = format!("(process {})", server.pid());
    assert!(
        process.starts_with("python") && process.contains(&named),
        "{process}"
    );
    assert!(!ran.result.to_string().contains("s3cret"));
    assert!(ran.stdout.contains(&named), "{}", ran.stdout);
    assert_eq!(ran.result.warning("DaemonNotMeasured"), None);
}

#[test]
fn a_folder_of_results_has_a_safe_name() {
    let folder = tempfile::tempdir().unwrap();
    let server = Python::start(folder.path(), 0);
    let out = folder.path().join("out");
    let status = Command::new(PROGRAM)
        .arg(server.url())
        .args("-d 500ms -c 1 --quiet --full --out".split(' '))
        .arg(&out)
        .output();
    assert_ne!(status.unwrap().status.code(), Some(2));
    let day = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    let plan = fs::read_dir(day).unwrap().next().unwrap().unwrap().path();
    assert!(plan.join(format!("127.0.0.1-{}", server.port)).is_dir());
}

#[test]
fn a_process_that_is_named_is_measured_and_one_that_listens_instead_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Python::start(folder.path(), 0);
    let run = |pid: u32| {
        let url = server.url();
        let call = format!("{url} -d 500ms -c 1 --pid {pid} --name mine");
        program(&[]).call(&call).run()
    };
    let right = run(server.pid());
    assert_eq!(text(&right, "/daemon/name"), "mine");
    assert_eq!(right.result.warning("DaemonProcesses"), None);
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let wrong = run(other.id());
    other.kill().unwrap();
    other.wait().unwrap();
    let said = warning(&wrong, "DaemonProcesses");
    let both = [other.id(), server.pid()].map(|pid| format!("(process {pid})"));
    assert!(both.iter().all(|process| said.contains(process)), "{said}");
    assert!(text(&wrong, "/daemon/process").starts_with("sleep"));
    program(&[&server.url(), "--pid", "4194305"]).refused(2, &["--pid 4194305", "no such process"]);
    program(&["--pid", "1"]).refused(2, &["--pid", "only for an already running daemon"]);
}

#[test]
fn a_server_that_may_not_be_looked_into_is_reported_with_the_reason() {
    if !nix::unistd::geteuid().is_root() {
        return skip("root, to run the driver as another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Python::start(folder.path(), 0);
    let copy = folder.path().join("http-load");
    copy_program(Path::new(PROGRAM), &copy);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let out = folder.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::set_permissions(&out, Permissions::from_mode(0o777)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .arg(server.url())
        .args("-d 500ms -c 1 --quiet --full --out".split(' '))
        .arg(&out)
        .output()
        .unwrap();
    let ran = CompletedRun::read(&output, &out);
    let said = warning(&ran, "DaemonNotMeasured");
    assert!(said.contains("the user root"), "{said}");
    let hint = ran.result.warning("DaemonNotMeasured").unwrap()["hint"].to_string();
    assert!(hint.contains("as root") && hint.contains("--pid"), "{hint}");
    let shown = "root, whose processes this user may not look into";
    assert!(ran.stdout.contains(shown), "{}", ran.stdout);
    assert!(ran.result["usage"]["daemon"].is_null());
}

/// Runs a load of a minute, calls `act` when the server answers, and interrupts the load when its effect can be seen.
fn disturbed(server: &mut Python, act: impl FnOnce(&mut Python)) -> CompletedRun {
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("run");
    let mut command = Command::new(PROGRAM);
    command.args([&server.url(), "-c", "2", "-d", "60s", "--quiet", "--into"]);
    let load = command
        .arg(&into)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let load = load.spawn().unwrap();
    let rows = || {
        let text = fs::read_to_string(into.join("resources.csv")).unwrap_or_default();
        text.lines().count()
    };
    wait_until("the load is served and sampled", || {
        server.lines() > 20 && rows() > 1
    });
    act(server);
    let before = rows();
    wait_until("two more samples are taken", || rows() >= before + 2);
    send(&load, Signal::SIGINT);
    CompletedRun::read(&load.wait_with_output().unwrap(), folder.path())
}

#[test]
fn a_server_that_is_replaced_during_the_run_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Python::start(folder.path(), 0);
    let mut successor = None;
    let ran = disturbed(&mut server, |server| {
        successor = Some(Python::start(folder.path(), server.port));
        server.kill();
    });
    let said = warning(&ran, "DaemonProcesses");
    let both = [server.pid(), successor.unwrap().pid()].map(|pid| format!("(process {pid})"));
    assert!(
        both.iter().all(|process| said.contains(process)) && said.contains("took over"),
        "{said}"
    );
    assert_ne!(ran.result["verdict"], "VALID");
}

#[test]
fn a_server_that_ends_during_the_run_is_told_and_a_second_one_that_joins_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Python::start(folder.path(), 0);
    let mut second = None;
    let ran = disturbed(&mut server, |server| {
        second = Some(Python::start(folder.path(), server.port));
    });
    let said = warning(&ran, "DaemonProcesses");
    let joined = format!("(process {}) began to listen", second.unwrap().pid());
    assert!(said.contains(&joined), "{said}");
    let ran = disturbed(&mut server, Python::kill);
    let said = warning(&ran, "DaemonDied");
    assert!(
        said.contains(&format!("(process {})", server.pid())),
        "{said}"
    );
    assert_eq!((ran.code, &ran.result["verdict"]), (1, &"INVALID".into()));
}

/// None of them is as long as a stall. At this rate the driver waits for events nearly all the time.
#[test]
fn stops_of_the_driver_for_a_millisecond_each_are_named() {
    let server = well();
    let url = format!("http://{}/", server.address());
    let load = ["--quiet", &url, "-c", "1", "-R", "10", "-d", "4s"];
    let mut run = Program::new(PROGRAM).args(load).start();
    run.wait_for("ok", 1);
    while run.child.try_wait().unwrap().is_none() {
        for signal in [Signal::SIGSTOP, Signal::SIGCONT] {
            send(&run.child, signal);
            // Without a pause, one signal cancels the other.
            thread::sleep(Duration::from_millis(1));
        }
    }
    let ran = run.end();
    let warnings = ran.result["warnings"].as_array().unwrap();
    let stopped = warnings.iter().find(|warning| {
        let message = warning["message"].as_str().unwrap();
        message.contains("were interrupted")
    });
    let stopped = stopped.unwrap_or_else(|| panic!("{}", ran.result));
    assert_ne!(stopped["severity"], "note", "{stopped}");
}

/// The threshold is judged once a second, after a first one that is none of the delay: the run ends long before its planned
/// end, with the exit code of a missed threshold.
#[test]
fn a_run_ends_early_once_a_threshold_is_missed() {
    let server = well();
    let load = "-c 2 -d 1h --warmup 0s --abort-on-fail 1100ms";
    let more = ["--threshold", "response.p50 < 1ns", &url(&server)];
    let run = program(&more).call(load).run();
    assert_eq!(run.code, 4, "{}", run.stderr);
    let seconds = run.result["throughput"]["measured_s"].as_f64().unwrap();
    assert!((1.1..60.0).contains(&seconds), "{seconds}");
    let warnings = run.result["warnings"].to_string();
    let message =
        "s of 3600.0 s planned, because a threshold was missed: response.p50 < 1ns (then ";
    assert!(warnings.contains(message), "{warnings}");
    assert_eq!(run.result.operations("unfinished"), 0);
}

#[test]
fn an_early_end_without_a_threshold_or_without_time_is_refused() {
    let field = "abort_on_fail (--abort-on-fail)";
    let call = |more: &[&str]| {
        Program::new(PROGRAM)
            .args(["--abort-on-fail", "10s"])
            .args(more)
    };
    call(&[]).refused(2, &[field, "give one (--threshold)"]);
    call(&["--threshold", "errors == 0"]).refused(2, &[field, "shorter than timeline.measure"]);
}
