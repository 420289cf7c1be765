//! How many files this process may open: raising the limit, and saying what helps when it is too low.

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::eventfd::EventFd;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// No table of descriptors is made larger ahead of time: 8 MiB of the kernel's memory.
const MOST_ROOM: u64 = 1 << 20;

/// The nice value of a thread that gives way: the CPU shares of 0 and 10 are ten to one.
const GIVES_WAY: i32 = 10;

/// The limits of open files, in force for one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NofileLimits {
    /// What a process may open now.
    pub soft: u64,
    /// How far it may raise that by itself.
    pub hard: u64,
}

/// The limits of this process.
///
/// # Errors
/// When the kernel does not say.
pub fn nofile() -> std::io::Result<NofileLimits> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(NofileLimits { soft, hard })
}

/// Raises the soft limit of open files to the hard one; daemons started later inherit it.
/// Returns the soft limit as it was before, and the hard limit.
///
/// # Errors
/// When the kernel refuses.
pub fn raise_nofile() -> std::io::Result<(u64, u64)> {
    let NofileLimits { soft, hard } = nofile()?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok((soft, hard))
}

/// Has the kernel make room in this process's table for all descriptors that it may open, up to a million.
///
/// The kernel doubles a table that is full, and with several threads each doubling waits for a grace period of RCU: the
/// thread that opens stands still for 8 to 17 ms, and what was due meanwhile is late. Where it fails, only this is lost.
pub fn make_room() {
    let files = nofile().map_or(0, |limits| limits.soft.min(MOST_ROOM));
    let last = i32::try_from(files.saturating_sub(1)).unwrap_or(i32::MAX);
    let Ok(any) = EventFd::new() else { return };
    if let Ok(descriptor) = fcntl(any.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(last)) {
        drop(own(descriptor));
    }
}

/// Has the calling thread give way to those that measure: adding histograms up and writing them out can wait, and all
/// shards of a run do so at the same moment. Threads that were started before keep their priority.
pub fn give_way() {
    #[expect(unsafe_code, reason = "nix has no setpriority")]
    // SAFETY: no memory is involved. 0 is the calling thread, on Linux (setpriority(2), "C library/kernel differences").
    let answer = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, GIVES_WAY) };
    // Lower is always granted; where it were not, only this is lost.
    debug_assert!(answer == 0, "a lower priority is granted to all");
}

#[expect(unsafe_code, reason = "nix returns a duplicate as a raw descriptor")]
fn own(descriptor: i32) -> OwnedFd {
    // SAFETY: fcntl made this descriptor just now; nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// More files are needed than may be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} needs {need} open files, but this process may open {limit} at most (hard limit RLIMIT_NOFILE)\n{}", self.remedy())]
pub struct TooFewFiles {
    /// What needs them, such as `10,000 streams`.
    pub what: String,
    /// How many are needed.
    pub need: u64,
    /// How many may be opened.
    pub limit: u64,
    /// `fs.nr_open`, the highest hard limit that even root may set.
    pub nr_open: Option<u64>,
    /// The shell to raise the limit of.
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
             ulimit -Hn {need} && ulimit -Sn {need}    # in a shell of root"
        )
    }
}

/// Checks that `need` files may be opened in one process, the limit raised as far as it goes.
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
        make_room();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        // proc(5): slots that are allocated.
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        let size: u64 = size.unwrap().trim().parse().unwrap();
        assert!(size >= nofile().unwrap().soft.min(MOST_ROOM));
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
