//! The programs of a divided run, as they present themselves to each other.

use std::fs;

use load::driver::Target;
use serde::{Deserialize, Serialize};

/// A launched daemon, for the shards that drive it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedDaemon {
    /// Name of the daemon.
    pub name: String,
    /// Its addresses.
    pub target: Target,
    /// The program that launched it.
    pub by: ProgramId,
}

/// A program of a divided run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramId {
    /// Name of its machine.
    pub host: String,
    /// A name of the boot of its machine and of its PID namespace: programs with the same name see the same processes.
    pub processes: String,
    /// Its process id.
    pub pid: u32,
}

impl ProgramId {
    /// Returns this program, on the machine `host`.
    pub(crate) fn this(host: &str) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            host: host.to_owned(),
            processes: format!("{} {}", boot.trim(), namespace.display()),
            pid: std::process::id(),
        }
    }
}
