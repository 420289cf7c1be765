//! `drover doctor`: reports problems of this machine for the plans, each with a fix.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use load::limits;
use measure::machine::Machine;
use measure::units;
use serde::{Deserialize, Serialize};
use subject::daemon::Daemon;
use subject::host;
use subject::manifest::Roots;

use crate::project::Project;

mod calibrated;
mod needs;
mod noise;
mod split;

pub(crate) use calibrated::calibrated;
pub(crate) use needs::Needs;
pub(crate) use split::split;

/// Kernel memory of a pair of connected sockets, and the memory that the most expensive kind of daemon keeps for a
/// stream. Neither was measured on this machine: they are estimates that show whether a plan is worth trying.
const KERNEL_BYTES: u64 = 7 << 10;
const DAEMON_BYTES: u64 = 15 << 10;
/// Memory mappings of a coroutine with its own stack, such as a PHP fiber.
const MAPPINGS_OF_A_FIBER: u64 = 2;
/// Other memory mappings of a process.
const OWN_MAPPINGS: u64 = 1_000;
/// Shortest accept queue without a finding. It is the kernel's own default since 5.4; a shorter queue overflows in any
/// burst.
const SHORTEST_QUEUE: u64 = 4_096;
/// Upper bound of the results, logs and reports of the largest suite.
const DISK_BYTES: u64 = 512 << 20;
/// Number of addresses that TCP clients are spread over, each with its own ports.
const LOOPBACK_ADDRESSES: u64 = 16;
/// Swapped-out memory above which the machine is short of memory.
const SWAP_BYTES: u64 = 64 << 20;

/// A property of the machine that is unsuitable for a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// The problem, and the required state.
    pub(crate) what: String,
    /// The fix: a command, or another remedy.
    pub(crate) fix: String,
}

impl Finding {
    pub(crate) fn new(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            fix: fix.into(),
        }
    }
}

/// Checks the machine for these plans, or for all; returns the problems.
///
/// # Errors
/// A plan that can't be read.
pub(crate) fn check(plans: &[PathBuf], out: &Path) -> anyhow::Result<Vec<Finding>> {
    let project = Project::find()?;
    let plans: Vec<PathBuf> = match plans {
        [] => project.plans().into_values().collect(),
        named => named
            .iter()
            .map(|plan| project.find_plan(plan))
            .collect::<anyhow::Result<_>>()?,
    };
    let needs = plans
        .iter()
        .map(|plan| Needs::from_plan(plan))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let machine = host::machine();
    let mut found = of_daemons(&project.root, &needs, &machine);
    found.extend(ports(&needs, &machine));
    found.extend(processors(&machine));
    found.extend(disk(out));
    found.extend(swap(&meminfo()));
    found.extend(noise::check(&machine));
    Ok(found)
}

/// Returns what a host of a run on several machines lacks for the daemons that it launches and the shards that it drives.
/// The needs of a shard are its share of the load. What disturbs a measurement is not looked for: the results say it.
pub(crate) fn check_host(
    root: &Roots,
    daemons: &[Needs],
    shards: &[Needs],
    machine: &Machine,
) -> Vec<Finding> {
    let mut found = of_daemons(root, daemons, machine);
    found.extend(open_files(
        shards,
        "one shard with its share of the clients",
    ));
    found.extend(ports(shards, machine));
    found.extend(disk(Path::new(".")));
    found
}

fn of_daemons(root: &Roots, needs: &[Needs], machine: &Machine) -> Vec<Finding> {
    let mut found = tools(root, needs);
    found.extend(open_files(
        needs,
        "one daemon with its share of the streams",
    ));
    found.extend(accept_queue(needs, machine));
    found.extend(mappings(root, needs, machine));
    found.extend(memory(needs, machine, &meminfo()));
    found
}

fn tools(root: &Roots, needs: &[Needs]) -> Vec<Finding> {
    let daemons: BTreeSet<&String> = needs.iter().flat_map(|need| &need.daemons).collect();
    let missing = daemons.into_iter().filter_map(|daemon| {
        let error = Daemon::check_tools(root, daemon).err()?;
        let problem = error.to_string();
        let parts = problem.split_once('\n');
        let (what, fix) = parts.unwrap_or((&problem, "correct its daemon.toml"));
        Some(Finding::new(what, fix))
    });
    missing.collect()
}

/// Returns the plan with the greatest need, and that need.
fn most(needs: &[Needs], of: impl Fn(&Needs) -> u64) -> Option<(&Needs, u64)> {
    let each = needs.iter().map(|need| (need, of(need)));
    each.max_by_key(|(_, amount)| *amount)
        .filter(|(_, amount)| *amount > 0)
}

fn open_files(needs: &[Needs], by: &str) -> Option<Finding> {
    let (plan, files) = most(needs, Needs::open_files)?;
    let what = format!("{}: {by}", plan.name);
    let error = limits::require_nofile(&what, files).err()?;
    let text = error.to_string();
    let (what, fix) = text.split_once('\n').unwrap_or((&text, ""));
    Some(Finding::new(what, fix))
}

fn accept_queue(needs: &[Needs], machine: &Machine) -> Option<Finding> {
    let (plan, burst) = most(needs, |need| need.burst)?;
    let queue = machine.somaxconn?;
    (queue < burst.min(SHORTEST_QUEUE)).then(|| {
        let what = format!(
            "{}: {} clients arrive at once, but an accept queue holds {queue} (net.core.somaxconn)",
            plan.name,
            units::count(burst)
        );
        Finding::new(
            what,
            format!("sysctl -w net.core.somaxconn={SHORTEST_QUEUE}"),
        )
    })
}

/// Checks the memory mappings of PHP fibers. A daemon has fibers if it needs the tool `php`.
fn mappings(root: &Roots, needs: &[Needs], machine: &Machine) -> Option<Finding> {
    let with_fibers = |need: &Needs| {
        if need.uses(root, "php") {
            need.share
        } else {
            0
        }
    };
    let (plan, streams) = most(needs, with_fibers)?;
    let need = streams * MAPPINGS_OF_A_FIBER + OWN_MAPPINGS;
    let limit = machine.max_map_count.filter(|limit| *limit < need)?;
    let what = format!(
        "{}: {} fibers in one process need {} memory mappings, but a process may have {} (vm.max_map_count)",
        plan.name,
        units::count(streams),
        units::count(need),
        units::count(limit)
    );
    Some(Finding::new(
        what,
        format!("sysctl -w vm.max_map_count={need}"),
    ))
}

fn ports(needs: &[Needs], machine: &Machine) -> Option<Finding> {
    let (plan, clients) = most(needs, |need| need.tcp_clients)?;
    let (from, to) = machine
        .port_range
        .map(|range| (u64::from(range.0), u64::from(range.1)))?;
    let there = (to + 1).saturating_sub(from) * LOOPBACK_ADDRESSES;
    (there < clients).then(|| {
        let what = format!(
            "{}: {} TCP clients need a port each, but {LOOPBACK_ADDRESSES} loopback addresses have {} (net.ipv4.ip_local_port_range)",
            plan.name,
            units::count(clients),
            units::count(there)
        );
        Finding::new(what, "sysctl -w net.ipv4.ip_local_port_range='1024 65535'")
    })
}

fn memory(needs: &[Needs], machine: &Machine, meminfo: &str) -> Option<Finding> {
    let (plan, streams) = most(needs, |need| need.streams)?;
    let need = streams * (KERNEL_BYTES + DAEMON_BYTES);
    let free = meminfo_value(meminfo, "MemAvailable:")?;
    let there = machine
        .cgroup_memory_bytes
        .map_or(free, |limit| limit.min(free));
    (there < need).then(|| {
        let what = format!(
            "{}: {} streams need about {}, but {} are available",
            plan.name,
            units::count(streams),
            units::bytes(need),
            units::bytes(there)
        );
        Finding::new(
            what,
            "leave out the highest levels (--level), or stop other processes that hold memory",
        )
    })
}

fn processors(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(governor) = machine
        .governor
        .as_deref()
        .filter(|it| *it != "performance")
    {
        let what =
            format!("the CPU governor is `{governor}`: the clock speed changes with the load");
        let fix = "for cpu in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > $cpu; done";
        found.push(Finding::new(what, fix));
    }
    if let Some(cpus) = machine
        .cgroup_cpus
        .filter(|cpus| *cpus < machine.cpus as f64)
    {
        let what = format!(
            "the control group grants {cpus} of {} processors, and throttles processes that use more",
            machine.cpus
        );
        found.push(Finding::new(
            what,
            "run it outside of the container, or raise its CPU limit",
        ));
    }
    found
}

fn disk(out: &Path) -> Option<Finding> {
    let path = std::path::absolute(out).ok()?;
    let there = path.ancestors().find(|path| path.exists())?;
    let system = nix::sys::statvfs::statvfs(there).ok()?;
    let free = system.blocks_available() * system.fragment_size();
    (free < DISK_BYTES).then(|| {
        let what = format!(
            "{} has only {} left for results",
            there.display(),
            units::bytes(free)
        );
        Finding::new(
            what,
            format!(
                "du -xh --max-depth=2 {} | sort -h | tail   # shows large folders; or name another folder with --out",
                there.display()
            ),
        )
    })
}

fn swap(meminfo: &str) -> Option<Finding> {
    let used =
        meminfo_value(meminfo, "SwapTotal:")?.checked_sub(meminfo_value(meminfo, "SwapFree:")?)?;
    (used > SWAP_BYTES).then(|| {
        let what = format!(
            "{} are swapped out: access to swapped memory is slow",
            units::bytes(used)
        );
        Finding::new(what, "swapoff -a && swapon -a")
    })
}

fn meminfo() -> String {
    std::fs::read_to_string("/proc/meminfo").unwrap_or_default()
}

/// Returns a value of `/proc/meminfo` in bytes, such as `MemAvailable:   20000000 kB`.
fn meminfo_value(meminfo: &str, key: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(streams: u64) -> Needs {
        Needs {
            name: "p".to_owned(),
            daemons: Vec::new(),
            streams,
            share: streams,
            burst: streams,
            tcp_clients: streams,
        }
    }

    #[test]
    fn a_need_above_a_limit_is_named_with_both_and_the_command() {
        let machine = Machine {
            somaxconn: Some(128),
            port_range: Some((32768, 60999)),
            governor: Some("powersave".to_owned()),
            cgroup_cpus: Some(0.5),
            cpus: 2,
            ..Machine::default()
        };
        let queue = accept_queue(&[need(10), need(9000)], &machine).unwrap();
        assert!(queue.what.contains("9,000 clients arrive at once") && queue.what.contains("128"));
        assert_eq!(queue.fix, "sysctl -w net.core.somaxconn=4096");
        assert_eq!(accept_queue(&[need(128)], &machine), None);
        let ports_lacking = ports(&[need(452_000)], &machine).unwrap();
        assert!(
            ports_lacking.what.contains("addresses have 451,712"),
            "{}",
            ports_lacking.what
        );
        assert_eq!(ports(&[need(16 * 28_232)], &machine), None);
        assert_eq!(processors(&machine).len(), 2);
        let files = open_files(&[need(5_000_000)], "one daemon").unwrap();
        assert!(files.what.contains("5000100") && files.fix.contains("ulimit -Hn 5000100"));
    }

    #[test]
    fn memory_and_swap_are_read_in_the_kernel_s_unit() {
        let meminfo =
            "MemTotal: 100 kB\nMemAvailable:  2048 kB\nSwapTotal: 200000 kB\nSwapFree: 100000 kB\n";
        assert_eq!(meminfo_value(meminfo, "MemAvailable:"), Some(2 << 20));
        let lacking = memory(&[need(100)], &Machine::default(), meminfo).unwrap();
        assert!(
            lacking.what.contains("2.00 MiB are available"),
            "{}",
            lacking.what
        );
        assert_eq!(memory(&[need(90)], &Machine::default(), meminfo), None);
        assert!(swap(meminfo).is_some());
        assert_eq!(swap("SwapTotal: 0 kB\nSwapFree: 0 kB\n"), None);
    }
}
