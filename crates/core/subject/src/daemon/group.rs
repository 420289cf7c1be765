//! Runs a process and everything that it forks as one process group.

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

use super::allotment::Allotment;
use super::mark::Mark;
use super::tool;
use crate::usage::stat;

/// Interval between looks at the group once its first process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time that a drop waits for SIGKILL to take effect.
const DROP_LIMIT: Duration = Duration::from_secs(2);

/// A process group. Its first process stays a zombie until [`Group::reap`]: until then the kernel does not reuse its
/// process id, so that signals and checks of the group cannot hit an unrelated process.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    id: Pid,
    mark: Mark,
    /// A pidfd, readable once the process has ended.
    pidfd: AsyncFd<OwnedFd>,
    reaped: Option<String>,
}

impl Group {
    /// Starts a command as the first of a new group, with a mark and an allotment for all that it starts. The kernel kills
    /// it when the calling thread ends. The parent-death signal is cleared by set-user-ID programs.
    pub(super) fn start(
        command: &mut Command,
        mark: Mark,
        allotment: Allotment,
    ) -> io::Result<Self> {
        before_exec(command.process_group(0), Signal::SIGKILL, move || {
            mark.set();
            allotment.take()
        });
        let mut child = command.spawn()?;
        let id = Pid::from_raw(child.id().cast_signed());
        match watch(id) {
            Ok(pidfd) => Ok(Self {
                child,
                id,
                mark,
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

    /// Returns the exit status of the first process, if it has ended.
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
            // This fails only while the runtime shuts down: then nobody waits for the answer.
            let _ = self.pidfd.readable().await;
        }
    }

    /// Completes when no process of the group is alive.
    pub(super) async fn all_exited(&self) {
        self.exited().await;
        while self.living() > 0 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Counts the living processes of the group. Zombies do not count: in some containers the process that adopts
    /// orphans does not wait for them, and they stay forever.
    pub(super) fn living(&self) -> usize {
        if killpg(self.id, None) == Err(Errno::ESRCH) {
            return 0;
        }
        stat::all()
            .filter(|stat| stat.group == self.id.as_raw() && !stat.is_zombie())
            .count()
    }

    /// Sends a signal, and SIGCONT: a stopped process handles the signal only once it continues.
    pub(super) fn signal(&self, signal: Signal) {
        self.send(signal);
        self.send(Signal::SIGCONT);
    }

    /// Sends only the signal. SIGKILL also reaches the processes that have left the group.
    pub(super) fn send(&self, signal: Signal) {
        if self.reaped.is_none() {
            // The error of a group that no longer exists does not matter.
            let _ = killpg(self.id, signal);
            if signal == Signal::SIGKILL {
                self.mark.kill_all();
            }
        }
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Removes the first process from the process table if it has ended. Returns its exit status.
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

/// Has the kernel send `signal` to the command when the thread that starts it ends.
pub fn set_pdeathsig(command: &mut Command, signal: Signal) {
    before_exec(command, signal, || Ok(()));
}

/// Sets the parent-death signal of a command, and calls `also`, which may only make system calls.
#[expect(
    unsafe_code,
    reason = "the parent-death signal must be set between fork and exec"
)]
fn before_exec(
    command: &mut Command,
    signal: Signal,
    also: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) {
    let parent = Pid::this();
    let set_signal = move || {
        also()?;
        prctl::set_pdeathsig(signal)?;
        // The death of a parent before this call sends no signal.
        if getppid() == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: between fork and exec only prctl, getppid, setrlimit, sched_setaffinity and write are called, which are
    // async-signal-safe; nothing is allocated.
    unsafe {
        command.pre_exec(set_signal);
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
