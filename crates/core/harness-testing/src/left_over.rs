//! Ends programs at any moment in any way. Nothing may be left: no process, port or scratch folder.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use test_kit::{LIMIT, becomes_true, scaled, seed};

use crate::processes::is_running;
use crate::terminal::TerminalProgram;

/// Ends of a program between two starts that run to their end.
const ENDS: u64 = 10;

/// Ends a program `count` times at scale 1. `call` are its arguments, without a folder for results; `more` are arguments
/// that not all calls have.
///
/// # Panics
/// Something is left, or a later start in the same folders does not end well.
#[track_caller]
pub fn end(count: u64, program: &str, call: &str, more: &[&str]) {
    let calls = Calls::new(program, call);
    let mut random = StdRng::seed_from_u64(seed());
    let took = calls.complete("").as_millis();
    for end in 0..scaled(count) {
        let more = more[random.random_range(0..more.len())];
        // The moment is what the test draws; there is no condition.
        let after = Duration::from_millis(random.random_range(0..=took) as u64);
        calls.end_once(more, after, &mut random);
        if end % ENDS == ENDS - 1 {
            calls.complete(more);
        }
    }
    calls.complete("");
}

/// Calls of a program whose processes are all found, whatever they do.
struct Calls {
    /// A limit that Linux does not use (`RLIMIT_LOCKS`): every process inherits it, and `/proc` shows it.
    mark: u64,
    folder: tempfile::TempDir,
    /// The program and the arguments of every call.
    call: String,
    port: u16,
}

impl Calls {
    fn new(program: &str, call: &str) -> Self {
        static MARKS: AtomicU64 = AtomicU64::new(0);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        Self {
            // Another for each test of this process, and for each process of the test runner.
            mark: (u64::from(std::process::id()) << 8) + MARKS.fetch_add(1, Ordering::Relaxed),
            folder,
            call: format!("{program} {call}"),
            port: free.local_addr().unwrap().port(),
        }
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    fn command(&self, more: &str) -> Command {
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--locks={0}:{0}", self.mark))
            // Under `nohup` the tests ignore the signal of a closed terminal, and so would the program.
            .args(["env", "--default-signal=HUP"])
            .args(self.call.split_whitespace())
            .args(more.split_whitespace())
            .args(["--metrics-addr", &format!("127.0.0.1:{}", self.port)])
            .args(["--out".as_ref(), self.folder.path().join("out").as_os_str()])
            .env("TMPDIR", self.temporary())
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
            .stdin(Stdio::null());
        command
    }

    /// Returns the processes that run, with their names.
    fn processes(&self) -> Vec<(i32, String)> {
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mark = self.mark.to_string();
        let of_a_call = |pid: &i32| {
            let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
            let mut lines = limits.lines();
            let limit = lines.find_map(|line| line.strip_prefix("Max file locks "));
            let soft = limit.and_then(|limit| limit.split_ascii_whitespace().next());
            soft == Some(&mark) && is_running(*pid)
        };
        let named = |pid: i32| {
            let name = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            (pid, String::from_utf8_lossy(&name).replace('\0', " "))
        };
        pids.filter(of_a_call).map(named).collect()
    }

    /// Waits until no process is left and the port of the metrics is free. Folders may be left until the next start.
    #[track_caller]
    fn assert_nothing_runs(&self, how: &str) {
        let mut left = Vec::new();
        let ended = becomes_true(LIMIT, || {
            left = self.processes();
            left.is_empty()
        });
        for (pid, _) in &left {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        assert!(ended, "{:?}, {how}: {left:?}", self.call);
        let bound = TcpListener::bind(("127.0.0.1", self.port));
        assert!(bound.is_ok(), "{:?}, {how}: {bound:?}", self.call);
    }

    /// Runs the program to its end, and checks that nothing is left, also of earlier calls.
    #[track_caller]
    fn complete(&self, more: &str) -> Duration {
        let began = std::time::SystemTime::now();
        let output = self.command(more).output().unwrap();
        let code = output.status.code();
        // Warnings (3) and missed thresholds (4) are a busy machine's.
        assert!(
            matches!(code, Some(0 | 3 | 4)),
            "{code:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let took = began.elapsed().unwrap_or_default();
        self.assert_nothing_runs("at its end");
        let left: Vec<_> = fs::read_dir(self.temporary()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{:?}: {left:?}", self.call);
        took
    }

    #[track_caller]
    fn end_once(&self, more: &str, after: Duration, random: &mut StdRng) {
        let mut command = self.command(more);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let way = random.random_range(0..10);
        if way == 9 {
            let mut program = TerminalProgram::start(&command, 24, 80);
            std::thread::sleep(after);
            program.hang_up();
            program.end();
            return self.assert_nothing_runs(&format!("terminal closed after {after:?} {more:?}"));
        }
        let mut child = command.spawn().unwrap();
        std::thread::sleep(after);
        let pid = child.id().cast_signed();
        let how = match way {
            6 => {
                send(pid, Signal::SIGTERM);
                std::thread::sleep(after / 8);
                send(pid, Signal::SIGTERM);
                "SIGTERM twice".to_owned()
            }
            7 => {
                send(pid, Signal::SIGHUP);
                "SIGHUP".to_owned()
            }
            8 => self.kill_another(pid, random),
            _ => {
                send(pid, Signal::SIGKILL);
                "SIGKILL".to_owned()
            }
        };
        child.wait().unwrap();
        self.assert_nothing_runs(&format!("{how} after {after:?} {more:?}"));
    }

    /// Kills a process that the program has started, as the kernel does when memory is short. The program ends by
    /// itself.
    fn kill_another(&self, program: i32, random: &mut StdRng) -> String {
        let mut others = self.processes();
        others.retain(|(pid, _)| *pid != program);
        if others.is_empty() {
            return "its end".to_owned();
        }
        let (pid, name) = others.swap_remove(random.random_range(0..others.len()));
        send(pid, Signal::SIGKILL);
        format!("SIGKILL of {name}")
    }
}

fn send(pid: i32, signal: Signal) {
    // It may have ended already.
    let _ = kill(Pid::from_raw(pid), signal);
}
