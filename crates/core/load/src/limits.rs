//! Raises the limit of open files, and reports remedies if it is too low.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::eventfd::EventFd;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Largest table of descriptors that is allocated ahead of time: 8 MiB of kernel memory.
const LARGEST_TABLE: u64 = 1 << 20;

/// Nice value of a thread with lowered priority: the CPU shares of 0 and 10 are ten to one.
const LOWERED_NICE: i32 = 10;

/// The limits of open files of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NofileLimits {
    /// Number of files that the process may open now.
    pub soft: u64,
    /// Limit to which the process may raise that number by itself.
    pub hard: u64,
}

/// Returns the limits of this process.
///
/// # Errors
/// The kernel does not report them.
pub fn nofile() -> std::io::Result<NofileLimits> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(NofileLimits { soft, hard })
}

/// Raises the soft limit of open files to the hard one. Daemons that are started later inherit it.
/// Returns the previous soft limit, and the hard limit.
///
/// # Errors
/// The kernel refuses.
pub fn raise_nofile() -> std::io::Result<(u64, u64)> {
    let NofileLimits { soft, hard } = nofile()?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok((soft, hard))
}

/// Has the kernel allocate this process's descriptor table for all descriptors that it may open, up to a million.
///
/// The kernel doubles a full table, and with several threads each doubling waits for an RCU grace period. The thread
/// that opens then stands still for 8 to 17 ms, and starts that come due meanwhile are late. A failure costs only this
/// benefit.
pub fn preallocate_fd_table() {
    let files = nofile().map_or(0, |limits| limits.soft.min(LARGEST_TABLE));
    let last = i32::try_from(files.saturating_sub(1)).unwrap_or(i32::MAX);
    let Ok(any) = EventFd::new() else { return };
    if let Ok(descriptor) = fcntl(any.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(last)) {
        drop(own(descriptor));
    }
}

/// Lowers the priority of the calling thread, so that threads that measure go first. Adding up histograms and writing
/// them out can wait, and all shards of a run do so at the same moment. Threads that were started before keep their
/// priority.
pub fn lower_thread_priority() {
    #[expect(unsafe_code, reason = "nix has no setpriority")]
    // SAFETY: no memory is involved. 0 is the calling thread, on Linux (setpriority(2), "C library/kernel
    // differences").
    let answer = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWERED_NICE) };
    // The kernel always grants a lower priority; a failure would cost only this benefit.
    debug_assert!(answer == 0, "a lower priority is granted to all");
}

#[expect(unsafe_code, reason = "nix returns a duplicate as a raw descriptor")]
fn own(descriptor: i32) -> OwnedFd {
    // SAFETY: fcntl made this descriptor just now; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// An error: more files are needed than may be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs {need} open files, but this process may open {limit} at most (hard limit RLIMIT_NOFILE)\n{}", self.remedy())]
pub struct TooFewFiles {
    /// The object that needs them, such as `10,000 streams`.
    pub what: String,
    /// Number of files that are needed.
    pub need: u64,
    /// Number of files that may be opened.
    pub limit: u64,
    /// `fs.nr_open`, the highest hard limit that even root may set.
    pub nr_open: Option<u64>,
    /// Process id of the shell whose limit is to be raised.
    pub shell: i32,
}

impl TooFewFiles {
    fn remedy(&self) -> String {
        let Self { need, shell, .. } = self;
        let ceiling = match self.nr_open {
            Some(nr_open) if nr_open < *need => {
                format!("  sudo sysctl -w fs.nr_open={need}      # now {nr_open}; first\n")
            }
            _ => String::new(),
        };
        format!(
            "either of these helps:\n{ceiling}  sudo prlimit --pid {shell} --nofile={need}:{need}    # then start it again in this shell\n  \
             ulimit -Hn {need} && ulimit -Sn {need}    # in a root shell"
        )
    }
}

/// Checks that one process may open `need` files, with its limit raised to the maximum.
///
/// # Errors
/// [`TooFewFiles`] with the limit, the need and the commands that would help.
pub fn require_nofile(what: &str, need: u64) -> Result<(), TooFewFiles> {
    let limit = nofile().map_or(0, |limits| limits.hard);
    if need <= limit {
        return Ok(());
    }
    let nr_open = std::fs::read_to_string("/proc/sys/fs/nr_open")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    Err(TooFewFiles {
        what: what.to_owned(),
        need,
        limit,
        nr_open,
        shell: nix::unistd::getppid().as_raw(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_descriptors_has_room_for_all_that_may_be_opened() {
        raise_nofile().unwrap();
        preallocate_fd_table();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        // proc(5): slots that are allocated.
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        let size: u64 = size.unwrap().trim().parse().unwrap();
        assert!(size >= nofile().unwrap().soft.min(LARGEST_TABLE));
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let (_, hard) = raise_nofile().unwrap();
        assert_eq!(nofile().unwrap(), NofileLimits { soft: hard, hard });
        assert!(require_nofile("this test", hard).is_ok());
    }

    #[test]
    fn a_need_above_the_limit_names_both_and_the_commands() {
        let NofileLimits { hard, .. } = nofile().unwrap();
        let error = require_nofile("100 streams", hard + 1).unwrap_err();
        assert_eq!((error.need, error.limit), (hard + 1, hard));
        let text = error.to_string();
        for part in [
            "100 streams needs".to_owned(),
            format!("may open {hard}"),
            format!("--nofile={}", hard + 1),
            "ulimit -Hn".to_owned(),
        ] {
            assert!(text.contains(&part), "{part:?} is not in: {text}");
        }
    }

    #[test]
    fn the_kernels_ceiling_is_named_only_where_it_is_too_low() {
        let error = |nr_open| {
            TooFewFiles {
                what: "x".into(),
                need: 100,
                limit: 10,
                nr_open,
                shell: 1,
            }
            .to_string()
        };
        assert!(error(Some(99)).contains("sysctl -w fs.nr_open=100"));
        assert!(!error(Some(100)).contains("sysctl"));
        assert!(!error(None).contains("sysctl"));
    }
}
