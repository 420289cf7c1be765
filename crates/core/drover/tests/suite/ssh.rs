//! Runs on several hosts by ssh: servers of this machine, each with a folder of its own, are the hosts.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use harness_testing::hosts::Hosts;
use harness_testing::processes::{children, is_running, wait_until, wait_until_within};
use harness_testing::program::beside;
use harness_testing::result::ResultFile;
use harness_testing::skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::slurm::STREAMS;
use crate::streaming::root;
use crate::support::{
    LIMIT, Started, assert_contains, ends_with, has_exited, has_three_shards, interrupt, json,
    messages, shown,
};

/// The drivers and daemons that run on hosts.
const PROGRAMS: [&str; 6] = [
    "http-load",
    "http-daemon",
    "amqp-perftest",
    "broker-daemon",
    "fdpass-gen",
    "streaming-daemon",
];
const SSHD: &str = "/usr/sbin/sshd";
const HTTP: &str = "name = \"http\"\nprotocol = \"http\"\n[timeline]\nmeasure = \"4s\"\ndrain = \"5s\"\n\
    [[groups]]\nname = \"rate\"\nrate = 300\n[driver]\npath = \"/1kb.txt\"\n";
const AMQP: &str = "name = \"amqp\"\nprotocol = \"amqp\"\n[timeline]\nmeasure = \"3s\"\ndrain = \"20s\"\n\
    [[groups]]\nname = \"producers\"\nrate = 300\n[[groups]]\nname = \"consumers\"\nclients = 3\n\
    [driver]\nproducers = 3\nconfirms = 64\nprefetch = 10\n";

/// ssh servers, each a host. They and all that they have started end with the test.
struct Network {
    folder: tempfile::TempDir,
    servers: Vec<Child>,
}

impl Network {
    /// Starts a server for each name; `None` if this machine can't.
    fn start(hosts: &[&str]) -> Option<Self> {
        Self::start_in(hosts, |_, script| script.to_owned())
    }

    /// Starts servers of this machine by a shell script that may change the surroundings of each.
    fn start_in(hosts: &[&str], script: impl Fn(&str, &str) -> String) -> Option<Self> {
        let shell = |_, folder: &str, start: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &script(folder, start)]);
            shell
        };
        Self::start_by(hosts, |_| Ipv4Addr::LOCALHOST, shell)
    }

    /// Starts servers at these addresses, each by a command.
    fn start_by(
        hosts: &[&str],
        address: impl Fn(u8) -> Ipv4Addr,
        command: impl Fn(u8, &str, &str) -> Command,
    ) -> Option<Self> {
        beside(env!("CARGO_BIN_EXE_drover"), PROGRAMS)?;
        if !Path::new(SSHD).is_file() {
            skip("sshd, of the package openssh-server");
            return None;
        }
        let mut network = Self {
            folder: tempfile::tempdir().unwrap(),
            servers: Vec::new(),
        };
        if geteuid().is_root() {
            // The server separates its privileges there.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        network.make_key("server");
        network.make_key("user");
        // Every host has another version, which must not be used.
        fs::create_dir(network.path("old")).unwrap();
        for program in ["drover", "http-load", "http-daemon"] {
            symlink("/bin/false", network.path("old").join(program)).unwrap();
        }
        for (index, host) in (0..).zip(hosts) {
            let command = |folder: &str, start: &str| command(index, folder, start);
            network.add(host, address(index), command);
        }
        Some(network)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn make_key(&self, name: &str) {
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        assert!(make.arg(self.path(name)).status().unwrap().success());
    }

    /// Returns the folder for temporary files of a host.
    fn host(&self, name: &str) -> PathBuf {
        self.path(&format!("host-{name}"))
    }

    fn add(&mut self, host: &str, address: Ipv4Addr, command: impl Fn(&str, &str) -> Command) {
        fs::create_dir(self.host(host)).unwrap();
        let log = self.path(&format!("{host}.log"));
        loop {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            let config = format!(
                "Port {port}\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
                 StrictModes no\nSetEnv TMPDIR={} PATH={}:/usr/sbin:/usr/bin:/sbin:/bin\n",
                self.path("server").display(),
                self.path("user.pub").display(),
                self.host(host).display(),
                self.path("old").display()
            );
            let file = self.path(&format!("{host}.conf"));
            fs::write(&file, config).unwrap();
            let start = format!("exec {SSHD} -D -e -f {}", file.display());
            let mut server = command(&self.host(host).display().to_string(), &start)
                .stdin(Stdio::null())
                .stderr(File::create(&log).unwrap())
                .spawn()
                .unwrap();
            wait_until("a server listens, or has ended", || {
                let log = fs::read_to_string(&log).unwrap();
                log.contains("Server listening") || server.try_wait().unwrap().is_some()
            });
            // Another program may have taken the port meanwhile.
            if server.try_wait().unwrap().is_none() {
                self.servers.push(server);
                self.name(host, address, port);
                return;
            }
            let log = fs::read_to_string(&log).unwrap();
            assert!(log.contains("Cannot bind any address"), "{log}");
        }
    }

    /// Adds a host to the configuration of the client.
    fn name(&self, host: &str, address: Ipv4Addr, port: u16) {
        let key = fs::read_to_string(self.path("server.pub")).unwrap();
        let append = |name: &str, text: String| {
            let file = File::options()
                .create(true)
                .append(true)
                .open(self.path(name));
            file.unwrap().write_all(text.as_bytes()).unwrap();
        };
        append("known", format!("[{address}]:{port} {key}"));
        append(
            "config",
            format!(
                "Host {host}\n HostName {address}\n Port {port}\n IdentityFile {}\n IdentitiesOnly yes\n UserKnownHostsFile {}\n",
                self.path("user").display(),
                self.path("known").display()
            ),
        );
    }

    /// Returns a call of the program on hosts.
    fn drover(&self, hosts: &str, plan: &str, more: &[&str]) -> Command {
        let file = self.path("plan.toml");
        fs::write(&file, plan).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
        command
            .current_dir(root())
            .args(["cluster", "ssh", hosts])
            .arg(file)
            .arg(format!("--ssh=-F{}", self.path("config").display()))
            .args(["--force", "--retry-invalid", "0", "--out"])
            .arg(self.path("out"))
            .args(more)
            .stdin(Stdio::null());
        command
    }

    /// Runs the program on hosts. A busy machine makes a result SUSPECT or INVALID.
    #[track_caller]
    fn run(&self, hosts: &str, plan: &str, more: &[&str]) -> Output {
        let output = self.drover(hosts, plan, more).output().unwrap();
        let has_result = matches!(output.status.code(), Some(0 | 3));
        assert!(has_result, "{}\n{}", messages(&output), shown(&output));
        output
    }

    /// Asserts that a call is refused, with these words, before anything was launched.
    #[track_caller]
    fn refuses(&self, hosts: &str, more: &[&str], words: &[&str]) {
        let output = self.drover(hosts, HTTP, more).output().unwrap();
        ends_with(&output, 2);
        assert_contains(&messages(&output), words);
        assert!(!self.path("out").exists(), "nothing was run");
    }

    /// Returns the folder of the suite.
    fn suite(&self) -> PathBuf {
        let day = fs::read_dir(self.path("out")).unwrap().next().unwrap();
        let suite = fs::read_dir(day.unwrap().path()).unwrap().next().unwrap();
        suite.unwrap().path()
    }

    /// Returns the results of the suite, sorted by path.
    fn results(&self) -> Vec<ResultFile> {
        let runs = json(&self.suite().join("suite.json"));
        let runs = runs["runs"].as_array().unwrap().iter();
        let result = |run: &serde_json::Value| {
            let name = |key: &str| run[key].as_str().unwrap().to_owned();
            let folder = self.suite().join(name("daemon")).join(name("level"));
            let file = folder.join(run["run"].to_string()).join("result.json");
            ResultFile(json(&file))
        };
        runs.map(result).collect()
    }

    fn result(&self) -> ResultFile {
        let mut results = self.results();
        assert_eq!(results.len(), 1);
        results.remove(0)
    }

    /// Waits until a shard has sent a second of its load.
    fn wait_for_load(&self, program: &Started) {
        let has_load = |path: &Path| {
            let lines = fs::read_to_string(path.join("live.jsonl"));
            lines.is_ok_and(|lines| lines.contains('\n'))
        };
        wait_until_within(LIMIT, "a load, or the end", || {
            if has_exited(program.pid) {
                return true;
            }
            let mut folders = vec![self.path("out")];
            while let Some(folder) = folders.pop() {
                if has_load(&folder) {
                    return true;
                }
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                folders.extend(entries.map(|it| it.path()).filter(|it| it.is_dir()));
            }
            false
        });
    }

    /// Returns the processes that run in the folder of a host.
    fn processes(&self, host: &str) -> Vec<i32> {
        let folder = self.host(host);
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid: &i32| {
            let current = fs::read_link(format!("/proc/{pid}/cwd"));
            current.is_ok_and(|current| current.starts_with(&folder))
        })
        .collect()
    }

    /// Waits until a host has neither a process nor a file of a run.
    fn wait_until_clean(&self, host: &str) {
        wait_until("a host is as it was before", || self.is_clean(host));
    }

    fn is_clean(&self, host: &str) -> bool {
        fs::read_dir(self.host(host)).unwrap().next().is_none()
            && !self.processes(host).into_iter().any(is_running)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // One that has ended needs no signal. Its connections end with their clients.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn a_load_of_two_hosts_with_three_shares_is_one_result_and_leaves_nothing_there() {
    let Some(network) = Network::start(&["a", "b", "c"]) else {
        return;
    };
    let output = network.run("a,b*2,c", HTTP, &["--daemon", "http-daemon"]);
    let table = messages(&output);
    assert_contains(
        &table,
        &[
            "a     daemon    ",
            "b     2 shards  ",
            "c     1 shard   ",
            " ± ",
        ],
    );
    let merged = network.result();
    has_three_shards(&merged);
    let due = merged.operations("started") + merged.operations("missed");
    assert_eq!(due, 1_200, "{}", shown(&output));
    assert!(merged["usage"]["daemon"]["rss_peak_kb"].as_u64().unwrap() > 0);
    for host in ["a", "b", "c"] {
        network.wait_until_clean(host);
    }
}

#[test]
fn hosts_of_a_real_network_reach_the_daemon_at_the_address_of_its_host() {
    let Some(hosts) = Hosts::create(3) else {
        return;
    };
    let shell = |host: u8, _: &str, start: &str| {
        let mut shell = hosts.command(host, "sh");
        shell.args(["-c", start]);
        shell
    };
    let names = ["a", "b", "c"];
    let Some(network) = Network::start_by(&names, |host| hosts.address(host), shell) else {
        return;
    };
    let call = network.drover("a,b,c", HTTP, &["--daemon", "http-daemon"]);
    // This program is on the first host, and has a way to the others.
    let mut there = hosts.command(0, call.get_program());
    there
        .args(call.get_args())
        .current_dir(root())
        .stdin(Stdio::null());
    let output = there.output().unwrap();
    let merged = network.result();
    assert_contains(&shown(&output), &["2 shards on 2 machines"]);
    let due = merged.operations("started") + merged.operations("missed");
    assert_eq!(due, 1_200, "{}", messages(&output));
    // A request and its answer take 1 ms each.
    assert!(merged.ms("response", "min_ns") >= 2.0);
}

#[test]
fn levels_and_repetitions_are_divided_runs_of_one_suite() {
    let Some(network) = Network::start(&["a", "b"]) else {
        return;
    };
    let plan = format!(
        "{}[suite]\ndaemons = [\"http-daemon\"]\nrepeat = 2\n\
         levels = [{{ name = \"low\", set = {{ \"groups.0.rate\" = 100 }} }}, {{ name = \"high\", set = {{ \"groups.0.rate\" = 200 }} }}]\n",
        HTTP.replace("4s", "1s")
    );
    let both = ["--daemon-host", "a"];
    let output = network.run("a,b", &plan, &both);
    let due = |result: &ResultFile| result.operations("started") + result.operations("missed");
    let results = network.results();
    let loads: Vec<u64> = results.iter().map(due).collect();
    assert_eq!(loads, [100, 200, 100, 200], "{}", messages(&output));
    for result in &results {
        assert_eq!(result["shards"].as_array().unwrap().len(), 2);
    }
    // The report repeats the command.
    let report = fs::read_to_string(network.suite().join("summary.md")).unwrap();
    assert_contains(
        &report,
        &["drover cluster ssh a,b --daemon-host=a --ssh=-F"],
    );
    // The shards are no results of the suite.
    let of_day = network.suite().parent().unwrap().to_owned();
    let mut report = Command::new(env!("CARGO_BIN_EXE_drover"));
    report.arg("report").arg(of_day).args(["--format", "json"]);
    let output = report.output().unwrap();
    ends_with(&output, 0);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.as_array().map(Vec::len), Some(4));
    // The same command finds all done, and other hosts are another suite.
    let again = network.run("a,b", &plan, &both);
    assert!(
        !messages(&again).contains("run 1 of"),
        "{}",
        messages(&again)
    );
}

#[test]
fn messages_between_hosts_are_in_one_ledger() {
    let Some(network) = Network::start(&["a", "b", "c"]) else {
        return;
    };
    let more = ["--daemon", "broker-daemon", "--daemon-host", "a"];
    let output = network.run("a,b,c", AMQP, &more);
    let merged = network.result();
    has_three_shards(&merged);
    let started = merged.operations("started");
    assert_eq!(
        started + merged.operations("missed"),
        900,
        "{}",
        shown(&output)
    );
    assert_eq!(merged.operations("ok"), started, "{}", merged["errors"]);
    merged.counts(&[("lost", 0), ("duplicated", 0), ("out_of_order", 0)]);
    // The last shard has seen that all had ended, and read the depths of the queues.
    let run = network.suite().join("broker-daemon/300-per-sx3/1");
    let ledgers = fs::read_to_string(run.join("shard-2/ledgers.jsonl")).unwrap();
    assert_contains(&ledgers, &["\"queues\":"]);
}

#[test]
fn streams_have_a_daemon_on_every_host() {
    let Some(network) = Network::start(&["a", "b"]) else {
        return;
    };
    network.run("a*2,b", STREAMS, &["--daemon", "rust-streaming"]);
    let merged = network.result();
    has_three_shards(&merged);
    assert_eq!(merged.operations("ok"), 30);
    assert_eq!(merged["daemon"]["instances"], 3);
}

#[test]
fn a_host_that_is_lost_is_named_and_the_rest_is_merged() {
    let Some(network) = Network::start(&["a", "b", "c"]) else {
        return;
    };
    let mut command = network.drover("a,b,c", HTTP, &["--daemon", "http-daemon"]);
    let running = Started::spawn(&mut command);
    network.wait_for_load(&running);
    // As after the loss of the machine: the server's processes for this connection end, and the connection with them.
    for pid in connections(&network.servers[2]) {
        signal(pid, Signal::SIGKILL);
    }
    network.wait_until_clean("c");
    let output = running.end();
    ends_with(&output, 3);
    assert_contains(&messages(&output), &["c (shard-1): the host was lost"]);
    let merged = network.result();
    assert_eq!(merged["verdict"], "INVALID");
    assert_contains(&shown(&output), &["1 of 2 shards are missing: 1"]);
    let due = merged.operations("started") + merged.operations("missed");
    assert_eq!(due, 600, "the other has driven its share");
    network.wait_until_clean("a");
    network.wait_until_clean("b");
}

/// Returns the processes of a server's connections.
fn connections(server: &Child) -> Vec<i32> {
    let of_server = children(server.id());
    let below = of_server.iter().flat_map(children);
    let all = of_server.iter().copied().chain(below);
    let is_server = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "sshd")
    };
    all.filter(is_server).collect()
}

#[test]
fn a_host_that_answers_no_more_is_lost_and_ends_its_parts_by_itself() {
    let Some(network) = Network::start(&["a", "b"]) else {
        return;
    };
    let plan = HTTP.replace("4s", "600s");
    let more = ["--daemon", "http-daemon", "--daemon-host", "a"];
    let running = Started::spawn(&mut network.drover("a,b", &plan, &more));
    network.wait_for_load(&running);
    // As if the network of the host were cut.
    let stopped = connections(&network.servers[1]);
    stopped.iter().for_each(|pid| signal(*pid, Signal::SIGSTOP));
    wait_until_within(LIMIT, "the host is as it was before", || {
        network.is_clean("b")
    });
    interrupt(&running);
    let output = running.end();
    ends_with(&output, 3);
    assert_contains(&messages(&output), &["b (shard-1): the host was lost: "]);
    network.wait_until_clean("a");
    stopped.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
}

fn signal(pid: i32, signal: Signal) {
    // It may have ended already.
    let _ = kill(Pid::from_raw(pid), signal);
}

#[test]
fn nothing_runs_on_any_host_after_this_program_was_killed_or_interrupted() {
    let Some(network) = Network::start(&["a", "b"]) else {
        return;
    };
    let plan = HTTP.replace("4s", "60s");
    for signal in [Signal::SIGKILL, Signal::SIGINT] {
        let more = ["--daemon", "http-daemon", "--fresh"];
        let running = Started::spawn(&mut network.drover("a,b", &plan, &more));
        network.wait_for_load(&running);
        assert!(!network.processes("a").is_empty() && !network.processes("b").is_empty());
        kill(running.pid, signal).unwrap();
        let output = running.end();
        if signal == Signal::SIGINT {
            ends_with(&output, 3);
            assert_contains(&messages(&output), &["Interrupted: repeat the command"]);
        }
        network.wait_until_clean("a");
        network.wait_until_clean("b");
        fs::remove_dir_all(network.path("out")).unwrap();
    }
}

#[test]
fn a_part_that_fails_before_the_start_ends_the_others_with_its_reason() {
    let Some(network) = Network::start(&["a", "b", "c"]) else {
        return;
    };
    let wrong = "driver.path=\"/nothing\"";
    let more = ["--daemon", "http-daemon", "--set", wrong];
    let output = network.drover("a,b,c", HTTP, &more).output().unwrap();
    ends_with(&output, 1);
    // Each shard checks the answers itself, so that either may be the first.
    let named = [
        "b (shard-0): /nothing of 127.0.0.1",
        "c (shard-1): /nothing of 127.0.0.1",
    ];
    let text = messages(&output);
    assert!(named.iter().any(|words| text.contains(words)), "{text}");
    for host in ["a", "b", "c"] {
        network.wait_until_clean(host);
    }
}

#[test]
fn hosts_that_cannot_be_reached_are_named_together() {
    let Some(network) = Network::start(&["a", "b"]) else {
        return;
    };
    // It accepts the connection and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    network.name("silent", Ipv4Addr::LOCALHOST, port);
    let daemon = ["--daemon", "http-daemon"];
    let words = [
        "connecting: ",
        "silent: ",
        "unknown.invalid: ",
        "`ssh HOST true`",
    ];
    network.refuses("a,b,silent,unknown.invalid", &daemon, &words);
    network.wait_until_clean("a");
    // Another key than the one that the servers know.
    fs::remove_file(network.path("user")).unwrap();
    fs::remove_file(network.path("user.pub")).unwrap();
    network.make_key("other");
    fs::rename(network.path("other"), network.path("user")).unwrap();
    fs::write(network.path("user.pub"), "").unwrap();
    network.refuses("a,b", &daemon, &["a: ", "b: ", "Permission denied"]);
    network.refuses("a,-oProxyCommand=x", &daemon, &["no `-` at its begin"]);
}

#[test]
fn hosts_that_lack_something_are_named_before_anything_is_launched() {
    let few_files = |folder: &str, start: &str| {
        if folder.ends_with("few") {
            format!("ulimit -n 80; {start}")
        } else {
            start.to_owned()
        }
    };
    let Some(network) = Network::start_in(&["a", "few"], few_files) else {
        return;
    };
    let daemon = ["--daemon", "http-daemon"];
    let plan = HTTP.replace("rate = 300", "clients = 50");
    let output = network.drover("a,few", &plan, &daemon).output().unwrap();
    ends_with(&output, 2);
    assert_contains(
        &messages(&output),
        &["few: http: one shard with its share", "fix: ", "80"],
    );
    assert!(!network.path("out").exists(), "nothing was run");
    network.wait_until_clean("few");
}

#[test]
fn a_host_with_a_full_disk_or_one_that_runs_no_program_is_named() {
    if !geteuid().is_root() {
        return skip("root, to mount a small disk");
    }
    // A mount that only the server sees, and that ends with it.
    let mounted = |folder: &str, start: &str| {
        let options = match folder.rsplit_once("host-").unwrap().1 {
            "full" => "size=1m",
            "other" => "noexec",
            _ => return start.to_owned(),
        };
        let inside = format!("mount -t tmpfs -o {options} none {folder} && {start}");
        format!("exec unshare --mount sh -c '{inside}'")
    };
    let Some(network) = Network::start_in(&["a", "full", "other"], mounted) else {
        return;
    };
    let daemon = ["--daemon", "http-daemon"];
    network.refuses("a,full", &daemon, &["full: ", "No space left on device"]);
    network.refuses(
        "a,other",
        &daemon,
        &["other: ", "Permission denied", "architecture"],
    );
}

#[test]
fn a_second_request_ends_all_parts_at_once() {
    let Some(network) = Network::start(&["a", "b"]) else {
        return;
    };
    let plan = HTTP.replace("4s", "60s").replace("5s", "60s");
    let running = Started::spawn(&mut network.drover("a,b", &plan, &["--daemon", "http-daemon"]));
    network.wait_for_load(&running);
    interrupt(&running);
    // The drain has begun; two signals at once may be one.
    std::thread::sleep(std::time::Duration::from_millis(300));
    interrupt(&running);
    ends_with(&running.end(), 3);
    network.wait_until_clean("a");
    network.wait_until_clean("b");
}
