//! Parses the lines of `/proc/<pid>/stat` and `/proc/<pid>/status`, and lists processes.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// CPU time in clock ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cpu {
    pub(crate) user: u64,
    pub(crate) system: u64,
}

impl Cpu {
    pub(crate) fn ticks(self) -> u64 {
        self.user + self.system
    }
}

/// The fields of `/proc/<pid>/stat` (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) state: u8,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) cpu: Cpu,
    /// The time of children that the process has waited for, and of their children.
    pub(crate) children_cpu: Cpu,
    /// Clock ticks from boot to its start.
    pub(crate) started: u64,
}

impl Stat {
    /// Parses the line. The program's name is in parentheses and may itself hold spaces and parentheses, so that
    /// fields count from the last parenthesis.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(&text[text.iter().rposition(|byte| *byte == b')')? + 1..])
            .ok()
            .zip(std::str::from_utf8(text.split(|byte| *byte == b' ').next()?).ok());
        let (rest, pid) = text?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        // Field 14 of the manual page is utime, the 9th after `pgrp`.
        let mut times = fields.skip(8).map(|field| field.parse().ok());
        let mut cpu = || {
            let (user, system) = (times.next()??, times.next()??);
            Some(Cpu { user, system })
        };
        Some(Self {
            pid: pid.parse().ok()?,
            state,
            parent,
            group,
            cpu: cpu()?,
            children_cpu: cpu()?,
            // Field 22.
            started: times.nth(4)??,
        })
    }

    /// Returns true if the process has ended and was not waited for yet.
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// Returns the value of a line such as `VmRSS:   1234 kB`, without its unit; 0 if the line is absent, as in a zombie.
pub(crate) fn status_value(text: &[u8], key: &str) -> u64 {
    let line = text
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(key.as_bytes())?.strip_prefix(b":"));
    let digits = line
        .unwrap_or_default()
        .iter()
        .skip_while(|byte| byte.is_ascii_whitespace())
        .take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |value: u64, digit| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    })
}

/// Returns a value of `/proc/meminfo` in bytes; 0 if the kernel does not report it.
pub(crate) fn meminfo_bytes(key: &str) -> u64 {
    1024 * status_value(&std::fs::read("/proc/meminfo").unwrap_or_default(), key)
}

/// Reads a file of `/proc` from its start. The kernel generates such a file in parts of a page, so that one read may not
/// return all of it.
pub(crate) fn read_whole<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], length as u64).ok()? {
            0 => break,
            more => length += more,
        }
    }
    (length > 0).then_some(&buffer[..length])
}

/// Returns a process, if there is one with this id.
pub(crate) fn read(pid: i32) -> Option<Stat> {
    Stat::parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns every visible process. A process that ends meanwhile is left out.
pub(crate) fn all() -> impl Iterator<Item = Stat> {
    let entries = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let pids = entries.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
    });
    pids.filter_map(|entry| Stat::parse(&std::fs::read(entry.path().join("stat")).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &[u8] =
        b"4711 (a) b (c) S 12 4710 4710 0 -1 4194560 1 2 3 4 500 60 70 8 20 0 3 0 12345 999 678 18446744073709551615\n";

    #[test]
    fn fields_count_from_the_last_parenthesis() {
        let stat = Stat::parse(LINE).unwrap();
        assert_eq!(
            (stat.pid, stat.state, stat.parent, stat.group),
            (4711, b'S', 12, 4710)
        );
        let cpu = |user, system| Cpu { user, system };
        assert_eq!((stat.cpu, stat.children_cpu), (cpu(500, 60), cpu(70, 8)));
        assert!(!stat.is_zombie());
        assert_eq!(stat.started, 12_345);
    }

    #[test]
    fn this_process_is_among_all_and_reads_its_own_group() {
        let own = all()
            .find(|stat| stat.pid == nix::unistd::Pid::this().as_raw())
            .unwrap();
        assert_eq!(own.group, nix::unistd::getpgrp().as_raw());
        assert_eq!(own.parent, nix::unistd::getppid().as_raw());
    }

    #[test]
    fn a_status_value_is_found_by_its_whole_key() {
        let text = b"Threads:\t3\nVmRSSx:\t1 kB\nVmRSS:\t  1234 kB\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        assert_eq!(status_value(text, "VmRSS"), 1234);
        assert_eq!(status_value(text, "voluntary_ctxt_switches"), 5);
        assert_eq!(status_value(text, "VmSize"), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..LINE.len()) {
            Stat::parse(&bytes);
            Stat::parse(&LINE[..cut]);
            status_value(&bytes, "VmRSS");
        }
    }
}
