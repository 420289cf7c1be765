//! Measures CPU time of other processes on the CPUs that daemon and driver may use, from `/proc/stat`.

use std::fs::File;

use super::stat::read_whole;
use super::ticks_per_s;
use crate::cpus;

/// Size for a line of about 60 bytes per CPU, followed by one long line of interrupts that is not needed.
const BUFFER: usize = 64 << 10;

/// Measures the load of processes other than daemon and driver on some CPUs.
#[derive(Debug)]
pub struct Others {
    stat: File,
    buffer: Vec<u8>,
    cpus: Vec<usize>,
    before: Option<Reading>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at_ns: u64,
    busy: u64,
    own: u64,
}

impl Others {
    /// Watches the CPUs that any of these processes may use; `None` if the kernel does not report them.
    #[must_use]
    pub fn open(pids: &[u32]) -> Option<Self> {
        let mut cpus = Vec::new();
        for pid in pids {
            // A process that has ended, or may not be queried, restricts nothing.
            cpus.extend(cpus::read(i32::try_from(*pid).ok()?).ok()?.iter());
        }
        cpus.sort_unstable();
        cpus.dedup();
        Some(Self {
            stat: File::open("/proc/stat").ok()?,
            buffer: vec![0; BUFFER],
            cpus,
            before: None,
        })
    }

    /// Returns the number of watched CPUs.
    #[must_use]
    pub fn cpus(&self) -> u64 {
        self.cpus.len() as u64
    }

    /// Returns the CPU use of others since the previous call, percent of one core; `None` in the first call. `own` is
    /// the CPU time of daemon and driver until now, in clock ticks.
    pub fn snapshot(&mut self, at_ns: u64, own: u64) -> Option<f64> {
        let busy = busy(read_whole(&self.stat, &mut self.buffer)?, &self.cpus);
        let snapshot = Reading { at_ns, busy, own };
        let before = self.before.replace(snapshot)?;
        let passed_s = at_ns
            .checked_sub(before.at_ns)
            .filter(|passed| *passed > 0)? as f64
            / 1e9;
        let busy = busy.saturating_sub(before.busy);
        // The two are counted in different ways, and each to a tick.
        let others = busy.saturating_sub(own.saturating_sub(before.own));
        let used = 100.0 * others as f64 / ticks_per_s() as f64 / passed_s;
        // A sampler that is delayed itself reads the clock earlier than the counters.
        Some(used.min(100.0 * self.cpus.len() as f64))
    }
}

/// Sums the time that these CPUs spent on processes, in clock ticks: user, nice and system. Interrupts are usually the
/// load's own, and a hypervisor's time is judged separately.
fn busy(text: &[u8], cpus: &[usize]) -> u64 {
    let lines = text.split(|byte| *byte == b'\n');
    let of_cpu = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?.strip_prefix("cpu")?;
        let (cpu, times) = line.split_once(' ')?;
        let is_asked = cpus.binary_search(&cpu.parse().ok()?).is_ok();
        let times = times.split_ascii_whitespace().take(3);
        is_asked.then(|| {
            times
                .filter_map(|time| time.parse::<u64>().ok())
                .sum::<u64>()
        })
    };
    lines.filter_map(of_cpu).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"cpu  60 6 30 900 1 0 9 5 0 0\ncpu0 10 1 5 300 0 0 2 5 0 0\ncpu1 20 2 10 300 1 0 3 0 0 0\ncpu12 30 3 15 300 0 0 4 0 0 0\nintr 5 6 7\n";

    #[test]
    fn time_for_processes_is_summed_over_the_cpus_that_are_asked_for() {
        assert_eq!(busy(STAT, &[0, 1, 12]), 96);
        assert_eq!(busy(STAT, &[1]), 32);
        assert_eq!(busy(STAT, &[2]), 0);
        assert_eq!(busy(&STAT[..40], &[0]), 16, "a line that was cut off");
    }

    #[test]
    fn the_use_of_others_is_the_total_minus_our_own() {
        let mut others = Others::open(&[std::process::id()]).unwrap();
        assert!(others.cpus() > 0);
        assert_eq!(others.snapshot(1, 0), None);
        let busy = others.before.unwrap().busy;
        let ticks = ticks_per_s();
        others.before = Some(Reading {
            at_ns: 0,
            busy: busy - 3 * ticks,
            own: 0,
        });
        // A second in which three were used, one of them by ourselves, plus other use until now.
        let all = 100.0 * others.cpus() as f64;
        let used = others.snapshot(1_000_000_000, ticks).unwrap();
        assert!(used >= all.min(200.0) && used <= all, "{used}");
        others.before = Some(Reading {
            at_ns: 0,
            busy,
            own: 0,
        });
        assert_eq!(others.snapshot(1_000_000_000, u64::MAX), Some(0.0));
    }
}
