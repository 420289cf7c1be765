//! A small process that kills a daemon and removes its directory if this program dies before it has done so.
//!
//! The kernel's parent-death signal reaches only the daemon's first process. Processes that it has forked would live
//! on, hold ports and memory, and spoil the next run. The guard reads from a pipe whose other end only this program
//! has. The read ends when this program does, however it dies.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use load::clock;
use nix::unistd::Pid;

use super::mark::Mark;

/// Kills the group whose number was read, and the processes whose limits match `$1` until there are no new ones. Removes
/// the directory `$2`, unless that is empty.
const KILL_DAEMON: &str = r#"
[ -z "$group" ] || kill -s KILL -- "-$group"
while now=$(grep -ls -- "$1" /proc/[0-9]*/limits); [ "$now" != "$before" ]; do
  before=$now
  for file in $now; do pid=${file%/limits}; kill -s KILL "${pid#/proc/}"; done
done
[ -z "$2" ] || rm -rf -- "$2""#;

/// Kills the group that the guard leads, the guard included.
const KILL_OWN_GROUP: &str = "read -r end; kill -s KILL 0";

#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
}

impl Guard {
    /// Starts a guard of the processes with a mark, before the first of them. It also removes the directory `scratch`,
    /// unless the path is empty.
    pub(super) fn for_daemon(mark: Mark, scratch: &Path) -> io::Result<Self> {
        let script = format!("read -r group; read -r end; {KILL_DAEMON}");
        Self::start(&script, &[mark.pattern().as_ref(), scratch.as_os_str()])
    }

    /// Tells the guard the process group of the daemon.
    pub(super) fn watch(&mut self, group: Pid) {
        if let Some(pipe) = &mut self.shell.stdin {
            // A guard that has ended kills nothing; the kernel still kills the first process.
            let _ = writeln!(pipe, "{group}");
        }
    }

    /// Starts a guard that leads a new process group, so that the group is guarded before it has its second process.
    fn leading() -> io::Result<Self> {
        Self::start(KILL_OWN_GROUP, &[])
    }

    fn start(script: &str, arguments: &[&OsStr]) -> io::Result<Self> {
        // The signals of a closing terminal must not end the guard before this program.
        let script = format!("trap '' HUP INT TERM; {script}");
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

/// Runs a command to its end, in its own process group, and calls `on_second` once a second with the time so far. The whole group is killed if this program dies first;
/// otherwise processes of a build would go on for minutes.
///
/// # Errors
/// A command or a guard that can't be started.
pub fn output(command: &mut Command, on_second: &mut dyn FnMut(Duration)) -> io::Result<Output> {
    let guard = Guard::leading()?;
    let group = i32::try_from(guard.pid()).map_err(io::Error::other)?;
    let child = command.process_group(group).spawn()?;
    let began = clock::now();
    let (send, ended) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody waits if the caller has panicked.
        let _ = send.send(child.wait_with_output());
    });
    loop {
        match ended.recv_timeout(Duration::from_secs(1)) {
            Ok(output) => return output,
            Err(RecvTimeoutError::Timeout) => {
                on_second(Duration::from_nanos(clock::now().saturating_sub(began)));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("nothing waits for it any more"));
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A guard that is killed before its pipe closes kills nothing.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
