//! The folder of one start of a daemon, and the folders that killed programs have left behind.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use load::clock;
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;

use crate::usage::stat::{self, Stat};

/// Longest path of a temporary directory: `sun_path` has 108 bytes, and 55 are added to the directory.
const LONGEST_TEMPORARY: usize = 52;

/// Creates a folder that only this user can read, and removes the folders of programs that have ended.
pub(super) fn create() -> io::Result<TempDir> {
    let usual = std::env::temp_dir();
    let directory = if usual.as_os_str().len() > LONGEST_TEMPORARY {
        PathBuf::from("/tmp")
    } else {
        usual
    };
    remove_abandoned(&directory);
    tempfile::Builder::new()
        .prefix(&own_prefix()?)
        .rand_bytes(3)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(directory)
}

/// Returns a name for a folder of this program that no other folder has.
pub(super) fn unused_name() -> io::Result<String> {
    Ok(format!("{}{:x}", own_prefix()?, clock::now()))
}

fn own_prefix() -> io::Result<String> {
    let own = stat::read(Pid::this().as_raw()).ok_or(io::ErrorKind::NotFound)?;
    Ok(prefix(&own))
}

/// Returns the beginning of the names of folders that belong to a process. No other process has the same: process ids
/// are used again, but not with the same time of start, and containers that share a folder differ in their namespace.
fn prefix(owner: &Stat) -> String {
    let (space, pid, started) = (namespace(), owner.pid, owner.started);
    format!("{space}{pid:x}-{started:x}-")
}

fn namespace() -> String {
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino());
    format!("drover-{:04x}-", namespace & 0xffff)
}

/// Removes the folders of this user whose program has ended. Its guard does so too, unless it was killed with the
/// program. A folder that cannot be removed stays.
fn remove_abandoned(directory: &Path) {
    for folder in abandoned(directory) {
        let _ = fs::remove_dir_all(folder);
    }
}

/// Returns the folders of this user whose program has ended.
pub(super) fn abandoned(directory: &Path) -> Vec<PathBuf> {
    let namespace = namespace();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let abandoned = entries.filter(|entry| {
        let name = entry.file_name();
        let is_own =
            || fs::symlink_metadata(entry.path()).is_ok_and(|it| it.uid() == geteuid().as_raw());
        is_abandoned(name.to_str().unwrap_or_default(), &namespace) && is_own()
    });
    abandoned.map(|entry| entry.path()).collect()
}

/// Returns true for the name of a folder whose process has ended.
fn is_abandoned(name: &str, namespace: &str) -> bool {
    let owner = name
        .strip_prefix(namespace)
        .and_then(|rest| rest.split('-').next());
    let Some(Ok(pid)) = owner.map(|owner| i32::from_str_radix(owner, 16)) else {
        return false;
    };
    let running = stat::read(pid).filter(|stat| !stat.is_zombie());
    !running.is_some_and(|stat| name.starts_with(&prefix(&stat)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_may_look_into_the_directory_of_a_run() {
        let directory = create().unwrap();
        let mode = directory.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_socket_path_fits_into_an_address() {
        let longest = "x".repeat(LONGEST_TEMPORARY);
        let own = Stat {
            pid: 4_194_304,
            started: u64::from(u32::MAX),
            ..Stat::default()
        };
        let path = format!("{longest}/{}abc/daemon.sock", prefix(&own));
        // With room for other names of up to 22 characters.
        assert_eq!(path.len() - "daemon.sock".len() + 22, 107, "{path}");
    }

    #[test]
    fn a_folder_is_abandoned_once_its_process_has_ended() {
        let own = stat::read(Pid::this().as_raw()).unwrap();
        let space = namespace();
        let is_abandoned = |name: &str| is_abandoned(name, &space);
        assert!(!is_abandoned(&format!("{}abc", prefix(&own))));
        let earlier = Stat {
            started: own.started - 1,
            ..own
        };
        assert!(is_abandoned(&format!("{}abc", prefix(&earlier))));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let ended = stat::read(child.id().cast_signed()).unwrap();
        child.wait().unwrap();
        assert!(is_abandoned(&format!("{}abc", prefix(&ended))));
        for other in [
            "drover-xyz",
            "drover-result-1.json",
            "drover-0000-1-1-abc",
            "x",
        ] {
            assert!(!is_abandoned(other), "{other}");
        }
        assert!(!is_abandoned(&format!("{space}run")));
    }

    #[test]
    fn only_abandoned_folders_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let own = stat::read(Pid::this().as_raw()).unwrap();
        let earlier = Stat {
            started: own.started - 1,
            ..own
        };
        let [abandoned, living, other] = [prefix(&earlier), prefix(&own), "drover-kept".to_owned()]
            .map(|name| directory.path().join(name));
        for folder in [&abandoned, &living, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("daemon.log"), "up").unwrap();
        }
        remove_abandoned(directory.path());
        assert_eq!(
            [abandoned, living, other].map(|folder| folder.exists()),
            [false, true, true]
        );
    }
}
