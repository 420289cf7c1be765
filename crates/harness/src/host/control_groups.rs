//! What the control groups of this process allow it, in version 1 and 2.

use std::path::{Path, PathBuf};

use super::{number, text};

/// The directories of the control groups that this process is in, each with its ancestors: the tightest limit counts.
#[derive(Debug, Default)]
pub(super) struct ControlGroups {
    /// Version 2, where memory and CPU share one tree.
    unified: Vec<PathBuf>,
    memory: Vec<PathBuf>,
    cpu: Vec<PathBuf>,
}

impl ControlGroups {
    pub(super) fn of_this_process() -> Self {
        let cgroup = Path::new("/sys/fs/cgroup");
        let mut groups = Self::default();
        for line in text("/proc/self/cgroup").unwrap_or_default().lines() {
            let Some((controllers, path)) = line
                .split_once(':')
                .and_then(|(_, rest)| rest.split_once(':'))
            else {
                continue;
            };
            match controllers {
                "" => {
                    groups.unified = with_ancestors(cgroup, path);
                    // Beside version 1, where it is mounted apart.
                    groups
                        .unified
                        .extend(with_ancestors(&cgroup.join("unified"), path));
                }
                _ if controllers.split(',').any(|name| name == "memory") => {
                    groups.memory = with_ancestors(&cgroup.join("memory"), path)
                }
                _ if controllers.split(',').any(|name| name == "cpu") => {
                    groups.cpu = with_ancestors(&cgroup.join("cpu"), path)
                }
                _ => {}
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
}

/// The directory of a group below a mount, then of each group above it.
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
