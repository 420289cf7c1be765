//! Reads the machine's hardware and settings from `/proc`, `/sys` and git. Facts that cannot be read are left out.

use std::path::Path;
use std::process::{Command, Stdio};

use measure::machine::Machine;

use crate::manifest;
use crate::usage::stat;
use load::limits;

mod control_groups;

pub use control_groups::{ControlGroups, Quotas};

/// Returns the facts of this machine, of the source tree and of this build. `steal_pct` is known only after a run:
/// [`StealTime`].
#[must_use]
pub fn machine() -> Machine {
    let limits = limits::nofile().ok();
    let groups = ControlGroups::from_this_process();
    let root = manifest::find_root().ok();
    let revision = root
        .as_ref()
        .and_then(|root| Revision::parse(&git_status(&root.nearest().path)?));
    Machine {
        hostname: hostname(),
        os: os_name(&text("/etc/os-release").unwrap_or_default()),
        kernel: text("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
        kernel_command_line: text("/proc/cmdline"),
        cpu_model: cpu_model(&text("/proc/cpuinfo").unwrap_or_default()),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
        smt: number("/sys/devices/system/cpu/smt/active").map(|active| active == 1),
        governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clocksource: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        virtualization: virtualization(),
        memory_bytes: stat::meminfo_bytes("MemTotal"),
        transparent_huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|setting| bracketed_choice(&setting)),
        load1: text("/proc/loadavg").and_then(|load| load.split(' ').next()?.parse().ok()),
        nofile_soft: limits.map_or(0, |limits| limits.soft),
        nofile_hard: limits.map_or(0, |limits| limits.hard),
        fs_nr_open: number("/proc/sys/fs/nr_open"),
        fs_file_max: number("/proc/sys/fs/file-max"),
        somaxconn: number("/proc/sys/net/core/somaxconn"),
        max_map_count: number("/proc/sys/vm/max_map_count"),
        port_range: text("/proc/sys/net/ipv4/ip_local_port_range")
            .and_then(|setting| port_range(&setting)),
        cgroup_memory_bytes: groups.memory_bytes(),
        cgroup_cpus: groups.cpus(),
        git_dirty: revision.as_ref().map(|revision| revision.is_dirty),
        git_commit: revision.map(|revision| revision.commit),
        build_profile: if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        }
        .to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        steal_pct: None,
    }
}

/// Returns the name of this machine.
#[must_use]
pub fn hostname() -> String {
    text("/proc/sys/kernel/hostname").unwrap_or_else(|| "unknown".to_owned())
}

/// The revision of a source tree.
#[derive(Debug, PartialEq, Eq)]
struct Revision {
    commit: String,
    /// True if files differ from the commit.
    is_dirty: bool,
}

impl Revision {
    /// Parses the output of `git status --porcelain=v2 --branch`; `None` without a commit.
    fn parse(status: &str) -> Option<Self> {
        let mut lines = status.lines();
        let commit = lines.find_map(|line| line.strip_prefix("# branch.oid "))?;
        (commit != "(initial)").then(|| Self {
            commit: commit.to_owned(),
            is_dirty: lines.any(|line| !line.starts_with('#')),
        })
    }
}

/// CPU time that the hypervisor gave to other guests since a start.
#[derive(Debug, Clone, Copy)]
pub struct StealTime {
    began: Option<(u64, u64)>,
}

impl StealTime {
    /// Starts counting now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            began: stolen_and_total(),
        }
    }

    /// Returns the stolen time since the start, in percent of the time of all processors. It is absent if the kernel
    /// does not report it, or before a clock tick has passed.
    #[must_use]
    pub fn pct(&self) -> Option<f64> {
        let (stolen_before, total_before) = self.began?;
        let (stolen, total) = stolen_and_total()?;
        let passed = total
            .checked_sub(total_before)
            .filter(|passed| *passed > 0)?;
        Some(100.0 * stolen.saturating_sub(stolen_before) as f64 / passed as f64)
    }
}

fn stolen_and_total() -> Option<(u64, u64)> {
    cpu_times(&text("/proc/stat")?)
}

/// Reads the stolen and the total time from the first line of `/proc/stat`: user, nice, system, idle, iowait, irq,
/// softirq, steal. Guest time is part of user time.
fn cpu_times(stat: &str) -> Option<(u64, u64)> {
    let fields = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_ascii_whitespace();
    let times: Vec<u64> = fields
        .take(8)
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    Some((*times.get(7)?, times.iter().sum()))
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.parse().ok()
}

fn os_name(os_release: &str) -> Option<String> {
    let name = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// Returns the processor's model. x86 has a `model name`; ARM has only numbers, and the part says most.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        let line = cpuinfo.lines().find(|line| {
            line.split(':')
                .next()
                .is_some_and(|name| name.trim() == key)
        })?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    value("model name")
        .or_else(|| value("Model"))
        .or_else(|| value("CPU part").map(|part| format!("CPU part {part}")))
}

/// Returns the bracketed word of a setting such as `always [madvise] never`.
fn bracketed_choice(setting: &str) -> Option<String> {
    let (_, rest) = setting.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn port_range(setting: &str) -> Option<(u16, u16)> {
    let (low, high) = setting.split_once(|c: char| c.is_ascii_whitespace())?;
    Some((low.parse().ok()?, high.trim().parse().ok()?))
}

/// Returns the kind of virtualization. The processor shows that there is a hypervisor; the firmware, if there is one,
/// shows which.
fn virtualization() -> Option<String> {
    let cpuinfo = text("/proc/cpuinfo")?;
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    let mut flags = flags.split_ascii_whitespace();
    flags.find(|flag| *flag == "hypervisor")?;
    let names = [
        "/sys/hypervisor/type",
        "/sys/class/dmi/id/sys_vendor",
        "/sys/class/dmi/id/product_name",
    ];
    let name = names.iter().find_map(text);
    Some(name.unwrap_or_else(|| "hypervisor".to_owned()))
}

/// Returns the standard output of git in a directory, or `None` without git or without a repository.
/// Asks git for the commit and the changes of a source tree, in one process: each costs as much CPU time as seconds of
/// sampling.
fn git_status(directory: &Path) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["status", "--porcelain=v2", "--branch"])
        .args(["--no-ahead-behind", "--untracked-files=no"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_has_its_commit_and_whether_files_differ() {
        let clean = "# branch.oid 0a1b\n# branch.head main\n";
        let revision = |is_dirty| Revision {
            commit: "0a1b".to_owned(),
            is_dirty,
        };
        assert_eq!(Revision::parse(clean), Some(revision(false)));
        let dirty = format!("{clean}1 .M N... 100644 100644 100644 0a 0b file\n");
        assert_eq!(Revision::parse(&dirty), Some(revision(true)));
        assert_eq!(Revision::parse("# branch.oid (initial)\n"), None);
        assert_eq!(Revision::parse(""), None);
    }

    #[test]
    fn facts_that_every_linux_has_are_read() {
        let machine = machine();
        assert!(
            !machine.hostname.is_empty()
                && machine.kernel.starts_with(|c: char| c.is_ascii_digit()),
            "{machine:?}"
        );
        assert!(
            machine.cpus >= 1 && machine.memory_bytes > 100 << 20,
            "{machine:?}"
        );
        assert!(
            machine.nofile_hard >= machine.nofile_soft && machine.nofile_soft > 0,
            "{machine:?}"
        );
        assert!(
            machine.load1.is_some() && machine.fs_nr_open.is_some(),
            "{machine:?}"
        );
        assert_eq!(
            machine.build_profile,
            if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            }
        );
    }

    #[test]
    fn settings_are_parsed_as_the_kernel_writes_them() {
        assert_eq!(
            bracketed_choice("always [madvise] never").as_deref(),
            Some("madvise")
        );
        assert_eq!(bracketed_choice("nonsense"), None);
        assert_eq!(port_range("32768\t60999"), Some((32768, 60999)));
        assert_eq!(
            os_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n").as_deref(),
            Some("Debian GNU/Linux 12")
        );
        assert_eq!(
            cpu_model("processor\t: 0\nmodel\t\t: 1\nmodel name\t: A CPU: fast\n").as_deref(),
            Some("A CPU: fast")
        );
        assert_eq!(
            cpu_times("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n"),
            Some((8, 36))
        );
        assert_eq!(cpu_times("cpu  1 2 3\n"), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_the_time_of_all_processors() {
        let steal = StealTime {
            began: Some((0, 0)),
        };
        assert!((0.0..=100.0).contains(&steal.pct().unwrap()));
    }
}
