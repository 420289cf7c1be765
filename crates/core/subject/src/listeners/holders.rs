//! Reads what processes hold open, and their names, from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};

use load::plan::Invalid;
use load::redact;
use nix::fcntl::readlinkat;

use crate::usage::stat::{Stat, status_value};

/// Longest command line that is kept, characters.
const LONGEST_COMMAND: usize = 120;

/// Returns which of these processes hold each of these sockets open, of those whose files this user may look at.
pub(super) fn find(
    inodes: &BTreeSet<u64>,
    processes: impl Iterator<Item = u32>,
) -> BTreeMap<u64, BTreeSet<u32>> {
    let mut holders: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    if inodes.is_empty() {
        return holders;
    }
    for pid in processes {
        let path = format!("/proc/{pid}/fd");
        let (Ok(folder), Ok(names)) = (File::open(&path), fs::read_dir(&path)) else {
            continue;
        };
        for descriptor in names.flatten() {
            if let Some(inode) = socket_inode(&folder, &descriptor.file_name())
                && inodes.contains(&inode)
            {
                holders.entry(inode).or_default().insert(pid);
            }
        }
    }
    holders
}

/// Returns the inode in a link such as `socket:[1234]`. `folder` is the link's: resolving its whole path would take
/// twice the time, and a machine has thousands of open files.
fn socket_inode(folder: &File, descriptor: &OsStr) -> Option<u64> {
    let link = readlinkat(folder, descriptor).ok()?;
    let inode = link.to_str()?.strip_prefix("socket:[")?;
    inode.strip_suffix(']')?.parse().ok()
}

/// Returns the name of the program of a process; empty if there is no such process. Without the right to read the link
/// of the program, it is the first 15 characters that the kernel keeps.
#[must_use]
pub fn process_name(pid: u32) -> String {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let program = program.and_then(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        // The file of a server that was upgraded in place.
        Some(name.trim_end_matches(" (deleted)").to_owned())
    });
    let kept = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    program.unwrap_or_else(|| kept().trim_end().to_owned())
}

/// Returns the command line of a process without its secrets, cut off if it is long; `None` if it can't be read.
#[must_use]
pub fn command_line(pid: u32) -> Option<String> {
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = String::from_utf8_lossy(&words);
    let words: Vec<&str> = words.trim_end_matches('\0').split('\0').collect();
    // A process may overwrite its command line with a title, such as `nginx: master process`.
    let command = redact::command(&words).replace(char::is_control, " ");
    (!command.trim().is_empty()).then(|| match command.char_indices().nth(LONGEST_COMMAND) {
        Some((cut, _)) => format!("{}…", &command[..cut]),
        None => command,
    })
}

/// Checks that a process with this id runs.
///
/// # Errors
/// There is none, or it is a thread.
pub fn require_process(pid: u32) -> Result<(), Invalid> {
    let wrong = |problem: &str| Invalid::new(format!("--pid {pid}"), problem);
    let stat = fs::read(format!("/proc/{pid}/stat")).ok();
    match stat.as_deref().and_then(Stat::parse) {
        Some(stat) if !stat.is_zombie() => {}
        _ => {
            return Err(wrong(
                "there is no such process: give the id of the daemon's first process (pgrep -o NAME, or systemctl show -p MainPID NAME)",
            ));
        }
    }
    let status = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    match status_value(&status, "Tgid") {
        group if group == u64::from(pid) => Ok(()),
        group => Err(wrong(&format!(
            "is a thread of process {group}: give the id of the process"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use harness_testing::processes::wait_until;

    use super::*;

    #[test]
    fn the_secrets_of_a_command_are_not_shown() {
        let words = ["30", "--user", "app:p1", "--token=p2", "amqp://u:p3@h/"];
        // The shell keeps its further words, and its own command line.
        let mut server = Command::new("sh")
            .args(["-c", "read line", "server"])
            .args(words)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the command line of the program", || {
            command_line(server.id()).is_some_and(|command| command.contains("server"))
        });
        let command = command_line(server.id()).unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(
            command,
            "sh -c read line server 30 --user app:[redacted] --token=[redacted] amqp://u:[redacted]@h/"
        );
    }

    #[test]
    fn this_process_has_a_name_and_a_command() {
        let own = std::process::id();
        let command = command_line(own).unwrap();
        assert!(command.contains(&process_name(own)), "{command}");
        assert_eq!(process_name(u32::MAX), "");
        assert_eq!(command_line(u32::MAX), None);
    }

    #[test]
    fn a_thread_and_a_process_that_is_not_there_are_refused() {
        assert_eq!(require_process(std::process::id()), Ok(()));
        let wrong = require_process(u32::MAX).unwrap_err().to_string();
        assert!(wrong.contains("no such process"), "{wrong}");
        let thread = std::thread::spawn(|| {
            let thread = nix::unistd::gettid().as_raw().cast_unsigned();
            require_process(thread).unwrap_err().to_string()
        });
        let wrong = thread.join().unwrap();
        let own = format!("thread of process {}", std::process::id());
        assert!(wrong.contains(&own), "{wrong}");
    }
}
