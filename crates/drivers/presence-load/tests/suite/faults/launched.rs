//! Daemons as processes: started, found, and observed in `/proc`.

use std::fs;

use harness::launcher::Launcher;
use harness_testing::daemons::prepared;
use harness_testing::metrics;
use harness_testing::processes::children;
use subject::daemon::Daemon;

/// A running process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The number after `--port`.
    pub(crate) port: u16,
}

/// Prepares a daemon. Returns false, and reports the test as skipped, if a tool that it needs is missing.
pub(crate) fn is_available(name: &str) -> bool {
    prepared(name, "presence").is_some()
}

/// Calls `act` with a `presence-daemon` that has these variables, unless a tool is missing.
pub(crate) fn with_daemon(variables: &[(&str, &str)], act: impl FnOnce(&Daemon)) {
    if let Some(prepared) = prepared("presence-daemon", "presence") {
        let launcher = Launcher::new().unwrap();
        launcher.with(&prepared, variables, act).unwrap();
    }
}

/// Returns the value of a metric of a daemon.
pub(crate) fn metric(daemon: &Daemon, name: &str) -> u64 {
    let url = daemon.endpoint().metrics.clone().unwrap();
    let address = url
        .trim_start_matches("http://")
        .trim_end_matches("/metrics");
    metrics::read(address, name)
}

/// Returns the resident memory of a process that no file backs, KiB. The pages of its program are left out: they
/// grow with the code that has run.
pub(crate) fn own_memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.parse().unwrap()
}

/// Returns the number of open descriptors of a process.
pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Returns the children of a process whose command line contains `program` and a port, in the order of their ports.
pub(crate) fn processes_of(parent: u32, program: &str) -> Vec<Process> {
    let mut found: Vec<Process> = children(parent)
        .into_iter()
        .map(i32::cast_unsigned)
        .filter_map(|pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            let words: Vec<&str> = line.split('\0').collect();
            let is_program = words.iter().any(|word| word.contains(program));
            let option = words.iter().position(|word| *word == "--port")?;
            let port = words.get(option + 1)?.parse().ok()?;
            is_program.then_some(Process { pid, port })
        })
        .collect();
    found.sort_by_key(|process| process.port);
    found
}

/// Returns the child of a process that has this name.
pub(crate) fn child_named(parent: u32, name: &str) -> Option<u32> {
    let mut pids = children(parent).into_iter().map(i32::cast_unsigned);
    pids.find(|pid| {
        let found = fs::read_to_string(format!("/proc/{pid}/comm"));
        found.is_ok_and(|found| found.trim() == name)
    })
}
