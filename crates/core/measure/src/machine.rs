//! The host as part of a result, so that figures of different machines are never mixed silently.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts about a machine and its configuration when the run started. A fact that could not be read is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Machine {
    /// Host name.
    pub hostname: String,
    /// Operating system, as `/etc/os-release` names it.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// Kernel command line.
    pub kernel_command_line: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// Processors that this process may use.
    pub cpus: u64,
    /// True if simultaneous multithreading is on.
    pub smt: Option<bool>,
    /// CPU frequency governor.
    pub governor: Option<String>,
    /// Clock source of the kernel.
    pub clocksource: Option<String>,
    /// The hypervisor, if one is detected.
    pub virtualization: Option<String>,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Transparent huge pages setting.
    pub transparent_huge_pages: Option<String>,
    /// Load average over one minute before the start.
    pub load1: Option<f64>,
    /// Soft limit of open files, after raising.
    pub nofile_soft: u64,
    /// Hard limit of open files.
    pub nofile_hard: u64,
    /// `fs.nr_open`.
    pub fs_nr_open: Option<u64>,
    /// `fs.file-max`.
    pub fs_file_max: Option<u64>,
    /// `net.core.somaxconn`.
    pub somaxconn: Option<u64>,
    /// `vm.max_map_count`.
    pub max_map_count: Option<u64>,
    /// `net.ipv4.ip_local_port_range`.
    pub port_range: Option<(u16, u16)>,
    /// Memory limit of the control group, bytes.
    pub cgroup_memory_bytes: Option<u64>,
    /// CPU quota of the control group, in CPUs.
    pub cgroup_cpus: Option<f64>,
    /// Git commit of the source tree.
    pub git_commit: Option<String>,
    /// True if the source tree had uncommitted changes.
    pub git_dirty: Option<bool>,
    /// Build profile of the driver: `release` or `debug`.
    pub build_profile: String,
    /// Version of the driver.
    pub version: String,
    /// CPU time stolen by the hypervisor during the run, in percent.
    pub steal_pct: Option<f64>,
}
