//! A small process that kills a daemon's group, and removes its directory, when this program dies before it has done so.
//!
//! The kernel's parent death signal reaches only the daemon's first process. What that has forked would live on, hold
//! ports and memory, and spoil the next run. The guard reads from a pipe that nobody writes to and whose other end only
//! this program has: the read ends when this program does, however it dies.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::unistd::Pid;

/// The signals of a closing terminal must not end the guard before this program.
const SCRIPT: &str =
    "trap '' HUP INT TERM; read -r end; kill -s KILL -- \"-$1\"; [ -z \"$2\" ] || rm -rf -- \"$2\"";

#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
}

impl Guard {
    /// `scratch` is removed; nothing is when it is empty.
    pub(super) fn over(group: Pid, scratch: &Path) -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "drover-guard", &group.to_string()])
            .arg(scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }

    pub(super) fn pid(&self) -> u32 {
        self.shell.id()
    }
}

/// Kills the group that it leads, itself with it.
const LEADER: &str = "trap '' HUP INT TERM; read -r end; kill -s KILL 0";

impl Guard {
    /// A guard that leads a new process group: there is no moment in which a process of the group has none.
    fn leading() -> io::Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", LEADER, "drover-guard"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()?;
        Ok(Self { shell })
    }
}

/// Runs a command to its end, in a process group of its own. The whole group is killed where this program dies first: what
/// a build has started would go on for minutes otherwise.
///
/// # Errors
/// A command, or its guard, that can't be started.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let guard = Guard::leading()?;
    let group = i32::try_from(guard.pid()).map_err(io::Error::other)?;
    command.process_group(group).spawn()?.wait_with_output()
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Killed before its pipe closes, it kills nobody.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
