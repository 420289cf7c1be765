//! A step that takes a while, such as a build, as it is reported to the user.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

/// Part of the line of cargo that waits for another cargo.
const CARGO_WAITS: &str = "Blocking waiting for file lock";

/// A step that takes a while. It is reported at its begin and once a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<'a> {
    /// The purpose: `building http-daemon`.
    pub what: &'a str,
    /// The command; absent for a wait.
    pub command: Option<&'a str>,
    /// Time since the begin.
    pub elapsed: Duration,
    /// The last line of its output, or who is waited for.
    pub detail: &'a str,
}

/// Returns the last line of an output for a report. If it is cargo that waits for a file below `target`, it names the
/// process that holds the file.
#[must_use]
pub fn last_line(output: &str, target: &Path) -> String {
    let line = output.lines().map(str::trim).rfind(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    if !line.starts_with(CARGO_WAITS) {
        return line.to_owned();
    }
    let locks = ["release/.cargo-lock", "debug/.cargo-lock"];
    let holder = locks.iter().find_map(|lock| holder(&target.join(lock)));
    holder.map_or_else(
        || line.to_owned(),
        |holder| format!("{line}, held by {holder}"),
    )
}

/// Returns the process that holds the lock of a file, with its name.
pub(super) fn holder(file: &Path) -> Option<String> {
    let inode = fs::metadata(file).ok()?.ino();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = holder_in(&locks, inode)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some(match name.trim() {
        "" => format!("pid {pid}"),
        name => format!("pid {pid} ({name})"),
    })
}

/// Finds the holder of a lock in the kernel's list: `1: FLOCK  ADVISORY  WRITE 123 08:01:456 0 EOF`. A process that
/// waits has an arrow in its line; one of another namespace has no pid.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    let inode = format!(":{inode}");
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = fields.as_slice() else {
            return None;
        };
        let pid = pid.parse().ok().filter(|pid| *pid > 0);
        file.ends_with(&inode).then_some(pid)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_and_not_those_that_wait() {
        let locks = "1: FLOCK  ADVISORY  WRITE 0 08:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 11 08:01:456 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 08:01:456 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 13 08:01:9456 0 EOF\n";
        assert_eq!(holder_in(locks, 456), Some(12));
        assert_eq!(holder_in(locks, 77), None);
        assert_eq!(holder_in(locks, 9456), None);
    }

    #[test]
    fn the_holder_of_a_file_of_cargo_is_named() {
        let target = tempfile::tempdir().unwrap();
        fs::create_dir(target.path().join("release")).unwrap();
        let lock = fs::File::create(target.path().join("release/.cargo-lock")).unwrap();
        let waits = "    Blocking waiting for file lock on build directory\n";
        let line = last_line(waits, target.path());
        assert!(line.ends_with("on build directory"), "{line}");
        lock.lock().unwrap();
        let line = last_line(waits, target.path());
        let own = format!("build directory, held by pid {}", std::process::id());
        // A kernel may hide the locks of other namespaces.
        assert!(
            line.contains(&own) || !fs::exists("/proc/locks").unwrap(),
            "{line}"
        );
    }

    #[test]
    fn the_last_line_of_an_output_is_reported() {
        let line = last_line(
            "   Compiling a v1\n   Compiling hyper v1.12.0\n\n",
            Path::new("/"),
        );
        assert_eq!(line, "Compiling hyper v1.12.0");
    }
}
