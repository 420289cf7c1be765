//! The CPUs and the limits of a daemon, which its first process takes before it becomes the daemon's program.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use load::plan::Invalid;
use measure::units;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::{scratch, tool};
use crate::host::ControlGroups;

/// Period of a CPU quota, microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// Time that the last processes of a group have to end, once they were killed.
const REMOVE_LIMIT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The limit that has killed a daemon, in its exit status.
pub(super) const MEMORY_LIMIT: &str = "its memory limit";
/// The way to control groups for a user who may not make them.
const REMEDY: &str = "run it as root on a machine with control groups, or below a service manager that lets you make them: systemd-run --user --scope drover …; or leave the option out";

/// Limits of one daemon with all its processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Memory, bytes; it cannot be swapped out.
    pub memory_bytes: Option<u64>,
    /// CPU time, in cores.
    pub cores: Option<f64>,
}

impl Limits {
    /// Checks that control groups with these limits can be made here.
    ///
    /// # Errors
    /// The reason why not, and the remedy.
    pub fn require(self) -> Result<(), Invalid> {
        let made = ControlGroup::create(self, &ControlGroups::from_this_process());
        made.map(drop).map_err(|reason| {
            let options = [
                self.memory_bytes.map(|_| "--daemon-memory"),
                self.cores.map(|_| "--daemon-cpu"),
            ];
            let options: Vec<&str> = options.into_iter().flatten().collect();
            let problem =
                format!("needs a control group, and none can be made: {reason}\n  {REMEDY}");
            Invalid::new(options.join(", "), problem)
        })
    }

    fn controllers(self) -> Vec<&'static str> {
        let memory = self.memory_bytes.map(|_| "memory");
        memory
            .into_iter()
            .chain(self.cores.map(|_| "cpu"))
            .collect()
    }

    /// Returns the settings of a controller, each a file and its text, for a version of control groups.
    fn settings(self, version: Version, controller: &str) -> Vec<(&'static str, String)> {
        let memory = self.memory_bytes.unwrap_or_default().to_string();
        let quota = (self.cores.unwrap_or_default() * PERIOD_US as f64).round();
        match (version, controller) {
            (Version::Second, "memory") => {
                vec![("memory.max", memory), ("memory.swap.max", "0".to_owned())]
            }
            (Version::Second, _) => vec![("cpu.max", format!("{quota} {PERIOD_US}"))],
            (Version::First, "memory") => vec![
                ("memory.limit_in_bytes", memory.clone()),
                ("memory.memsw.limit_in_bytes", memory),
            ],
            (Version::First, _) => vec![
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
            ],
        }
    }
}

/// A version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// Each controller has a tree of its own.
    First,
    /// All controllers share a tree.
    Second,
}

/// The control group of one daemon: one directory, or one for each controller. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct ControlGroup {
    directories: Vec<Directory>,
    /// The memory limit, bytes.
    memory_bytes: Option<u64>,
}

impl ControlGroup {
    /// Creates a group if there are limits, and removes the groups of programs that have ended.
    ///
    /// # Errors
    /// The reason why it cannot be made.
    pub(super) fn create(limits: Limits, groups: &ControlGroups) -> Result<Option<Self>, String> {
        if limits == Limits::default() {
            return Ok(None);
        }
        let name = &scratch::unused_name().map_err(|error| error.to_string())?;
        let controllers = limits.controllers();
        let unified = groups.unified_parents(&controllers);
        let made = Directory::below_one(&unified, name, limits, Version::Second, &controllers);
        let directories = match made {
            Ok(directory) => vec![directory],
            Err(of_second) => {
                let each = controllers.iter().map(|controller| {
                    // Not below an ancestor, whose children would escape the limits of this program's own group.
                    let parent = groups.first_parent(controller);
                    Directory::below_one(parent.as_slice(), name, limits, Version::First, &[controller])
                        .map_err(|problem| {
                            let problem = problem.or(of_second.clone());
                            problem.unwrap_or_else(|| {
                                format!("no control group above this program lets its children have limits of `{controller}` (cgroup.subtree_control)")
                            })
                        })
                });
                each.collect::<Result<_, _>>()?
            }
        };
        Ok(Some(Self {
            directories,
            memory_bytes: limits.memory_bytes,
        }))
    }

    /// Returns its limit of memory, and the number of processes that it has killed.
    pub(super) fn memory_kills(&self) -> Option<(u64, u64)> {
        let limit = self.memory_bytes?;
        let kills = |directory: &Directory| -> Option<u64> {
            // Both versions count under the same name.
            let files = ["memory.events", "memory.oom_control"];
            let text = files.map(|file| fs::read_to_string(directory.path.join(file)).ok());
            let text = text.into_iter().flatten().next()?;
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
        };
        Some((limit, self.directories.iter().filter_map(kills).sum()))
    }
}

/// A directory of a control group, removed when this is dropped.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// A process that writes 0 to it joins the group.
    members: Arc<File>,
}

impl Directory {
    /// Creates a group with settings below the first parent that allows it.
    ///
    /// # Errors
    /// The problem with the first parent; absent if there is no parent.
    fn below_one(
        parents: &[&Path],
        name: &str,
        limits: Limits,
        version: Version,
        controllers: &[&str],
    ) -> Result<Self, Option<String>> {
        let settings = controllers
            .iter()
            .flat_map(|controller| limits.settings(version, controller));
        let settings: Vec<_> = settings.collect();
        let mut problem = None;
        for parent in parents {
            match Self::below(parent, name, &settings) {
                Ok(directory) => return Ok(directory),
                Err(error) => {
                    problem.get_or_insert(format!("{}: {error}", parent.display()));
                }
            }
        }
        Err(problem)
    }

    fn below(parent: &Path, name: &str, settings: &[(&str, String)]) -> io::Result<Self> {
        for abandoned in scratch::abandoned(parent) {
            // A group with processes cannot be removed, and stays.
            let _ = fs::remove_dir(abandoned);
        }
        let open = |path: PathBuf| OpenOptions::new().write(true).open(path);
        // Whoever moves a process down must be allowed to write here too.
        open(parent.join("cgroup.procs"))?;
        let path = parent.join(name);
        fs::create_dir(&path)?;
        let members = open(path.join("cgroup.procs")).inspect_err(|_| {
            let _ = fs::remove_dir(&path);
        });
        let directory = Self {
            members: Arc::new(members?),
            path,
        };
        for (file, text) in settings {
            let set =
                open(directory.path.join(file)).and_then(|mut it| it.write_all(text.as_bytes()));
            match set {
                // Some kernels do not count swapped-out memory.
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_of_swap(file) => {}
                set => set.map_err(|error| {
                    io::Error::new(error.kind(), format!("writing {text} to {file}: {error}"))
                })?,
            }
        }
        Ok(directory)
    }
}

fn is_of_swap(file: &str) -> bool {
    file.contains("swap") || file.contains("memsw")
}

impl Drop for Directory {
    fn drop(&mut self) {
        let mut waited = Duration::ZERO;
        // Processes that were killed stay in the group until they have ended.
        while fs::remove_dir(&self.path).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
            && waited < REMOVE_LIMIT
        {
            thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
    }
}

/// The CPUs of a daemon, and its control group if it has one, for its first process.
#[derive(Debug)]
pub(super) struct Allotment {
    cpus: CpuSet,
    groups: Vec<Arc<File>>,
}

impl Allotment {
    pub(super) fn new(cpus: CpuSet, group: Option<&ControlGroup>) -> Self {
        let directories = group.into_iter().flat_map(|group| &group.directories);
        let groups = directories.map(|directory| Arc::clone(&directory.members));
        Self {
            cpus,
            groups: groups.collect(),
        }
    }

    /// Restricts the calling process, and all that it will start. May be called between fork and exec.
    pub(super) fn take(&self) -> io::Result<()> {
        for group in &self.groups {
            (&**group).write_all(b"0")?;
        }
        sched_setaffinity(Pid::from_raw(0), &self.cpus)?;
        Ok(())
    }
}

/// Says how a daemon ended whose memory limit, in bytes, has killed a process of it.
pub(super) fn killed_by_limit(status: &str, limit: u64) -> String {
    let limit = units::bytes(limit);
    if status == tool::killed(Signal::SIGKILL as i32) {
        format!("was killed by {MEMORY_LIMIT} of {limit}")
    } else {
        format!("{status} after a process of it was killed by {MEMORY_LIMIT} of {limit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Limits = Limits {
        memory_bytes: Some(64 << 20),
        cores: Some(1.5),
    };

    #[test]
    fn each_version_has_its_own_files_and_units() {
        let of = |version, controller| {
            let settings = BOTH.settings(version, controller).into_iter();
            let lines = settings.map(|(file, text)| format!("{file}={text}"));
            lines.collect::<Vec<_>>().join("; ")
        };
        let [first, second] = [Version::First, Version::Second]
            .map(|version| ["memory", "cpu"].map(|controller| of(version, controller)));
        assert_eq!(
            first,
            [
                "memory.limit_in_bytes=67108864; memory.memsw.limit_in_bytes=67108864",
                "cpu.cfs_period_us=100000; cpu.cfs_quota_us=150000"
            ]
        );
        assert_eq!(
            second,
            [
                "memory.max=67108864; memory.swap.max=0",
                "cpu.max=150000 100000"
            ]
        );
    }

    #[test]
    fn without_a_group_that_can_be_written_the_reason_is_named_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let make = |version: &str, files: &[(&str, &str)]| {
            let group = folder.path().join(version);
            fs::create_dir(&group).unwrap();
            for (file, text) in files {
                fs::write(group.join(file), text).unwrap();
            }
            group
        };
        let unfit = make("unfit", &[("cgroup.subtree_control", "pids\n")]);
        let second = make(
            "second",
            &[
                ("cgroup.subtree_control", "cpu memory pids\n"),
                ("cgroup.procs", ""),
            ],
        );
        let first = make("first", &[("cgroup.procs", "")]);
        let problem = |unified: &[&PathBuf], first: &[&PathBuf]| {
            let [unified, first] =
                [unified, first].map(|groups| groups.iter().copied().cloned().collect());
            let groups = ControlGroups::with_directories(unified, first);
            ControlGroup::create(BOTH, &groups).unwrap_err()
        };
        let nowhere = problem(&[&unfit], &[]);
        assert!(nowhere.contains("limits of `memory`"), "{nowhere}");
        // In a folder that is no control group, the kernel makes no files.
        for (unified, of_first, named) in [
            (&[&unfit, &second][..], &[][..], &second),
            (&[], &[&first], &first),
        ] {
            let problem = problem(unified, of_first);
            let expected = format!("{}: No such file", named.display());
            assert!(problem.starts_with(&expected), "{problem}");
            let left = fs::read_dir(named).unwrap().flatten();
            let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }

    #[test]
    fn an_exit_names_the_limit_that_killed_the_daemon_or_a_part_of_it() {
        let killed = killed_by_limit(&tool::killed(Signal::SIGKILL as i32), 64 << 20);
        assert_eq!(killed, "was killed by its memory limit of 64.0 MiB");
        let exited = killed_by_limit(&tool::exited(3), 64 << 20);
        assert_eq!(
            exited,
            "exited with status 3 after a process of it was killed by its memory limit of 64.0 MiB"
        );
    }
}
