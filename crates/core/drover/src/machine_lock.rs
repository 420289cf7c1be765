//! Allows one suite at a time on a machine, because two suites distort each other's figures.
//!
//! The lock is a listening socket in the abstract namespace. It has no file that could stay behind, disappears with
//! its process however that ends, and reveals the process and the user of its owner to anyone who connects. Every user
//! may take any name there, so that there are several names. Only processes of the caller and of root prevent a suite
//! from starting; a lock of another user is only reported.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use harness::output;
use harness::progress::StepLine;
use harness::signals::Signals;
use load::clock;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, UnixCredentials, connect, getsockopt, socket,
    sockopt::PeerCredentials,
};
use nix::unistd::{SysconfVar, geteuid, sysconf};
use subject::daemon::Step;

use crate::estimate;

const NAME: &str = "drover-suite";
/// Number of names. As many other users may hold one each before a suite starts without a lock.
const NAMES: usize = 32;
/// Number of attempts on a name that is taken and has no owner: its process is between taking it and listening.
const ATTEMPTS: u32 = 20;
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Time between two attempts to take the lock of a machine on which another suite runs.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);

/// The lock, held for as long as a suite runs.
#[derive(Debug)]
pub(crate) struct MachineLock {
    /// Absent if other users hold all names.
    listener: Option<UnixListener>,
    /// Possible disturbances that do not prevent the suite from starting.
    pub(crate) notes: Vec<String>,
}

/// An error: another suite holds the lock.
#[derive(Debug, thiserror::Error)]
#[error(
    "another drover run is active on this machine ({0}): two suites at once disturb each other's figures\n  \
     leave --no-wait out to start after it, or add --force to run anyway"
)]
pub(crate) struct Busy(Holder);

/// The process that holds the lock.
#[derive(Debug)]
struct Holder {
    pid: i32,
    /// Its command line; empty if it can't be read.
    command: String,
    /// Time since its start, if it is known.
    age: Option<Duration>,
}

impl Holder {
    fn new(pid: i32) -> Self {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        Self {
            pid,
            command: words.trim().to_owned(),
            age: age(&stat, &uptime),
        }
    }
}

/// Formats the process for a sentence: `pid 123, for 2m03s: drover run latency`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)?;
        if let Some(age) = self.age {
            write!(f, ", for {}", estimate::format_time(age))?;
        }
        match self.command.as_str() {
            "" => Ok(()),
            command => write!(f, ": {command}"),
        }
    }
}

/// Returns the time since the start of a process, from `/proc/<pid>/stat` and `/proc/uptime`.
fn age(stat: &str, uptime: &str) -> Option<Duration> {
    let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
    // Field 22 (proc_pid_stat(5)). The name in parentheses, field 2, may hold spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let started: f64 = fields.split_whitespace().nth(19)?.parse().ok()?;
    let ticks = sysconf(SysconfVar::CLK_TCK).ok()??;
    Duration::try_from_secs_f64(uptime - started / ticks as f64).ok()
}

impl MachineLock {
    /// Takes the lock of this machine.
    ///
    /// # Errors
    /// [`Busy`] if another suite of this user, or of root, holds it.
    pub(crate) fn acquire() -> anyhow::Result<Self> {
        Self::take_name(NAME, counts)
    }

    /// Takes the lock of this machine once other suites of this user and of root have ended; shows who is waited for.
    /// Returns `None` after a signal.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) async fn wait(signals: &mut Signals) -> anyhow::Result<Option<Self>> {
        let mut line = StepLine::new(false);
        let mut is_explained = false;
        let mut on_step = |step: &Step<'_>| {
            line.show(step);
            if !std::mem::replace(&mut is_explained, true) {
                output::note(
                    "  Ctrl-C ends the wait; --no-wait would end at once, --force would run beside it and disturb both",
                );
            }
        };
        tokio::select! {
            lock = Self::wait_for(NAME, counts, &mut on_step) => lock.map(Some),
            () = signals.next() => Ok(None),
        }
    }

    async fn wait_for(
        name: &str,
        counts: impl Fn(u32) -> bool,
        on_step: &mut dyn FnMut(&Step<'_>),
    ) -> anyhow::Result<Self> {
        let begin = clock::now();
        loop {
            let holder = match Self::take_name(name, &counts) {
                Ok(lock) => return Ok(lock),
                Err(error) => error.downcast::<Busy>()?.0,
            };
            on_step(&Step {
                what: "waiting for another drover run",
                command: None,
                elapsed: Duration::from_nanos(clock::now().saturating_sub(begin)),
                detail: &holder.to_string(),
            });
            tokio::time::sleep(WAIT_INTERVAL).await;
        }
    }

    /// Takes the lock. Only processes of users that `counts` accepts keep others out.
    fn take_name(name: &str, counts: impl Fn(u32) -> bool) -> anyhow::Result<Self> {
        let names = (0..NAMES).map(|number| format!("{name}-{number}"));
        let mut lock = Self {
            listener: None,
            notes: Vec::new(),
        };
        // All names are checked: a lower one may have become free since the owner of a higher one began.
        for name in names {
            let owner = match lock.listener {
                Some(_) => owner(&name)?,
                None => match take(&name)? {
                    Taken::Free(listener) => {
                        lock.listener = Some(listener);
                        continue;
                    }
                    Taken::By(owner) => owner,
                },
            };
            match owner {
                Some(owner) if counts(owner.uid()) => return Err(Busy(Holder::new(owner.pid())).into()),
                Some(owner) => lock.notes.push(format!(
                    "User {} also holds a suite lock (pid {}): if it runs a suite, the two disturb each other's figures.",
                    owner.uid(),
                    owner.pid()
                )),
                None => {}
            }
        }
        Ok(lock)
    }
}

#[derive(Debug)]
enum Taken {
    Free(UnixListener),
    /// Absent if the owner does not listen.
    By(Option<UnixCredentials>),
}

fn take(name: &str) -> io::Result<Taken> {
    let address = SocketAddr::from_abstract_name(name)?;
    for _ in 0..ATTEMPTS {
        match UnixListener::bind_addr(&address) {
            Ok(listener) => return Ok(Taken::Free(listener)),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
            Err(_) => {}
        }
        let owner = owner(name)?;
        if owner.is_some() {
            return Ok(Taken::By(owner));
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
    Ok(Taken::By(None))
}

/// Returns true if a user's suites keep those of this one out.
fn counts(user: u32) -> bool {
    user == geteuid().as_raw() || user == 0
}

/// Returns the process that listens on a name. It never waits: a queue that another user has filled counts as absent.
fn owner(name: &str) -> io::Result<Option<UnixCredentials>> {
    let kind = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let stream: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, kind, None)?;
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    let connected = connect(stream.as_raw_fd(), &address);
    Ok(connected
        .ok()
        .and_then(|()| getsockopt(&stream, PeerCredentials).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_gets_the_pid_of_the_first_until_that_has_ended() {
        let name = format!("drover-test-{}", std::process::id());
        let lock = || MachineLock::take_name(&name, |user| user == geteuid().as_raw());
        let first = lock().unwrap();
        let error = lock().unwrap_err().to_string();
        assert!(
            error.contains(&format!("(pid {}, for ", std::process::id()))
                && error.contains("--no-wait"),
            "{error}"
        );
        drop(first);
        assert_eq!(lock().unwrap().notes, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_suite_starts_when_the_other_has_ended_and_names_it_until_then() {
        let name = format!("drover-wait-{}", std::process::id());
        let mut first = Some(MachineLock::take_name(&name, counts).unwrap());
        let mut seen = Vec::new();
        let mut on_step = |step: &Step<'_>| {
            seen.push(format!("{}: {}", step.what, step.detail));
            if seen.len() == 2 {
                first.take();
            }
        };
        let waiting = MachineLock::wait_for(&name, counts, &mut on_step);
        let lock = waiting.await.unwrap();
        assert!(lock.listener.is_some());
        let holder = format!(
            "waiting for another drover run: pid {}, for ",
            std::process::id()
        );
        assert_eq!(seen.len(), 2);
        assert!(
            seen.iter().all(|line| line.starts_with(&holder)),
            "{seen:?}"
        );
    }

    #[test]
    fn the_age_of_a_process_is_the_time_since_its_start() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12000 1 1";
        let ticks = sysconf(SysconfVar::CLK_TCK).unwrap().unwrap();
        let uptime = format!("{}.5 9.0", 12_000 / ticks + 3);
        let age = age(stat, &uptime).unwrap();
        assert!(
            (age.as_secs_f64() - 3.5).abs() < 1.0 / ticks as f64 + 0.5,
            "{age:?}"
        );
        assert_eq!(super::age("", "1.0 2.0"), None);
    }

    #[test]
    fn another_user_holds_nobody_up_and_is_noted() {
        let name = format!("drover-others-{}", std::process::id());
        // Stands in for another user who owns all of these.
        let of_others = |_| false;
        let others: Vec<MachineLock> = (0..3)
            .map(|_| MachineLock::take_name(&name, of_others).unwrap())
            .collect();
        let lock = MachineLock::take_name(&name, of_others).unwrap();
        assert!(lock.listener.is_some());
        assert_eq!(lock.notes.len(), others.len());
        let pid = format!("pid {}", std::process::id());
        assert!(lock.notes[0].contains(&pid), "{:?}", lock.notes);
        // A lock that is no higher than the others is found once they have left.
        drop(others);
        MachineLock::take_name(&name, |_| true).unwrap_err();
    }

    #[test]
    fn where_others_hold_every_name_the_suite_begins_without_a_lock() {
        let name = format!("drover-all-{}", std::process::id());
        let held: Vec<UnixListener> = (0..NAMES)
            .map(|number| {
                let name = format!("{name}-{number}");
                UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
            })
            .collect();
        let lock = MachineLock::take_name(&name, |_| false).unwrap();
        assert!(lock.listener.is_none());
        assert_eq!(lock.notes.len(), held.len());
    }
}
