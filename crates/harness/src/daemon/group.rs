//! A process with everything that it forks, as one process group.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;
use std::{io, thread};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getppid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::tool;
use crate::usage::stat;

/// How often the group is looked at once its first process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a drop waits for SIGKILL to work.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// The first process stays a zombie until [`Group::reap`]: until then the kernel gives its number to nobody else, so that
/// signals and looks at the group cannot hit a stranger.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    id: Pid,
    /// Readable once the process has ended.
    pidfd: AsyncFd<OwnedFd>,
    reaped: Option<String>,
}

impl Group {
    /// Starts a command as the first of a new group, to be killed by the kernel when the calling thread ends.
    /// That wish is lost when the command is a set-user-ID program.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        die_with_parent(command.process_group(0));
        let mut child = command.spawn()?;
        let id = Pid::from_raw(child.id().cast_signed());
        match watch(id) {
            Ok(pidfd) => Ok(Self {
                child,
                id,
                pidfd,
                reaped: None,
            }),
            Err(error) => {
                let _ = killpg(id, Signal::SIGKILL);
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// How the first process ended, if it has.
    pub(super) fn exit(&self) -> Option<String> {
        if self.reaped.is_some() {
            return self.reaped.clone();
        }
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::PIDFd(self.pidfd.as_fd()), flags) {
            Ok(WaitStatus::Exited(_, code)) => Some(tool::exited(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(tool::killed(signal as i32)),
            Ok(_) => None,
            Err(error) => Some(format!("is gone ({error})")),
        }
    }

    pub(super) async fn exited(&self) -> String {
        loop {
            if let Some(status) = self.exit() {
                return status;
            }
            // It fails only while the runtime shuts down: then nobody waits for the answer.
            let _ = self.pidfd.readable().await;
        }
    }

    /// Completes when no process of the group is alive.
    pub(super) async fn emptied(&self) {
        self.exited().await;
        while self.living() > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// How many processes of the group are alive. Zombies are not: where the process that adopts orphans does not wait for
    /// them, as in some containers, they stay for ever.
    pub(super) fn living(&self) -> usize {
        if killpg(self.id, None) == Err(Errno::ESRCH) {
            return 0;
        }
        stat::all()
            .filter(|stat| stat.group == self.id.as_raw() && !stat.is_zombie())
            .count()
    }

    /// A stopped process gets the signal only once it continues.
    pub(super) fn signal(&self, signal: Signal) {
        self.send(signal);
        self.send(Signal::SIGCONT);
    }

    /// The signal alone.
    pub(super) fn send(&self, signal: Signal) {
        if self.reaped.is_none() {
            // A group that is gone has what is wanted.
            let _ = killpg(self.id, signal);
        }
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Takes the first process off the process table if it has ended; says how it did.
    pub(super) fn reap(&mut self) -> Option<String> {
        if self.reaped.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.reaped = Some(tool::ending(status));
        }
        self.reaped.clone()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let mut waited = Duration::ZERO;
        while self.reap().is_none() && waited < DROP_LIMIT {
            thread::sleep(Duration::from_millis(1));
            waited += Duration::from_millis(1);
        }
    }
}

/// The signal is bound to the thread that starts the command: when that ends, the process is killed.
#[expect(unsafe_code, reason = "the wish must be made between fork and exec")]
fn die_with_parent(command: &mut Command) {
    let parent = Pid::this();
    let make_wish = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // A parent that died before the wish was made does not come back to fulfil it.
        if getppid() == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: between fork and exec only prctl and getppid are called, which are async-signal-safe; nothing is allocated.
    unsafe {
        command.pre_exec(make_wish);
    }
}

#[expect(
    unsafe_code,
    reason = "neither std nor nix opens a pidfd, and Tokio cannot see that an OwnedFd stays open"
)]
fn watch(pid: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the system call takes two numbers and no pointer.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), libc::PIDFD_NONBLOCK) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, close-on-exec, and nobody else knows it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an OwnedFd is one open descriptor until it is dropped, and nobody takes it out of the AsyncFd.
    Ok(unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }?)
}
