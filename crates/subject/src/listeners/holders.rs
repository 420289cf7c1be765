//! Reads what processes hold open, and their names, from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use load::plan::Invalid;
use measure::redact;

use crate::usage::stat::{Stat, status_value};

/// Longest command line that is kept, characters.
const LONGEST_COMMAND: usize = 120;

/// Returns the processes that hold each of these sockets open, of those whose files this user may look at.
pub(super) fn find(inodes: &BTreeSet<u64>) -> BTreeMap<u64, BTreeSet<u32>> {
    let mut holders: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    if inodes.is_empty() {
        return holders;
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in entries {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let descriptors = fs::read_dir(process.path().join("fd"));
        for descriptor in descriptors.into_iter().flatten().flatten() {
            if let Some(inode) = socket_inode(&descriptor.path())
                && inodes.contains(&inode)
            {
                holders.entry(inode).or_default().insert(pid);
            }
        }
    }
    holders
}

/// Returns the inode in a link such as `socket:[1234]`.
fn socket_inode(descriptor: &Path) -> Option<u64> {
    let link = fs::read_link(descriptor).ok()?;
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
    let command = without_secrets(&words);
    (!command.trim().is_empty()).then(|| match command.char_indices().nth(LONGEST_COMMAND) {
        Some((cut, _)) => format!("{}…", &command[..cut]),
        None => command,
    })
}

/// Joins the words of a command. A word after an option with the name of a secret is a secret, and so is the value of a
/// variable with such a name.
fn without_secrets(words: &[&str]) -> String {
    let mut shown = Vec::new();
    let mut is_value = false;
    for word in words {
        let name = word.trim_start_matches('-');
        shown.push(match is_value {
            true => redact::PLACEHOLDER.to_owned(),
            // A process may overwrite its command line with a title, such as `nginx: master process`.
            false => redact::text(word).replace(char::is_control, " "),
        });
        is_value = name.len() < word.len() && redact::is_secret(name);
    }
    redact::text(&shown.join(" ")).into_owned()
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
    use super::*;

    #[test]
    fn the_secrets_of_a_command_are_not_shown() {
        let shown = |words: &[&str]| without_secrets(words);
        assert_eq!(
            shown(&[
                "server",
                "--port",
                "80",
                "--password",
                "p1",
                "--token=p2",
                "x"
            ]),
            "server --port 80 --password [redacted] --token=[redacted] x"
        );
        assert_eq!(
            shown(&["server", "amqp://u:p3@h/", "API_KEY=p4"]),
            "server amqp://u:[redacted]@h/ API_KEY=[redacted]"
        );
        assert_eq!(
            shown(&["nginx: master process nginx"]),
            "nginx: master process nginx"
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
