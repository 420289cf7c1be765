//! A small process that kills a daemon's group, and removes its directory, when this program dies before it has done so.
//!
//! The kernel's parent death signal reaches only the daemon's first process. What that has forked would live on, hold
//! ports and memory, and spoil the next run. The guard reads from a pipe that nobody writes to and whose other end only
//! this program has: the read ends when this program does, however it dies.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::unistd::Pid;

/// Kills the group `$1` and removes the directory `$2`, unless that is empty.
const KILL_GROUP: &str = "kill -s KILL -- \"-$1\"; [ -z \"$2\" ] || rm -rf -- \"$2\"";

/// Kills the group that the guard leads, the guard included.
const KILL_OWN_GROUP: &str = "kill -s KILL 0";

#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
}

impl Guard {
    /// Guards the process group `group`. The directory `scratch` is removed too, unless the path is empty.
    pub(super) fn over(group: Pid, scratch: &Path) -> io::Result<Self> {
        Self::start(
            KILL_GROUP,
            &[group.to_string().as_ref(), scratch.as_os_str()],
        )
    }

    /// Starts a guard that leads a new process group, so that the group is guarded before it has its second process.
    fn leading() -> io::Result<Self> {
        Self::start(KILL_OWN_GROUP, &[])
    }

    fn start(at_the_end: &str, arguments: &[&OsStr]) -> io::Result<Self> {
        // The signals of a closing terminal must not end the guard before this program.
        let script = format!("trap '' HUP INT TERM; read -r end; {at_the_end}");
        let shell = Command::new("/bin/sh")
            .args(["-c", &script, "drover-guard"])
            .args(arguments)
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
