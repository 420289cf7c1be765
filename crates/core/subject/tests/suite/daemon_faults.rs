//! Faults of the five daemons in Rust, and the effect that a user sees. `docs/src/faults.md` lists them.

mod clocks;
mod disks;
mod interruptions;
mod limits;
mod names;
mod peers;
mod requests;
mod signals;

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use harness_testing::daemons::prepared;
use harness_testing::processes::wait_until;
use harness_testing::{metrics, skip};
use load::net::ports::ReservedPort;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subject::daemon::Prepared;
use tempfile::TempDir;

/// The daemons, each with its protocol.
const DAEMONS: [(&str, &str); 5] = [
    ("rust-streaming", "fdpass"),
    ("broker-daemon", "amqp"),
    ("http-daemon", "http"),
    ("presence-daemon", "presence"),
    ("issue-daemon", "issue"),
];

/// A daemon with a folder and addresses of its own, which each of its starts uses.
struct Subject {
    prepared: Prepared,
    protocol: &'static str,
    folder: TempDir,
    ports: Vec<ReservedPort>,
}

/// Runs a test on each daemon, on all of them at once.
fn on_each_daemon(test: impl Fn(&Subject) + Sync) {
    on_daemons(&DAEMONS.map(|(name, _)| name), test);
}

/// Runs a test on some of the daemons, on all of them at once.
fn on_daemons(names: &[&str], test: impl Fn(&Subject) + Sync) {
    thread::scope(|scope| {
        for (name, protocol) in DAEMONS.iter().filter(|(name, _)| names.contains(name)) {
            let test = || test(&Subject::new(name, protocol));
            // A panic shows the name of its thread.
            let thread = thread::Builder::new().name((*name).to_owned());
            thread.spawn_scoped(scope, test).unwrap();
        }
    });
}

impl Subject {
    fn new(name: &str, protocol: &'static str) -> Self {
        let prepared = prepared(name, protocol).expect("daemons in Rust need no tool");
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Self {
            // One more for a server that it connects to.
            ports: ReservedPort::several(localhost, prepared.manifest().ports() + 1).unwrap(),
            prepared,
            protocol,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket/s")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Returns the port that clients connect to, for daemons without a Unix socket.
    fn port(&self) -> u16 {
        self.ports[0].port()
    }

    /// Returns a port for a server that the daemon connects to.
    fn spare_port(&self) -> u16 {
        self.ports.last().unwrap().port()
    }

    /// Starts a Redis at the same address each time, with which nodes of the presence daemon share their rooms.
    fn start_redis(&self, address: &str) -> Process {
        let port = self.spare_port();
        let mut redis = Command::new("redis-server");
        redis.args(["--port", &port.to_string(), "--bind", address, "--save", ""]);
        let redis = Process::spawn(redis.stdout(Stdio::null()));
        wait_until("Redis listens", || {
            TcpStream::connect((address, port)).is_ok()
        });
        redis
    }

    /// Returns the value of a metric.
    fn metric(&self, name: &str) -> u64 {
        metrics::value(&self.page("/metrics").unwrap_or_default(), name)
    }

    /// Returns a page of the metrics' address, with its head; `None` if there is none.
    fn page(&self, path: &str) -> Option<String> {
        let url = self.fill(self.prepared.manifest().metrics.as_deref()?);
        let address = url.strip_prefix("http://")?.strip_suffix("/metrics")?;
        requests::get(address.parse().ok()?, path).ok()
    }

    fn fill(&self, text: &str) -> String {
        let program = self.prepared.programs().next().unwrap();
        let mut text = text
            .replace("{program}", &program.to_string_lossy())
            .replace("{listen}", "127.0.0.1")
            .replace("{socket}", &self.socket().to_string_lossy())
            .replace("{scratch}", &self.data().to_string_lossy());
        for (number, port) in ["", "2", "3"].iter().zip(&self.ports) {
            text = text.replace(&format!("{{port{number}}}"), &port.port().to_string());
        }
        text
    }

    /// Returns the command of its manifest, behind the words of another program that runs it. Its log is a file.
    fn command(&self, runner: &[&str]) -> Command {
        for folder in [self.socket().parent().unwrap(), &self.data()] {
            fs::create_dir_all(folder).unwrap();
        }
        let manifest = self.prepared.manifest();
        // What stands before it chooses a disk that is measured.
        let own = manifest.run.iter().skip_while(|word| *word != "{program}");
        let runner = runner.iter().map(|word| (*word).to_owned());
        let mut words = runner.chain(own.map(|word| self.fill(word)));
        let mut command = Command::new(words.next().unwrap());
        let log = File::options().create(true).append(true).open(self.log());
        command
            .args(words)
            .envs(&manifest.env)
            .env("DAEMON_MESSAGE_DELAY", "0")
            // Sessions whose client is not there any more stay.
            .env("PRESENCE_PING_INTERVAL_MS", "3600000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap());
        command
    }

    fn start(&self) -> Process {
        self.start_by(self.command(&[]))
    }

    /// Starts it, and waits until it serves.
    fn start_by(&self, mut command: Command) -> Process {
        let mut process = Process::spawn(&mut command);
        wait_until("it serves", || {
            let ended = process.0.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", self.logged());
            self.serves()
        });
        process
    }

    /// Returns what it has logged.
    fn logged(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Returns true if a request is answered as it should be.
    fn serves(&self) -> bool {
        self.request().is_ok()
    }

    /// Keeps four clients sending requests while a function runs, which must all be answered.
    fn expect_answers(&self, act: impl FnOnce()) {
        thread::scope(|scope| {
            let requests = || (0..25).try_for_each(|_| self.request().map(drop));
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(requests)).collect();
            act();
            for client in clients {
                client.join().unwrap().unwrap();
            }
        });
    }

    /// Keeps four clients sending requests while a function runs, and returns how many were confirmed.
    fn under_load(&self, act: impl FnOnce()) -> u64 {
        let (confirmed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let _end = EndOfLoad(&is_over);
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let confirms = u64::from(self.serves());
                        confirmed.fetch_add(confirms, Ordering::Relaxed);
                    }
                });
            }
            wait_until("requests are answered", || {
                confirmed.load(Ordering::Relaxed) > 20
            });
            act();
        });
        confirmed.into_inner()
    }
}

/// Ends the clients of a load, also after a panic.
struct EndOfLoad<'a>(&'a AtomicBool);

impl Drop for EndOfLoad<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A command that shows whether system calls can be traced here.
const STRACE: &[&str] = &["strace", "-qq", "-o", "/dev/null", "true"];
/// A command that shows whether file systems can be mounted here.
const UNSHARE: &[&str] = &["unshare", "-m", "true"];
/// A command that shows whether there is a Redis.
const REDIS: &[&str] = &["redis-server", "--version"];

/// Returns true if a command works here; reports the test as skipped if not.
fn can_run(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    let status = command.args(&words[1..]).stdout(Stdio::null()).status();
    let is_success = status.as_ref().is_ok_and(ExitStatus::success);
    if !is_success {
        skip(format!("a working {words:?}: {status:?}"));
    }
    is_success
}

/// A running program, killed when this is dropped.
struct Process(Child);

impl Process {
    fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.ended();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id().cast_signed())
    }

    fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Changes what system calls of a running daemon return, by `strace --inject`, until the end of the returned process.
    fn inject(&self, fault: &str) -> Process {
        let calls = fault.split(':').next().unwrap();
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-o", "/dev/null"])
            .args(["-p", &self.pid().to_string()])
            .args(["-e", &format!("trace={calls}")])
            .args(["-e", &format!("inject={fault}")]);
        let strace = Process::spawn(&mut strace);
        wait_until("all threads are traced", || {
            let threads = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            threads.flatten().all(|thread| {
                let status = fs::read_to_string(thread.path().join("status"));
                status.is_ok_and(|status| !status.contains("TracerPid:\t0\n"))
            })
        });
        strace
    }

    /// Waits for its end.
    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("its end", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Ends it by SIGTERM, and returns its exit code.
    fn stop(mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.ended().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
