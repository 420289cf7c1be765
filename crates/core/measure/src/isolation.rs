//! CPUs and limits that keep daemon and driver apart.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units;

/// Number of CPUs that a list can name: the kernel's own limit in most distributions.
const MOST_CPUS: usize = 1_024;

/// A list of CPUs by their numbers, written as the kernel does: `0,2-3`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Returns the numbers of the CPUs, in their order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the first CPU that is not in another list.
    #[must_use]
    pub fn first_outside(&self, other: &Self) -> Option<usize> {
        self.0.difference(&other.0).next().copied()
    }

    /// Returns the CPUs of both lists.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<T: IntoIterator<Item = usize>>(cpus: T) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.trim().parse().ok()?..=last.trim().parse().ok()?;
            (range.start() <= range.end() && *range.end() < MOST_CPUS).then_some(range)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges = ranges.ok_or_else(|| {
            format!(
                "must be numbers of CPUs from 0 to {}, such as 0,2-3",
                MOST_CPUS - 1
            )
        })?;
        Ok(ranges.into_iter().flatten().collect())
    }
}

impl Display for CpuList {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        let cpus: Vec<usize> = self.iter().collect();
        for (index, range) in cpus.chunk_by(|one, next| one + 1 == *next).enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match range {
                [first, .., last] => write!(to, "{comma}{first}-{last}")?,
                _ => write!(to, "{comma}{}", range[0])?,
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> Self {
        list.to_string()
    }
}

/// The CPUs and limits that a run gave to driver and daemon. What is absent was not restricted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Isolation {
    /// CPUs of the driver, with all its threads and processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_cpus: Option<CpuList>,
    /// CPUs of the launched daemons and of their services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon_cpus: Option<CpuList>,
    /// Memory that each launched daemon could use, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon_memory_bytes: Option<u64>,
    /// CPU time that each launched daemon could use, in cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon_cores: Option<f64>,
}

impl Isolation {
    /// Returns true if nothing was restricted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the options of a command line that repeat it.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let option =
            |name: &str, value: Option<String>| value.map(|value| [format!("--{name}"), value]);
        let text = |list: &Option<CpuList>| list.as_ref().map(CpuList::to_string);
        let options = [
            option("driver-cpus", text(&self.driver_cpus)),
            option("daemon-cpus", text(&self.daemon_cpus)),
            option(
                "daemon-memory",
                self.daemon_memory_bytes.map(|bytes| bytes.to_string()),
            ),
            option(
                "daemon-cpu",
                self.daemon_cores.map(|cores| cores.to_string()),
            ),
        ];
        options.into_iter().flatten().flatten().collect()
    }

    /// Adds the isolation of another part of a run: the CPUs of all parts, and the limits of each daemon.
    pub fn add(&mut self, other: Self) {
        let both = |one: Option<CpuList>, other: Option<CpuList>| match (one, other) {
            (Some(one), Some(other)) => Some(one.with(&other)),
            (one, other) => one.or(other),
        };
        self.driver_cpus = both(self.driver_cpus.take(), other.driver_cpus);
        self.daemon_cpus = both(self.daemon_cpus.take(), other.daemon_cpus);
        self.daemon_memory_bytes = self.daemon_memory_bytes.or(other.daemon_memory_bytes);
        self.daemon_cores = self.daemon_cores.or(other.daemon_cores);
    }

    /// Returns the number of cores that `instances` daemons could use together, if that was restricted.
    pub(crate) fn daemon_allotment(&self, instances: u64) -> Option<f64> {
        let cpus = self.daemon_cpus.as_ref().map(|list| list.count() as f64);
        let quota = self.daemon_cores.map(|cores| cores * instances as f64);
        cpus.into_iter().chain(quota).reduce(f64::min)
    }

    /// Returns the CPUs that were given to both sides, if there are any.
    pub(crate) fn shared_cpus(&self) -> Option<CpuList> {
        let (driver, daemon) = (self.driver_cpus.as_ref()?, self.daemon_cpus.as_ref()?);
        let shared: BTreeSet<usize> = driver.0.intersection(&daemon.0).copied().collect();
        (!shared.is_empty()).then_some(CpuList(shared))
    }

    /// Describes it: `the driver on CPUs 0-3; the daemon on CPUs 4-7, with at most 512 MiB of memory and 1.5 cores`.
    pub(crate) fn describe(&self) -> String {
        let cpus = |list: &CpuList| match list.count() {
            1 => format!("on CPU {list}"),
            _ => format!("on CPUs {list}"),
        };
        let limits = [
            self.daemon_memory_bytes
                .map(|limit| format!("{} of memory", units::bytes(limit))),
            self.daemon_cores.map(|cores| match cores {
                1.0 => "1 core".to_owned(),
                cores => format!("{cores} cores"),
            }),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        let limits = (!limits.is_empty()).then(|| format!("with at most {}", limits.join(" and ")));
        let daemon: Vec<String> = self.daemon_cpus.iter().map(cpus).chain(limits).collect();
        let sides = [
            self.driver_cpus
                .as_ref()
                .map(|list| format!("the driver {}", cpus(list))),
            (!daemon.is_empty()).then(|| format!("the daemon {}", daemon.join(", "))),
        ];
        sides.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_is_written_as_the_kernel_does_whatever_its_order() {
        for (text, expected) in [
            ("0", "0"),
            ("0,2-3", "0,2-3"),
            ("3,2,1,7", "1-3,7"),
            ("4-6, 5-9", "4-9"),
            ("1023", "1023"),
        ] {
            assert_eq!(list(text).to_string(), expected, "{text}");
        }
        for text in ["", "a", "3-1", "1024", "0-9999999", "-1", "0,", "1-"] {
            let problem = text.parse::<CpuList>().unwrap_err();
            assert!(problem.contains("such as 0,2-3"), "{text}: {problem}");
        }
    }

    #[test]
    fn the_options_repeat_it_and_its_sentence_has_both_sides() {
        let all = Isolation {
            driver_cpus: Some(list("0")),
            daemon_cpus: Some(list("2-3")),
            daemon_memory_bytes: Some(512 << 20),
            daemon_cores: Some(1.5),
        };
        assert_eq!(
            all.options().join(" "),
            "--driver-cpus 0 --daemon-cpus 2-3 --daemon-memory 536870912 --daemon-cpu 1.5"
        );
        assert_eq!(
            all.describe(),
            "the driver on CPU 0; the daemon on CPUs 2-3, with at most 512 MiB of memory and 1.5 cores"
        );
        assert_eq!(all.daemon_allotment(1), Some(1.5));
        assert_eq!(all.daemon_allotment(2), Some(2.0));
        assert!(Isolation::default().options().is_empty() && Isolation::default().is_none());
    }

    #[test]
    fn the_parts_of_a_run_have_the_cpus_of_all_and_share_some_only_if_both_sides_are_given() {
        let mut whole = Isolation::default();
        for (driver, daemon) in [(Some("0"), None), (None, Some("2-3")), (Some("1-2"), None)] {
            whole.add(Isolation {
                driver_cpus: driver.map(list),
                daemon_cpus: daemon.map(list),
                ..Isolation::default()
            });
        }
        assert_eq!(whole.driver_cpus, Some(list("0-2")));
        assert_eq!(whole.shared_cpus(), Some(list("2")));
        whole.driver_cpus = None;
        assert_eq!(whole.shared_cpus(), None);
    }
}
