//! Reads `/proc/<pid>/task/<tid>/schedstat` (Documentation/scheduler/sched-stats.rst of Linux).

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// The scheduler's counters of one thread, nanoseconds since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Time that the thread ran.
    pub cpu_ns: u64,
    /// Time that it was runnable and waited for a CPU.
    pub wait_ns: u64,
}

impl Schedstat {
    /// Reads an open schedstat file from its start; `None` if the thread has ended, or the kernel does not count.
    #[must_use]
    pub fn read(file: &File) -> Option<Self> {
        let mut buffer = [0; 96];
        let length = file.read_at(&mut buffer, 0).ok()?;
        Self::parse(&buffer[..length])
    }

    /// Parses three numbers: the time on a CPU, the time of waiting, and how often the thread ran. If the thread never
    /// ran, the kernel does not count.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
        let mut next = || numbers.next()?.parse().ok();
        let (cpu_ns, wait_ns, times): (u64, u64, u64) = (next()?, next()?, next()?);
        (times > 0).then_some(Self { cpu_ns, wait_ns })
    }
}

/// Opens the file of the calling thread.
#[must_use]
pub fn open_of_this_thread() -> Option<File> {
    File::open("/proc/thread-self/schedstat").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_an_account_and_anything_else_is_none() {
        let of = |cpu_ns, wait_ns| Some(Schedstat { cpu_ns, wait_ns });
        assert_eq!(
            Schedstat::parse(b"158396 2343735 2\n"),
            of(158_396, 2_343_735)
        );
        for text in [&b"0 0 0\n"[..], b"", b"1 2", b"1 -2 3", b"\xff 1 2"] {
            assert_eq!(Schedstat::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_calling_thread_has_run() {
        let file = open_of_this_thread().expect("this kernel counts");
        let first = Schedstat::read(&file).unwrap();
        while Schedstat::read(&file).unwrap().cpu_ns == first.cpu_ns {
            std::thread::yield_now();
        }
    }
}
