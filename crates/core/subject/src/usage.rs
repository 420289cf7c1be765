//! Samples the resource use of a process tree from `/proc`: memory, threads, files, CPU time and context switches.

use std::collections::BTreeMap;

use measure::usage::Sample;

use load::clock;

mod csv;
mod others;
mod process;
pub(crate) mod stat;
mod system;

pub use csv::{csv_header, csv_row};
pub use others::Others;
pub use system::Machine;

use process::{Process, Scheduled, add_scheduled};
use stat::Cpu;

/// Time above which PSS is not read again: reading it walks the page tables of each process, and holds the lock that a
/// page fault needs.
const PSS_TOO_SLOW_NS: u64 = 20_000_000;
/// Interval, in samples, of expensive readings.
const EVERY_NTH: u64 = 10;

/// Samples processes and all of their descendants, so that a pre-forking server counts once and completely.
///
/// A process once seen is followed until it ends, even if its parent ends first. The CPU time of ended processes is
/// the greater of two sums: the time that parents took over when they waited for them, and the time last seen of them.
/// The first is exact and includes children too short-lived for any sample, but misses children that nobody waits for.
/// The second misses the time since the previous sample. Neither sum ever falls.
///
/// The kernel counts context switches, and the time of waiting for a CPU, per thread and drops them when the thread
/// ends. The values last seen stay in the sum. The threads of a process with more than 64 of them are counted in one
/// sample of ten only.
///
/// Proportional memory (PSS) is read in one sample of ten too, and never again after a reading of more than 20 ms for the
/// whole tree.
#[derive(Debug)]
pub struct Sampler {
    /// Processes that are not followed yet.
    roots: Vec<i32>,
    exclude: Vec<i32>,
    living: BTreeMap<i32, Process>,
    exited: ExitedTotals,
    before: Option<(u64, Cpu)>,
    /// The time of the previous sample, and how long threads had waited for a CPU by then.
    waited_before: Option<(u64, u64)>,
    reads_pss: bool,
    /// True if the kernel was built without `/proc/<pid>/task/<tid>/children`.
    scan_always: bool,
    taken: u64,
    /// Difference between the wall clock and `CLOCK_MONOTONIC` when this began, nanoseconds. A clock that is set meanwhile
    /// changes no duration.
    wall_offset: u64,
}

/// The totals of processes that have ended.
#[derive(Debug, Default)]
struct ExitedTotals {
    last_seen: Cpu,
    /// CPU time that parents had taken over before the first sample.
    taken_over_at_first: Cpu,
    scheduled: Scheduled,
}

impl Sampler {
    /// Follows the tree below and including `root`, without the processes in `exclude` and their descendants.
    #[must_use]
    pub fn new(root: u32, exclude: &[u32]) -> Self {
        Self::with_roots(&[root], exclude)
    }

    /// Follows the trees below several processes as one.
    #[must_use]
    pub fn with_roots(roots: &[u32], exclude: &[u32]) -> Self {
        let pids = |pids: &[u32]| pids.iter().copied().map(number).collect();
        Self {
            roots: pids(roots),
            exclude: pids(exclude),
            living: BTreeMap::new(),
            exited: ExitedTotals::default(),
            before: None,
            waited_before: None,
            reads_pss: true,
            scan_always: false,
            taken: 0,
            wall_offset: clock::wall_offset(),
        }
    }

    /// Follows one more process from the next sample on, such as a server that was started again.
    pub fn add_root(&mut self, root: u32) {
        self.roots.push(number(root));
    }

    /// Returns true if a process is followed, or will be from the next sample on, and had not ended by the last sample.
    #[must_use]
    pub fn is_following(&self, pid: u32) -> bool {
        let pid = number(pid);
        let living = self.living.get(&pid);
        self.roots.contains(&pid) || living.is_some_and(|process| !process.stat.is_zombie())
    }

    /// Excludes processes that a followed process will start.
    pub fn exclude(&mut self, pids: &[u32]) {
        self.exclude.extend(pids.iter().copied().map(number));
    }

    /// Takes one sample of the tree. `now_ns` is [`clock::now`], and durations between samples are its differences. The CPU percentage covers the time since the previous
    /// sample, and is 0 in the first one. A tree that has ended keeps its sums and has no memory.
    pub fn sample(&mut self, now_ns: u64) -> Sample {
        self.follow();
        let seldom = self.taken.is_multiple_of(EVERY_NTH);
        let mut sample = Sample {
            unix_ns: now_ns + self.wall_offset,
            ..Sample::default()
        };
        add_scheduled(&mut sample, self.exited.scheduled);
        for process in self.living.values_mut() {
            process.add_to(&mut sample, seldom, now_ns);
        }
        if seldom && self.reads_pss {
            sample.pss_kb = self.pss_kb();
        }
        let cpu = self.add_cpu(&mut sample, now_ns);
        // A sample without processes is not kept: the next one has the use since the last that is.
        if self.taken == 0 || sample.processes > 0 {
            self.before = Some((now_ns, cpu));
        }
        self.add_wait(&mut sample, now_ns);
        self.taken += 1;
        sample
    }

    /// Returns the CPU time of the tree, in clock ticks, as [`Self::sample`] counts it, and reads nothing else. `now_ns` is
    /// [`clock::now`].
    pub fn cpu_ticks(&mut self, now_ns: u64) -> u64 {
        self.follow();
        let mut sample = Sample::default();
        let cpu = self.add_cpu(&mut sample, now_ns);
        self.before = Some((now_ns, cpu));
        self.taken += 1;
        sample.utime_ticks + sample.stime_ticks
    }

    /// Removes ended processes, and finds new ones.
    fn follow(&mut self) {
        let exited: Vec<i32> = self
            .living
            .iter_mut()
            .filter_map(|(pid, process)| (!process.refresh()).then_some(*pid))
            .collect();
        for process in exited.iter().filter_map(|pid| self.living.remove(pid)) {
            self.exited.add(&process);
        }
        for root in std::mem::take(&mut self.roots) {
            self.track(root);
        }
        let mut unvisited: Vec<i32> = self.living.keys().copied().collect();
        let mut scanned = None;
        while let Some(pid) = unvisited.pop() {
            for child in self.children(pid, &mut scanned) {
                if self.track(child) {
                    unvisited.push(child);
                }
            }
        }
    }

    /// Starts to follow a process. Returns false if it is known, excluded, or has ended.
    fn track(&mut self, pid: i32) -> bool {
        if self.exclude.contains(&pid) || self.living.contains_key(&pid) {
            return false;
        }
        let Some(process) = Process::open(pid) else {
            return false;
        };
        self.living.insert(pid, process);
        true
    }

    /// Returns the children of a process. They are listed in one file per thread; with many threads, one scan of all
    /// processes is cheaper.
    fn children(&mut self, pid: i32, scanned: &mut Option<BTreeMap<i32, Vec<i32>>>) -> Vec<i32> {
        if !self.scan_always
            && let Some(process) = self.living.get(&pid)
            && !process.has_many_threads()
        {
            match process.children() {
                Ok(children) => return children,
                Err(process::NoChildrenFile) => self.scan_always = true,
            }
        }
        let by_parent = scanned.get_or_insert_with(|| {
            let mut by_parent: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
            for stat in stat::all() {
                by_parent.entry(stat.parent).or_default().push(stat.pid);
            }
            by_parent
        });
        by_parent.get(&pid).cloned().unwrap_or_default()
    }

    fn add_cpu(&mut self, sample: &mut Sample, now_ns: u64) -> Cpu {
        let own = Cpu::sum(self.living.values().map(|process| process.stat.cpu));
        let taken_over = Cpu::sum(
            self.living
                .values()
                .map(|process| process.stat.children_cpu),
        );
        if self.taken == 0 {
            self.exited.taken_over_at_first = taken_over;
        }
        let exited = taken_over
            .minus(self.exited.taken_over_at_first)
            .most(self.exited.last_seen);
        let (before_ns, before) = self.before.unwrap_or((now_ns, Cpu::default()));
        let cpu = Cpu::sum([own, exited]).most(before);
        (sample.utime_ticks, sample.stime_ticks) = (cpu.user, cpu.system);
        if self.before.is_some() && now_ns > before_ns {
            let spent_s = cpu.minus(before).ticks() as f64 / ticks_per_s() as f64;
            sample.cpu_pct = 100.0 * spent_s / ((now_ns - before_ns) as f64 / 1e9);
        }
        cpu
    }

    fn add_wait(&mut self, sample: &mut Sample, now_ns: u64) {
        let Some(waited) = sample.wait_ns else {
            return;
        };
        if let Some((before_ns, before)) = self.waited_before
            && now_ns > before_ns
        {
            let passed = (now_ns - before_ns) as f64;
            sample.wait_pct = Some(100.0 * waited.saturating_sub(before) as f64 / passed);
        }
        self.waited_before = Some((now_ns, waited));
    }

    fn pss_kb(&mut self) -> Option<u64> {
        let began = clock::now();
        let sum = self.living.values().map(Process::pss_kb).sum();
        self.reads_pss = clock::now() - began <= PSS_TOO_SLOW_NS;
        sum
    }
}

/// Converts a process id to the kernel's form, or to 0 if it does not fit.
fn number(pid: u32) -> i32 {
    i32::try_from(pid).unwrap_or(0)
}

impl ExitedTotals {
    fn add(&mut self, process: &Process) {
        self.last_seen = Cpu::sum([self.last_seen, process.stat.cpu, process.stat.children_cpu]);
        self.scheduled.add(process.scheduled());
    }
}

impl Cpu {
    fn sum(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::default(), |sum, part| Self {
            user: sum.user + part.user,
            system: sum.system + part.system,
        })
    }

    fn minus(self, other: Self) -> Self {
        Self {
            user: self.user.saturating_sub(other.user),
            system: self.system.saturating_sub(other.system),
        }
    }

    fn most(self, other: Self) -> Self {
        Self {
            user: self.user.max(other.user),
            system: self.system.max(other.system),
        }
    }
}

/// Returns the processes of the trees below and including `roots`, without the ones in `exclude` and their descendants.
#[must_use]
pub fn tree(roots: &[u32], exclude: &[u32]) -> Vec<u32> {
    let mut sampler = Sampler::with_roots(roots, exclude);
    sampler.follow();
    let pids = sampler.living.into_keys();
    pids.map(i32::cast_unsigned).collect()
}

/// Returns the CPU time of every visible process, in clock ticks, by process id.
#[must_use]
pub fn cpu_ticks() -> BTreeMap<i32, u64> {
    stat::all()
        .map(|stat| (stat.pid, stat.cpu.ticks()))
        .collect()
}

/// Returns the number of clock ticks per second: 100 on Linux.
#[must_use]
pub fn ticks_per_s() -> u64 {
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK);
    ticks
        .ok()
        .flatten()
        .and_then(|ticks| u64::try_from(ticks).ok())
        .unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use measure::usage::UsageSummary;

    use super::*;

    #[test]
    fn proportional_memory_is_read_in_one_sample_of_ten_unless_that_takes_long() {
        let read = |is_cheap| {
            let mut sampler = Sampler::new(std::process::id(), &[]);
            let read = (0..20).map(|at| {
                sampler.reads_pss = is_cheap;
                sampler.sample(at).pss_kb.is_some()
            });
            read.collect::<Vec<_>>()
        };
        assert_eq!(
            read(true),
            (0..20).map(|at| at % 10 == 0).collect::<Vec<_>>()
        );
        assert_eq!(read(false), [false; 20]);
    }

    #[test]
    fn this_process_is_sampled_alone_and_has_files_threads_and_memory() {
        let _held: Vec<_> = (0..50)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        let sample = Sampler::new(std::process::id(), &[]).sample(0);
        assert!(sample.processes >= 1 && sample.threads >= 2, "{sample:?}");
        assert!(
            sample.fds >= 53 && sample.rss_kb > 500 && sample.vsz_kb > sample.rss_kb,
            "{sample:?}"
        );
        assert!(
            sample
                .pss_kb
                .is_none_or(|pss| pss > 100 && pss <= sample.rss_kb + 1000),
            "{sample:?}"
        );
        assert!(
            sample.voluntary_switches + sample.involuntary_switches > 0,
            "{sample:?}"
        );
    }

    #[test]
    fn the_mean_of_two_samples_is_that_of_the_time_between_them_however_long_reading_takes() {
        let mut sampler = Sampler::new(std::process::id(), &[]);
        let first = sampler.sample(1_000_000_000);
        while clock::thread_cpu_ns() < 50_000_000 {}
        let second = sampler.sample(3_000_000_000);
        assert_eq!(second.unix_ns - first.unix_ns, 2_000_000_000);
        assert!(second.cpu_pct > 0.0, "{second:?}");
        let mean = UsageSummary::from_samples(&[first, second.clone()], ticks_per_s()).cpu_avg_pct;
        assert!((mean - second.cpu_pct).abs() < 1e-9, "{mean} {second:?}");
    }

    #[test]
    fn the_mean_is_in_the_samples_of_a_tree_that_was_replaced() {
        let mut busy = std::process::Command::new("sh");
        let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut sampler = Sampler::new(busy.id(), &[]);
        let first = sampler.sample(1_000_000_000);
        harness_testing::processes::wait_until("its CPU time", || {
            stat::read(busy.id().cast_signed()).unwrap().cpu.ticks() > 5
        });
        let between = sampler.sample(2_000_000_000);
        busy.kill().unwrap();
        // Its CPU time is still known, so that this sample has some.
        harness_testing::processes::wait_until("its end", || {
            stat::read(busy.id().cast_signed()).unwrap().is_zombie()
        });
        assert_eq!(sampler.sample(3_000_000_000).processes, 0);
        busy.wait().unwrap();
        while clock::thread_cpu_ns() < 50_000_000 {}
        sampler.add_root(std::process::id());
        let last = sampler.sample(4_000_000_000);
        assert!(between.cpu_pct > 4.0 && last.processes == 1, "{last:?}");
        let uses = [between.cpu_pct, 2.0 * last.cpu_pct];
        let samples = [first, between, last];
        let mean = UsageSummary::from_samples(&samples, ticks_per_s()).cpu_avg_pct;
        let expected = uses.iter().sum::<f64>() / 3.0;
        assert!((mean - expected).abs() < 1e-9, "{mean} {samples:?}");
    }

    #[test]
    fn a_thread_that_runs_is_the_busiest_and_waiting_for_a_cpu_is_counted() {
        let mut sampler = Sampler::new(std::process::id(), &[]);
        let first = sampler.sample(clock::now());
        assert_eq!((first.busiest_thread_pct, first.wait_pct), (None, None));
        let begun = clock::thread_cpu_ns();
        while clock::thread_cpu_ns() < begun + 20_000_000 {}
        let second = sampler.sample(clock::now());
        assert!(second.busiest_thread_pct > Some(0.0), "{second:?}");
        assert!(
            second.wait_ns >= first.wait_ns && second.wait_pct >= Some(0.0),
            "{second:?}"
        );
    }

    #[test]
    fn an_excluded_root_and_a_root_that_is_not_there_cost_nothing() {
        let own = std::process::id();
        for mut sampler in [
            Sampler::new(own, &[own]),
            Sampler::new(u32::MAX, &[]),
            Sampler::new(0, &[]),
        ] {
            let sample = sampler.sample(1);
            assert_eq!(
                (sample.processes, sample.rss_kb, sample.utime_ticks),
                (0, 0, 0)
            );
        }
    }
}
