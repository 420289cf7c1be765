//! A Slurm cluster for tests: a controller and any number of nodes on this machine, under its own configuration, ports,
//! key and folder. Nothing of the system's configuration is read, and several clusters can run at the same time.
//!
//! Slurm's daemons start as root only, because they start each task as the user who submitted it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use load::net::ports::ReservedPort;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid, gethostname};
use tempfile::TempDir;

use crate::processes::{children, is_running, wait_until, wait_until_within};
use test_kit::{becomes_true, skip};

/// The programs that a cluster consists of, and those that tests call.
const PROGRAMS: [&str; 8] = [
    "munged",
    "slurmctld",
    "slurmd",
    "scontrol",
    "sinfo",
    "squeue",
    "srun",
    "sbatch",
];

/// Generous limit for the start, and for the end of killed processes: a machine may be busy.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Generous limit for a job.
const JOB_LIMIT: Duration = Duration::from_secs(120);

/// Lines of each log that a message contains.
const SHOWN_LINES: usize = 30;

/// The prefixes of variables that configure Slurm's programs. A test that itself runs in a job has them.
const VARIABLES: [&str; 2] = ["SLURM", "SBATCH_"];

/// The states of a job that has not ended.
const NOT_ENDED: [&str; 9] = [
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "RESIZING",
    "SUSPENDED",
    "STOPPED",
    "SIGNALING",
    "STAGE_OUT",
];

/// A running cluster. Dropping it kills its daemons and all its jobs, and removes its folder; a failed test shows the
/// last lines of its logs.
#[derive(Debug)]
pub struct Cluster {
    munged: Child,
    controller: Option<Child>,
    nodes: Vec<Child>,
    folder: TempDir,
    ports: Vec<ReservedPort>,
}

/// The end of a job, as `scontrol show job` reports it.
#[derive(Debug)]
pub struct JobEnd {
    /// The state: `COMPLETED`, `FAILED`, `NODE_FAIL`.
    pub state: String,
    /// The exit code and the signal: `1:0`.
    pub exit_code: String,
}

impl Cluster {
    /// Starts a cluster whose nodes are `node0`, `node1` and so on, in one partition, and waits until all are idle.
    /// Each node offers `cpus_per_node` CPUs and 64 GiB, whatever this machine has; no job is held to its share.
    ///
    /// Returns `None`, and reports the test as skipped, if this user is not root or a program is missing.
    ///
    /// # Panics
    /// The cluster does not start within a minute; the message contains the logs.
    #[must_use]
    #[track_caller]
    pub fn start(nodes: usize, cpus_per_node: usize) -> Option<Self> {
        if let Some(missing) = PROGRAMS.iter().find(|name| find(name).is_none()) {
            skip(format_args!("{missing}, for a Slurm cluster"));
            return None;
        }
        if !geteuid().is_root() {
            skip("root, for a Slurm cluster");
            return None;
        }
        // Without symbolic links: it is compared with the paths of open files.
        let parent = std::env::temp_dir().canonicalize().unwrap();
        let folder = tempfile::Builder::new().prefix("slurm-").tempdir_in(parent);
        let folder = folder.unwrap();
        let ports = ReservedPort::several(Ipv4Addr::UNSPECIFIED.into(), nodes + 1).unwrap();
        let configuration = configuration(folder.path(), &ports, cpus_per_node);
        fs::write(folder.path().join("slurm.conf"), configuration).unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        let mut cluster = Self {
            munged: munged(folder.path()),
            controller: None,
            nodes: Vec::new(),
            folder,
            ports,
        };
        let socket = cluster.path("munge.socket");
        cluster.wait_for_start("the socket of munged", |_| socket.exists());
        cluster.controller = Some(cluster.start_daemon("slurmctld", &["-D", "-c"], "slurmctld"));
        // A program that finds no controller tries again only after a second.
        let controller = ("127.0.0.1", cluster.ports[0].port());
        cluster.wait_for_start("the port of slurmctld", |_| {
            TcpStream::connect(controller).is_ok()
        });
        for node in 0..nodes {
            let name = node_name(node);
            fs::create_dir(cluster.path(&name)).unwrap();
            let daemon = cluster.start_daemon("slurmd", &["-D", "-N", &name], &name);
            cluster.nodes.push(daemon);
        }
        cluster.wait_for_start("idle nodes", |cluster| {
            (0..nodes).all(|node| cluster.node_state(node) == "idle")
        });
        Some(cluster)
    }

    /// Returns a call of one of Slurm's programs (`srun`, `sbatch`, `squeue`) that uses this cluster. Its environment
    /// has no variables of another cluster or job.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let path = find(program).unwrap_or_else(|| panic!("{program} is not installed"));
        let mut command = Command::new(path);
        for (name, _) in std::env::vars_os() {
            let of_slurm = |prefix: &str| name.as_encoded_bytes().starts_with(prefix.as_bytes());
            if VARIABLES.iter().any(|prefix| of_slurm(prefix)) {
                command.env_remove(&name);
            }
        }
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command
    }

    /// Returns the state of a node as `sinfo` abbreviates it: `idle`, `mix`, `alloc`, `down*`. A star means that the
    /// controller has no answer from the node. The state is empty while the controller itself does not answer.
    #[must_use]
    pub fn node_state(&self, node: usize) -> String {
        let mut sinfo = self.command("sinfo");
        sinfo.args(["--noheader", "--Node", "--format=%t", "--nodes"]);
        let output = sinfo.arg(node_name(node)).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Returns the process of a node's slurmd.
    #[must_use]
    pub fn pid_of_node(&self, node: usize) -> u32 {
        self.nodes[node].id()
    }

    /// Ends a node as the loss of a machine does: no daemon of the node reports anything from now on, and its tasks are
    /// killed. The controller notices within about 20 s, and srun learns it from the controller.
    ///
    /// The slurmstepds are stopped rather than killed, because a lost machine closes no connections. If the connection
    /// to a slurmstepd is reset, srun ends the whole step, even with `--no-kill`. It also ends a step that is still
    /// being launched: wait until `srun --verbose` reports all tasks as started.
    pub fn kill_node(&self, node: usize) {
        let slurmd = self.pid_of_node(node).cast_signed();
        send(slurmd, Signal::SIGKILL);
        wait_until("the end of slurmd", || !is_running(slurmd));
        wait_until("slurmstepds stop", || {
            let daemons = self.daemons_of_node(node);
            daemons.iter().for_each(|pid| send(*pid, Signal::SIGSTOP));
            daemons.into_iter().all(is_stopped)
        });
        let daemons = self.daemons_of_node(node);
        kill_all(|| {
            let mut tasks = self.processes_of_node(node);
            tasks.retain(|pid| !daemons.contains(pid));
            tasks
        });
    }

    /// Waits until a job has ended.
    ///
    /// # Panics
    /// There is no such job, or it does not end within two minutes.
    #[track_caller]
    pub fn wait_for_job(&self, id: u32) -> JobEnd {
        let mut end = None;
        wait_until_within(JOB_LIMIT, "the end of the job", || {
            let mut scontrol = self.command("scontrol");
            let output = scontrol.args(["show", "job", &id.to_string()]).output();
            let output = output.unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(!message.contains("Invalid job id"), "job {id}: {message}");
            let field = |name| {
                text.split_whitespace()
                    .find_map(|word| word.strip_prefix(name))
            };
            let Some((state, exit_code)) = field("JobState=").zip(field("ExitCode=")) else {
                return false;
            };
            let (state, exit_code) = (state.to_owned(), exit_code.to_owned());
            let has_ended = !NOT_ENDED.contains(&state.as_str());
            end = Some(JobEnd { state, exit_code });
            has_ended
        });
        end.expect("the condition above holds once there is an end")
    }

    /// Returns the slurmd and the slurmstepds of a node.
    fn daemons_of_node(&self, node: usize) -> Vec<i32> {
        // A slurmstepd overwrites its environment with its title, but has inherited the log.
        let log = self.path(&format!("{}.log", node_name(node)));
        let mut found = all_processes();
        found.retain(|pid| has_open(*pid, &log));
        found
    }

    /// Returns the processes of a node: its daemons and its tasks.
    fn processes_of_node(&self, node: usize) -> Vec<i32> {
        let name = format!("SLURMD_NODENAME={}", node_name(node));
        let variables = [self.variable(), name.into()];
        let mut found = self.daemons_of_node(node);
        let tasks = all_processes();
        found.extend(tasks.iter().filter(|pid| has_variables(**pid, &variables)));
        with_descendants(found)
    }

    /// Returns the processes that use this configuration: the controller, tasks, and what a test has started with
    /// [`Self::command`].
    fn processes(&self) -> Vec<i32> {
        let mut found = all_processes();
        found.retain(|pid| has_variables(*pid, &[self.variable()]));
        with_descendants(found)
    }

    fn variable(&self) -> OsString {
        let mut variable = OsString::from("SLURM_CONF=");
        variable.push(self.path("slurm.conf"));
        variable
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start_daemon(&self, program: &str, arguments: &[&str], name: &str) -> Child {
        let mut command = self.command(program);
        command.args(arguments).arg("-f");
        command.arg(self.path("slurm.conf"));
        spawn(&mut command, &self.path(&format!("{name}.out")))
    }

    /// Waits for a condition of the start.
    ///
    /// # Panics
    /// The time is over, or a daemon has ended.
    #[track_caller]
    fn wait_for_start(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let mut has_ended = false;
        let is_done = becomes_true(START_LIMIT, || {
            let daemons = [&mut self.munged].into_iter().chain(&mut self.controller);
            has_ended = daemons
                .chain(&mut self.nodes)
                .any(|child| child.try_wait().unwrap().is_some());
            has_ended || holds(self)
        });
        let why = if has_ended {
            "a daemon has ended"
        } else {
            "too late"
        };
        assert!(
            is_done && !has_ended,
            "the cluster does not start: no {what}, {why}\n{}",
            self.logs()
        );
    }

    /// Returns the last lines that each daemon has written to stderr, which are also in its log.
    #[must_use]
    pub fn logs(&self) -> String {
        let entries = fs::read_dir(self.folder.path()).unwrap().flatten();
        let logs = entries.filter(|entry| entry.path().extension().is_some_and(|is| is == "out"));
        let last_lines = logs.map(|entry| {
            let text = fs::read(entry.path()).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
            format!("{}:\n{}\n", entry.path().display(), last.join("\n"))
        });
        last_lines.collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "{}", self.logs());
        }
        for node in 0..self.nodes.len() {
            kill_all(|| self.processes_of_node(node));
        }
        kill_all(|| self.processes());
        let daemons = [&mut self.munged].into_iter().chain(&mut self.controller);
        for child in daemons.chain(&mut self.nodes) {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the name of a node.
fn node_name(node: usize) -> String {
    format!("node{node}")
}

/// Returns the configuration of a cluster: the first port is the controller's, the others belong to its nodes.
fn configuration(folder: &Path, ports: &[ReservedPort], cpus_per_node: usize) -> String {
    let (controller, nodes) = ports.split_first().expect("a cluster has a controller");
    let host = gethostname().unwrap().into_string().unwrap();
    let host = host.split('.').next().unwrap_or_default();
    let folder = folder.display();
    let controller = controller.port();
    let mut text = format!(
        "\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n
SlurmdParameters=config_overrides
MailProg=/bin/true
# Without cgroups, and without MPI: a task is a process.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# Jobs start at once.
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
# A lost node is noticed after SlurmdTimeout and two attempts to reach it.
SlurmdTimeout=5
MessageTimeout=5
# On a busy machine a slurmstepd may wait for seconds until it runs.
BatchStartTimeout=60
ReturnToService=2
InactiveLimit=0
KillWait=2
"
    );
    for (node, port) in nodes.iter().map(ReservedPort::port).enumerate() {
        let name = node_name(node);
        text += &format!(
            "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus_per_node} RealMemory=65536\n"
        );
    }
    text + "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
}

/// Starts the daemon that signs the messages of a cluster, with a key of its own.
fn munged(folder: &Path) -> Child {
    let key: Vec<u8> = (0..128)
        .flat_map(|number| RandomState::new().hash_one(number).to_ne_bytes())
        .collect();
    fs::write(folder.join("munge.key"), key).unwrap();
    let mut command = Command::new(find("munged").expect("the program was found before"));
    // --force: munged refuses a folder whose parents are writable for everybody, as /tmp is.
    command.args(["--foreground", "--force"]);
    for (option, name) in [
        ("--key-file", "munge.key"),
        ("--socket", "munge.socket"),
        ("--pid-file", "munged.pid"),
        ("--log-file", "munged.log"),
        ("--seed-file", "munged.seed"),
    ] {
        command.arg(option).arg(folder.join(name));
    }
    spawn(&mut command, &folder.join("munged.out"))
}

/// Starts a daemon in a process group of its own, so that Ctrl-C reaches the tests alone.
fn spawn(command: &mut Command, output: &Path) -> Child {
    let output = File::create(output).unwrap();
    command
        .stdin(Stdio::null())
        .stderr(output.try_clone().unwrap());
    command.stdout(output).process_group(0).spawn().unwrap()
}

/// Returns the path of a program. Daemons are in /usr/sbin, which is not always in the PATH.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Kills processes until a search finds none and all have ended.
fn kill_all(search: impl Fn() -> Vec<i32>) {
    let mut found = BTreeSet::new();
    becomes_true(START_LIMIT, || {
        // A process whose parent has ended first may not be found again.
        found.extend(search());
        found.retain(|pid| is_running(*pid));
        found.iter().for_each(|pid| send(*pid, Signal::SIGKILL));
        found.is_empty()
    });
}

/// Sends a signal to a process, which may have ended.
fn send(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Returns true if every thread of a process is stopped.
fn is_stopped(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
    })
}

/// Returns the ids of all processes.
fn all_processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Adds the processes that were started by others of the list, at its end.
fn with_descendants(mut pids: Vec<i32>) -> Vec<i32> {
    let mut next = 0;
    while let Some(pid) = pids.get(next) {
        for child in children(pid.cast_unsigned()) {
            if !pids.contains(&child) && is_running(child) {
                pids.push(child);
            }
        }
        next += 1;
    }
    pids
}

/// Returns true if a process has a file open.
fn has_open(pid: i32, file: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    descriptors
        .flatten()
        .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|path| path == file))
}

/// Returns true if a process was started with all these variables.
fn has_variables(pid: i32, variables: &[OsString]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let has = |variable: &OsString| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.any(|entry| entry == variable.as_encoded_bytes())
    };
    variables.iter().all(has)
}
