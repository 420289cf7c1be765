//! Options that keep daemon and driver apart.

use clap::Args;
use load::number;
use load::plan::Invalid;
use measure::isolation::{CpuList, Isolation};
use subject::cpus;
use subject::daemon::Limits;

/// Smallest memory limit: with less, no program starts.
const LEAST_MEMORY: u64 = 1 << 20;
/// Smallest CPU limit, in cores: the kernel takes no quota below 1 ms of 100 ms.
const LEAST_CORES: f64 = 0.01;
const MOST_CORES: f64 = 1_024.0;

/// Options that keep daemon and driver apart.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Isolation")]
pub struct IsolationOptions {
    /// Keep the driver, with its threads and processes, on these CPUs, such as 0,2-3
    #[arg(long, value_name = "LIST")]
    driver_cpus: Option<CpuList>,
    /// Keep the launched daemons and their services on these CPUs, such as 4-7
    #[arg(long, value_name = "LIST")]
    daemon_cpus: Option<CpuList>,
    /// Limit the memory of each launched daemon, such as 512MiB. A control group without swap kills it above
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    daemon_memory: Option<u64>,
    /// Limit the CPU time of each launched daemon, such as 1.5. A control group throttles it above
    #[arg(long, value_name = "CORES", value_parser = cores)]
    daemon_cpu: Option<f64>,
}

impl IsolationOptions {
    /// Returns the isolation that this machine can provide. `launches` is true if the call launches a daemon.
    ///
    /// # Errors
    /// CPUs that are not there, limits for which no control group can be made, or an option about a daemon that is not
    /// launched.
    pub fn checked(&self, launches: bool) -> Result<Isolation, Invalid> {
        let of_daemon = [
            ("--daemon-cpus", self.daemon_cpus.is_some()),
            ("--daemon-memory", self.daemon_memory.is_some()),
            ("--daemon-cpu", self.daemon_cpu.is_some()),
        ];
        if let Some((option, _)) = of_daemon.iter().find(|(_, given)| *given && !launches) {
            let problem = "is only for a daemon that this call launches: drop this option, and restrict the running daemon where it was started (taskset, systemd, docker)";
            return Err(Invalid::new(*option, problem));
        }
        for (option, list) in [
            ("--driver-cpus", &self.driver_cpus),
            ("--daemon-cpus", &self.daemon_cpus),
        ] {
            if let Some(list) = list {
                cpus::require(option, list)?;
            }
        }
        let limits = Limits {
            memory_bytes: self.daemon_memory,
            cores: self.daemon_cpu,
        };
        limits.require()?;
        Ok(Isolation {
            driver_cpus: self.driver_cpus.clone(),
            daemon_cpus: self.daemon_cpus.clone(),
            daemon_memory_bytes: limits.memory_bytes,
            daemon_cores: limits.cores,
        })
    }
}

fn memory(text: &str) -> Result<u64, String> {
    match measure::threshold::bytes(text)? {
        bytes if bytes >= LEAST_MEMORY => Ok(bytes),
        _ => Err("must be at least 1MiB".to_owned()),
    }
}

fn cores(text: &str) -> Result<f64, String> {
    let cores = number::decimal(text)?;
    if (LEAST_CORES..=MOST_CORES).contains(&cores) {
        Ok(cores)
    } else {
        Err(format!("must be from {LEAST_CORES} to {MOST_CORES} cores"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness_testing::assert_contains;

    #[test]
    fn a_daemon_that_is_not_launched_has_no_limits_and_the_driver_may_have_cpus() {
        let first: CpuList = cpus::allowed().unwrap().iter().take(1).collect();
        let options = IsolationOptions {
            driver_cpus: Some(first.clone()),
            ..IsolationOptions::default()
        };
        let isolation = options.checked(false).unwrap();
        assert_eq!(isolation.driver_cpus, Some(first.clone()));
        let refused = |options: &IsolationOptions| options.checked(false).unwrap_err().to_string();
        let of_daemon = [
            (
                "--daemon-cpus",
                IsolationOptions {
                    daemon_cpus: Some(first),
                    ..options.clone()
                },
            ),
            (
                "--daemon-memory",
                IsolationOptions {
                    daemon_memory: Some(LEAST_MEMORY),
                    ..options.clone()
                },
            ),
            (
                "--daemon-cpu",
                IsolationOptions {
                    daemon_cpu: Some(1.0),
                    ..options
                },
            ),
        ];
        for (option, options) in of_daemon {
            let problem = refused(&options);
            assert_contains(&problem, &[&format!("{option}: is only for a daemon")]);
        }
    }

    #[test]
    fn limits_have_units_and_bounds() {
        assert_eq!(memory("64MiB"), Ok(64 << 20));
        assert_eq!(memory("67108864"), Ok(64 << 20));
        assert_eq!(cores("1.5"), Ok(1.5));
        for text in ["1000", "64 apples", "-5MiB"] {
            assert!(memory(text).is_err(), "{text}");
        }
        for text in ["0", "0.001", "2000", "two"] {
            assert!(cores(text).is_err(), "{text}");
        }
    }
}
