//! Daemons as processes: built once, found, and observed in `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{LazyLock, Mutex};

use harness::launcher::Launcher;
use harness_testing::page;
use harness_testing::skip;
use subject::daemon::{Daemon, DaemonError, Prepared};
use subject::manifest;

/// A running process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The number after `--port`.
    pub(crate) port: u16,
}

/// Builds a daemon. Returns false, and reports the test as skipped, if a tool that it needs is missing.
pub(crate) fn is_available(name: &str) -> bool {
    // Tests run at the same time, and one build at a time is enough.
    static MISSING: LazyLock<Mutex<BTreeMap<String, Option<String>>>> =
        LazyLock::new(Mutex::default);
    let mut missing = MISSING.lock().unwrap();
    let known = missing
        .entry(name.to_owned())
        .or_insert_with(|| match prepare(name) {
            Ok(_) => None,
            Err(DaemonError::ToolMissing { tool, .. }) => Some(tool.to_string()),
            Err(error) => panic!("{error}"),
        });
    let known = known.clone();
    drop(missing);
    if let Some(tool) = &known {
        skip(format_args!("{tool}, for {name}"));
    }
    known.is_none()
}

fn prepare(name: &str) -> Result<Prepared, DaemonError> {
    let root = manifest::find_root().unwrap();
    Daemon::prepare(&root, name, "presence", &mut |_| {})
}

/// Calls `act` with a `presence-daemon` that has these variables, unless a tool is missing.
pub(crate) fn with_daemon(variables: &[(&str, &str)], act: impl FnOnce(&Daemon)) {
    if is_available("presence-daemon") {
        let launcher = Launcher::new().unwrap();
        let prepared = prepare("presence-daemon").unwrap();
        launcher.with(&prepared, variables, act).unwrap();
    }
}

/// Returns the value of a metric of a daemon.
pub(crate) fn metric(daemon: &Daemon, name: &str) -> u64 {
    let url = daemon.endpoint().metrics.clone().unwrap();
    let address = url
        .trim_start_matches("http://")
        .trim_end_matches("/metrics");
    let page = page::get(address).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {page}"))
        .trim()
        .parse()
        .unwrap()
}

/// Returns the resident memory of a process, KiB.
pub(crate) fn rss_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
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
    children(parent).into_iter().find(|pid| {
        let found = fs::read_to_string(format!("/proc/{pid}/comm"));
        found.is_ok_and(|found| found.trim() == name)
    })
}

/// Returns the children of all threads of a process.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain spaces.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}
