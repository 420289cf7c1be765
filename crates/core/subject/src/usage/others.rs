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
    times: Times,
    own: u64,
}

/// Clock ticks of some CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    /// Spent on processes: user, nice and system. Interrupts are usually the load's own.
    busy: u64,
    /// Idle, waiting for a disk, or taken by the hypervisor, whose time is judged separately.
    away: u64,
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
        let times = Times::parse(read_whole(&self.stat, &mut self.buffer)?, &self.cpus);
        let snapshot = Reading { at_ns, times, own };
        let before = self.before.replace(snapshot)?;
        let passed_s = at_ns
            .checked_sub(before.at_ns)
            .filter(|passed| *passed > 0)? as f64
            / 1e9;
        // The two are counted in different ways, and each to a tick.
        let own = own.saturating_sub(before.own);
        let others = times
            .busy
            .saturating_sub(before.times.busy)
            .saturating_sub(own);
        let used = 100.0 * others as f64 / ticks_per_s() as f64 / passed_s;
        // The kernel looks at each tick who uses a CPU, so a load whose wake-ups coincide with ticks seems to use it
        // always. The time in which nobody does is measured.
        let away = times.away.saturating_sub(before.times.away) + own;
        let all = 100.0 * self.cpus.len() as f64;
        let rest = all - 100.0 * away as f64 / ticks_per_s() as f64 / passed_s;
        // A sampler that is delayed itself reads the clock earlier than the counters.
        Some(used.min(rest.max(0.0)))
    }
}

impl Times {
    /// Sums the times of these CPUs in the text of `/proc/stat`.
    fn parse(text: &[u8], cpus: &[usize]) -> Self {
        let mut sum = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(line).ok();
            let line = line.and_then(|line| line.strip_prefix("cpu")?.split_once(' '));
            let Some((cpu, times)) = line else {
                continue;
            };
            let is_asked = cpu
                .parse()
                .is_ok_and(|cpu| cpus.binary_search(&cpu).is_ok());
            let times = times
                .split_ascii_whitespace()
                .map_while(|time| time.parse().ok());
            let times: Vec<u64> = times.collect();
            if let [user, nice, system, idle, waiting, _, _, stolen, ..] = times[..]
                && is_asked
            {
                sum.busy += user + nice + system;
                sum.away += idle + waiting + stolen;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"cpu  60 6 30 900 1 0 9 5 0 0\ncpu0 10 1 5 300 0 0 2 5 0 0\ncpu1 20 2 10 300 1 0 3 0 0 0\ncpu12 30 3 15 300 0 0 4 0 0 0\nintr 5 6 7\n";

    #[test]
    fn time_for_processes_is_summed_over_the_cpus_that_are_asked_for() {
        let times = |text: &[u8], cpus: &[usize]| {
            let Times { busy, away } = Times::parse(text, cpus);
            (busy, away)
        };
        assert_eq!(times(STAT, &[0, 1, 12]), (96, 906));
        assert_eq!(times(STAT, &[1]), (32, 301));
        assert_eq!(times(STAT, &[2]), (0, 0));
        assert_eq!(times(&STAT[..40], &[0]), (0, 0), "a line that was cut off");
    }

    #[test]
    fn the_use_of_others_is_the_total_minus_our_own() {
        let mut others = Others::open(&[std::process::id()]).unwrap();
        assert!(others.cpus() > 0);
        assert_eq!(others.snapshot(1, 0), None);
        let now = others.before.unwrap().times;
        let ticks = ticks_per_s();
        let before = |busy: u64, own| {
            let busy = now.busy - busy;
            let times = Times { busy, ..now };
            Some(Reading {
                at_ns: 0,
                times,
                own,
            })
        };
        others.before = before(3 * ticks, 0);
        // A second in which three were used, one of them by ourselves, plus other use until now.
        let all = 100.0 * others.cpus() as f64;
        let used = others.snapshot(1_000_000_000, ticks).unwrap();
        let most = f64::min(all - 100.0, 200.0);
        assert!(used > most - 50.0 && used <= most, "{used}");
        others.before = before(0, 0);
        assert_eq!(others.snapshot(1_000_000_000, u64::MAX / 2), Some(0.0));
        // All ticks found a process, and the CPUs were idle all the same.
        let idle = ticks * others.cpus();
        others.before = before(3 * ticks, 0);
        others.before.as_mut().unwrap().times.away -= idle;
        assert_eq!(others.snapshot(1_000_000_000, 0), Some(0.0));
    }
}
