//! Reads what the control groups of this process, version 1 and 2, allow it.

use std::path::{Path, PathBuf};

use measure::disturbance::Throttled;

use super::{number, text};

/// The directories of the control groups of a process, each with its ancestors: the tightest limit counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ControlGroups {
    /// Version 2, where memory and CPU share one tree.
    unified: Vec<PathBuf>,
    memory: Vec<PathBuf>,
    cpu: Vec<PathBuf>,
}

impl ControlGroups {
    /// Returns the control groups of this program.
    pub(crate) fn from_this_process() -> Self {
        Self::from_process(std::process::id())
    }

    /// Returns the control groups of a process, or none if it has ended.
    #[must_use]
    pub fn from_process(pid: u32) -> Self {
        let cgroup = Path::new("/sys/fs/cgroup");
        let mut groups = Self::default();
        let lines = text(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        for line in lines.lines() {
            let fields: Vec<&str> = line.splitn(3, ':').collect();
            let [_, controllers, path] = fields[..] else {
                continue;
            };
            let below = |mount: &str| with_ancestors(&cgroup.join(mount), path);
            let has = |controller: &str| controllers.split(',').any(|name| name == controller);
            if controllers.is_empty() {
                // The version 2 tree of a machine with version 1 is mounted elsewhere.
                groups.unified = [below(""), below("unified")].concat();
            } else if has("memory") {
                groups.memory = below("memory");
            } else if has("cpu") {
                groups.cpu = below("cpu");
            }
        }
        groups
    }

    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let unified = self
            .unified
            .iter()
            .filter_map(|group| number(group.join("memory.max")));
        // Version 1 writes the greatest multiple of a page for "no limit".
        let first = self
            .memory
            .iter()
            .filter_map(|group| number(group.join("memory.limit_in_bytes")))
            .filter(|limit| *limit < 1 << 60);
        unified.chain(first).min()
    }

    pub(super) fn cpus(&self) -> Option<f64> {
        let unified = self.unified.iter().filter_map(|group| {
            let setting = text(group.join("cpu.max"))?;
            let (quota, period) = setting.split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
        });
        // A quota of -1 is no limit, and no number without a sign.
        let first = self.cpu.iter().filter_map(|group| {
            Some(
                number(group.join("cpu.cfs_quota_us"))? as f64
                    / number(group.join("cpu.cfs_period_us"))? as f64,
            )
        });
        unified.chain(first).min_by(f64::total_cmp)
    }

    /// Returns groups with these directories: of version 2, and of version 1 for both controllers.
    #[cfg(test)]
    pub(crate) fn with_directories(unified: Vec<PathBuf>, first: Vec<PathBuf>) -> Self {
        Self {
            unified,
            memory: first.clone(),
            cpu: first,
        }
    }

    /// Returns the groups of version 2, this process's own and its ancestors, whose children may have limits of all these
    /// controllers.
    pub(crate) fn unified_parents(&self, controllers: &[&str]) -> Vec<&Path> {
        let has_all = |group: &&PathBuf| {
            let enabled = text(group.join("cgroup.subtree_control")).unwrap_or_default();
            let mut controllers = controllers.iter();
            controllers.all(|name| enabled.split(' ').any(|enabled| enabled == *name))
        };
        let parents = self.unified.iter().filter(has_all);
        parents.map(PathBuf::as_path).collect()
    }

    /// Returns the group of version 1 of this process for a controller, `memory` or `cpu`. In a container it is the root of
    /// the tree, whatever its name outside.
    pub(crate) fn first_parent(&self, controller: &str) -> Option<&Path> {
        let groups = match controller {
            "memory" => &self.memory,
            _ => &self.cpu,
        };
        let mut parents = groups.iter().filter(|group| group.is_dir());
        parents.next().map(PathBuf::as_path)
    }

    /// Starts to count how often the quotas of these groups throttle what runs in them.
    #[must_use]
    pub fn quotas(&self) -> Quotas {
        let groups = self.unified.iter().chain(&self.cpu);
        let stats = groups.map(|group| group.join("cpu.stat"));
        Quotas {
            counters: stats
                .map(|stat| {
                    let before = text(&stat).and_then(|text| throttled(&text));
                    (stat, before.unwrap_or_default())
                })
                .collect(),
        }
    }
}

/// The CPU quotas of a process's control groups and of all their ancestors.
#[derive(Debug)]
pub struct Quotas {
    /// The `cpu.stat` of each group, with its counters at the start.
    counters: Vec<(PathBuf, Throttled)>,
}

impl Quotas {
    /// Returns the throttling since the start, for the group that was throttled most often; `None` if no group has a
    /// quota.
    #[must_use]
    pub fn throttled(&self) -> Option<Throttled> {
        let counters = self.counters.iter();
        let found =
            counters.filter_map(|(stat, before)| Some(throttled(&text(stat)?)?.since(*before)));
        found.max_by_key(|found| (found.throttled, found.periods))
    }
}

/// Parses the counters of a `cpu.stat`, which are nanoseconds in version 1 and microseconds in version 2. A group
/// without a quota has had no period.
fn throttled(stat: &str) -> Option<Throttled> {
    let value = |key: &str| {
        let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == key)?.1.trim().parse().ok()
    };
    let held_us = value("throttled_usec").map(|us: u64| us.saturating_mul(1_000));
    let found = Throttled {
        periods: value("nr_periods")?,
        throttled: value("nr_throttled")?,
        held_ns: value("throttled_time").or(held_us)?,
    };
    (found.periods > 0).then_some(found)
}

/// Returns the directory of a group below a mount, followed by its ancestors'.
fn with_ancestors(mount: &Path, group: &str) -> Vec<PathBuf> {
    let group = Path::new(group.trim_start_matches('/'));
    group
        .ancestors()
        .map(|ancestor| mount.join(ancestor))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_in_which_a_quota_held_a_group_are_read_of_both_versions() {
        let of = |periods, throttled, held_ns| Throttled {
            periods,
            throttled,
            held_ns,
        };
        let first = "nr_periods 40\nnr_throttled 39\nthrottled_time 3700000000\nnr_bursts 0\n";
        assert_eq!(throttled(first), Some(of(40, 39, 3_700_000_000)));
        let second = "usage_usec 5\nnr_periods 7\nnr_throttled 1\nthrottled_usec 20\n";
        assert_eq!(throttled(second), Some(of(7, 1, 20_000)));
        let without = "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n";
        assert_eq!(
            (throttled(without), throttled("usage_usec 5\n")),
            (None, None)
        );
    }

    #[test]
    fn throttling_is_counted_from_the_start_for_a_group_and_all_its_ancestors() {
        let mount = tempfile::tempdir().unwrap();
        let write = |group: &str, periods: u64, throttled: u64| {
            let folder = mount.path().join(group);
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!(
                "nr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {throttled}\n"
            );
            std::fs::write(folder.join("cpu.stat"), text).unwrap();
        };
        write("a/b", 900, 800);
        write("a", 10, 5);
        for of_version in [1, 2] {
            let groups = with_ancestors(mount.path(), "/a/b");
            let groups = match of_version {
                1 => ControlGroups {
                    cpu: groups,
                    ..ControlGroups::default()
                },
                _ => ControlGroups {
                    unified: groups,
                    ..ControlGroups::default()
                },
            };
            let quotas = groups.quotas();
            write("a/b", 910, 800);
            write("a", 20, 12);
            let of_ancestor = Throttled {
                periods: 10,
                throttled: 7,
                held_ns: 7_000,
            };
            assert_eq!(quotas.throttled(), Some(of_ancestor));
            write("a/b", 900, 800);
            write("a", 10, 5);
        }
        assert_eq!(ControlGroups::default().quotas().throttled(), None);
    }

    #[test]
    fn the_tightest_limit_of_nested_control_groups_counts() {
        let mount = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = mount.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("memory.max", "max\n");
        write("a/memory.max", "2000\n");
        write("a/b/memory.max", "3000\n");
        write("a/b/cpu.max", "150000 100000\n");
        write("v1/memory.limit_in_bytes", "9223372036854771712\n");
        write("v1/cpu.cfs_quota_us", "-1\n");
        write("v1/cpu.cfs_period_us", "100000\n");
        let unified = with_ancestors(mount.path(), "/a/b");
        let first = with_ancestors(mount.path(), "/v1");
        let groups = ControlGroups {
            unified,
            memory: first.clone(),
            cpu: first.clone(),
        };
        assert_eq!(
            (groups.memory_bytes(), groups.cpus()),
            (Some(2000), Some(1.5))
        );
        let unlimited = ControlGroups {
            unified: Vec::new(),
            memory: first.clone(),
            cpu: first,
        };
        assert_eq!((unlimited.memory_bytes(), unlimited.cpus()), (None, None));
    }
}
