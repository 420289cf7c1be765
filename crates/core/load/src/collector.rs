//! Merges the seconds of all workers: for the live views, and to totals for the result.

use std::collections::BTreeMap;

use measure::disturbance::Stalls;
use measure::result::{Second, SecondSeries};
use measure::tally::Tally;

use crate::recorder::{ActiveSecond, SECOND_NS, UNFINISHED, WorkerSecond};

/// A second of the whole driver.
#[derive(Debug)]
pub struct RunSecond {
    /// The index of the second since the origin of the run.
    pub second: u64,
    /// The recorded values.
    pub tally: Tally,
    /// The open operations, summed over the workers. One worker may begin what another ends.
    active: ActiveSecond,
    /// True if one worker ended what another began. The peaks mean nothing then, and the number at the end of the second
    /// replaces them.
    shared: bool,
    /// Stalls of all workers.
    stalls: Stalls,
    /// CPU use of the busiest worker, and wait of the worker that waited longest, percent of the time.
    worker_cpu_pct: Option<f64>,
    worker_wait_pct: Option<f64>,
}

impl RunSecond {
    /// Creates a second that holds only recorded values.
    fn new(second: u64, tally: Tally) -> Self {
        Self {
            second,
            tally,
            active: ActiveSecond::default(),
            shared: false,
            stalls: Stalls::default(),
            worker_cpu_pct: None,
            worker_wait_pct: None,
        }
    }

    /// Returns the operations open at the end of the second. If one worker ends what another begins, the two may
    /// report it a moment apart.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.active.at_end.max(0) as u64
    }

    /// Converts the second to the form stored in a result.
    #[must_use]
    pub fn result(&self) -> Second {
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        let mut series: Vec<SecondSeries> = self
            .tally
            .series()
            .filter_map(|(name, values)| SecondSeries::from_distribution(name, values))
            .collect();
        series.extend(SecondSeries::from_distribution("lag", &self.tally.lag));
        Second {
            second: self.second,
            active: self.open(),
            active_peak: if self.shared {
                self.open()
            } else {
                self.active.peak.max(0) as u64
            },
            active_mean: Some(self.active.integral_ns as f64 / SECOND_NS as f64),
            active_slack: Some(self.active.slack_ns)
                .filter(|slack| *slack > 0)
                .map(seconds),
            stalls: self.stalls.found(),
            worker_cpu_pct: self.worker_cpu_pct,
            worker_wait_pct: self.worker_wait_pct,
            counts: self.tally.counts.clone(),
            errors: self.tally.errors.clone(),
            series,
        }
    }
}

/// The state of one worker.
#[derive(Debug, Default)]
struct WorkerState {
    /// The first second that the worker has not reported.
    next: u64,
    cpu_ns: u64,
    ended: Option<Result<(), String>>,
    /// The last second that the worker reported, and its open operations then. An ended worker leaves its operations
    /// to others.
    last: u64,
    active: i64,
}

/// Collects the seconds of a fixed number of workers.
#[derive(Debug)]
pub struct Collector {
    workers: Vec<WorkerState>,
    pending: BTreeMap<u64, RunSecond>,
    /// The second after the last returned one.
    next: u64,
    /// Cleared tallies for the next seconds, so that memory does not grow with the first seconds of a run.
    clean: Vec<Tally>,
    /// True if operations that failed workers left open count as unfinished.
    abandons: bool,
}

impl Collector {
    /// Creates a collector for workers 0 to `workers` − 1. The first second is merged in `clean`. Operations that failed
    /// workers left open count as unfinished, unless `others_end` them: workers of other processes, or a ledger.
    #[must_use]
    pub fn new(workers: u64, clean: Tally, others_end: bool) -> Self {
        Self {
            workers: (0..workers).map(|_| WorkerState::default()).collect(),
            pending: BTreeMap::new(),
            next: 0,
            clean: vec![clean],
            abandons: !others_end,
        }
    }

    /// Merges the second of a worker and returns its tally for reuse.
    pub fn add(&mut self, worker_second: WorkerSecond) -> Tally {
        let WorkerSecond {
            worker,
            second,
            tally,
            active,
            thread,
            stalls,
            ended,
        } = worker_second;
        let worker = &mut self.workers[usize::try_from(worker).expect("few workers")];
        if worker.ended.is_some() {
            return tally;
        }
        // A worker may end with an empty second, which may have been returned long ago.
        if ended.is_none() || !tally.is_empty() {
            let clean = &mut self.clean;
            let run_second = self.pending.entry(second).or_insert_with(|| {
                RunSecond::new(second, clean.pop().unwrap_or_else(|| tally.another()))
            });
            run_second.tally.merge(&tally);
            run_second.active.at_end += active.at_end;
            run_second.active.peak += active.peak;
            run_second.active.integral_ns += active.integral_ns;
            run_second.active.slack_ns += active.slack_ns;
            run_second.shared |= active.at_end < 0;
            run_second.stalls.merge(stalls);
            // Percent of the second, or of the longer span over which the time was counted.
            let pct = |ns: u64| 100.0 * ns as f64 / thread.span_ns.max(SECOND_NS) as f64;
            let most = |one: Option<f64>, ns: Option<u64>| {
                one.into_iter().chain(ns.map(pct)).reduce(f64::max)
            };
            run_second.worker_cpu_pct = most(run_second.worker_cpu_pct, Some(thread.cpu_ns));
            run_second.worker_wait_pct = most(run_second.worker_wait_pct, thread.wait_ns);
        } else if let Some(run_second) = self.pending.get_mut(&second) {
            run_second.active.integral_ns += active.integral_ns;
        }
        worker.next = second + 1;
        (worker.last, worker.active) = (second, active.at_end);
        worker.cpu_ns += thread.cpu_ns;
        if let Some(ended) = ended {
            worker.next = u64::MAX;
            worker.ended = Some(ended);
        }
        tally
    }

    /// Returns the next second that all workers have reported. The last one counts the operations that failed workers
    /// left open as unfinished.
    pub fn next_second(&mut self) -> Option<RunSecond> {
        self.reported_second().or_else(|| self.abandoned_second())
    }

    /// Returns an extra second for the operations that nobody will end, once all workers have ended and some of them
    /// failed. It cannot be known earlier: one worker may end what another began.
    fn abandoned_second(&mut self) -> Option<RunSecond> {
        if !self.abandons
            || !self.over()
            || !self.pending.is_empty()
            || self.failures().next().is_none()
        {
            return None;
        }
        let abandoned = Some(self.open()).filter(|open| *open > 0)?;
        self.workers.iter_mut().for_each(|worker| worker.active = 0);
        let mut tally = self.clean.pop()?;
        tally.count(UNFINISHED, abandoned);
        Some(RunSecond::new(self.next, tally))
    }

    fn reported_second(&mut self) -> Option<RunSecond> {
        let first = self.pending.first_entry()?;
        let second = *first.key();
        if self.workers.iter().any(|worker| worker.next <= second) {
            return None;
        }
        let mut run_second = first.remove();
        self.next = second + 1;
        for worker in &self.workers {
            if worker.ended.is_some() && worker.last < second {
                run_second.active.at_end += worker.active;
                run_second.active.integral_ns += worker.active * SECOND_NS as i64;
                run_second.shared |= worker.active != 0;
            }
        }
        Some(run_second)
    }

    /// Gives up every worker that has not ended: it failed for the reason `why`, and is no longer listened to. Its open
    /// operations become unfinished.
    pub fn give_up(&mut self, why: &str) {
        for worker in &mut self.workers {
            if worker.ended.is_none() {
                worker.next = u64::MAX;
                worker.ended = Some(Err(why.to_owned()));
            }
        }
    }

    /// Takes back a second after it was read, to reuse its memory.
    pub fn give_back(&mut self, mut run_second: RunSecond) {
        run_second.tally.clear();
        self.clean.push(run_second.tally);
    }

    /// Counts the operations that were open when the workers last reported.
    #[must_use]
    pub fn open(&self) -> u64 {
        let open: i64 = self.workers.iter().map(|worker| worker.active).sum();
        open.max(0) as u64
    }

    /// Returns true once all workers have ended.
    #[must_use]
    pub fn over(&self) -> bool {
        self.workers.iter().all(|worker| worker.ended.is_some())
    }

    /// Returns the errors of the workers that failed.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.workers
            .iter()
            .filter_map(|worker| worker.ended.as_ref()?.as_ref().err().map(String::as_str))
    }

    /// Returns the CPU time of the busiest worker as percent of `wall_ns`.
    #[must_use]
    pub fn busiest_pct(&self, wall_ns: u64) -> f64 {
        let busiest = self.workers.iter().map(|worker| worker.cpu_ns).max();
        100.0 * busiest.unwrap_or(0) as f64 / wall_ns.max(SECOND_NS / 10) as f64
    }
}

#[cfg(test)]
mod tests {
    use measure::spec::{SeriesRole, SeriesSpec};
    use measure::tally::Series;

    use super::*;
    use crate::recorder::ThreadSpan;

    const SERIES: &[SeriesSpec] = &[SeriesSpec::new("one", SeriesRole::Main)];

    fn active(at_end: i64) -> ActiveSecond {
        ActiveSecond {
            at_end,
            ..ActiveSecond::default()
        }
    }

    fn worker_second(worker: u64, second: u64, ended: bool) -> WorkerSecond {
        let mut tally = Tally::new(SERIES);
        tally.record(Series(0), 1_000 + worker);
        tally.count("started", 1);
        WorkerSecond {
            worker,
            second,
            tally,
            active: ActiveSecond {
                at_end: 1,
                peak: 2,
                integral_ns: 500_000_000,
                slack_ns: 0,
            },
            thread: ThreadSpan {
                span_ns: SECOND_NS,
                cpu_ns: 100_000_000 * (worker + 1),
                wait_ns: Some(50_000_000),
            },
            stalls: Stalls::default(),
            ended: ended.then_some(Ok(())),
        }
    }

    #[test]
    fn a_second_is_a_row_once_every_worker_has_reported_it() {
        let mut collector = Collector::new(2, Tally::new(SERIES), false);
        collector.add(worker_second(0, 0, false));
        assert!(collector.next_second().is_none());
        collector.add(worker_second(1, 0, false));
        let run_second = collector.next_second().expect("both have reported");
        assert_eq!(
            (
                run_second.second,
                run_second.active.at_end,
                run_second.active.peak,
                run_second.tally.counted("started")
            ),
            (0, 2, 4, 2)
        );
        assert!(collector.next_second().is_none());
    }

    #[test]
    fn a_worker_that_is_given_up_leaves_its_operations_unfinished_and_reports_no_more() {
        let mut collector = Collector::new(2, Tally::new(SERIES), false);
        collector.add(worker_second(0, 0, false));
        collector.add(worker_second(1, 0, true));
        collector.add(worker_second(0, 1, false));
        collector.give_up("hung");
        assert!(collector.over());
        assert_eq!(collector.failures().collect::<Vec<_>>(), ["hung"]);
        let mut seconds = Vec::new();
        while let Some(run_second) = collector.next_second() {
            let counted = |name| run_second.tally.counted(name);
            seconds.push((run_second.second, counted("started"), counted(UNFINISHED)));
            collector.give_back(run_second);
        }
        assert_eq!(seconds, [(0, 2, 0), (1, 1, 0), (2, 0, 2)]);
        collector.add(worker_second(0, 2, false));
        assert!(collector.next_second().is_none());
    }

    #[test]
    fn a_row_has_the_busiest_worker_and_the_one_that_waited_longest_and_the_stalls_of_all() {
        let mut collector = Collector::new(2, Tally::new(SERIES), false);
        let mut held = Stalls::default();
        held.add(30_000_000);
        collector.add(WorkerSecond {
            stalls: held,
            ..worker_second(0, 0, false)
        });
        // A turn of two seconds; the worker waited for one of them.
        collector.add(WorkerSecond {
            thread: ThreadSpan {
                span_ns: 2 * SECOND_NS,
                cpu_ns: 300_000_000,
                wait_ns: Some(SECOND_NS),
            },
            stalls: held,
            ..worker_second(1, 0, false)
        });
        let run_second = collector
            .next_second()
            .expect("both have reported")
            .result();
        assert_eq!(
            (run_second.worker_cpu_pct, run_second.worker_wait_pct),
            (Some(15.0), Some(50.0))
        );
        let all = Stalls {
            count: 2,
            longest_ns: 30_000_000,
            total_ns: 60_000_000,
            ..Stalls::default()
        };
        assert_eq!(run_second.stalls, Some(all));
    }

    #[test]
    fn operations_begun_by_one_worker_and_ended_by_another_are_open_only_in_between() {
        let mut collector = Collector::new(2, Tally::new(SERIES), false);
        let of = |worker, at_end, peak| WorkerSecond {
            active: ActiveSecond {
                peak,
                ..active(at_end)
            },
            ..worker_second(worker, 0, false)
        };
        collector.add(of(0, 100, 100));
        collector.add(of(1, -97, 0));
        let run_second = collector
            .next_second()
            .expect("both have reported")
            .result();
        assert_eq!((run_second.active, run_second.active_peak), (3, 3));
        let last = WorkerSecond {
            ended: Some(Ok(())),
            ..of(0, 100, 100)
        };
        collector.add(last);
        let after = WorkerSecond {
            second: 1,
            ..of(1, -99, -97)
        };
        collector.add(after);
        let seconds: Vec<u64> = std::iter::from_fn(|| collector.next_second())
            .map(|run_second| run_second.open())
            .collect();
        assert_eq!(
            seconds.last(),
            Some(&1),
            "what an ended worker began is ended by another"
        );
    }

    #[test]
    fn operations_that_an_ended_worker_left_open_are_open_in_every_later_second() {
        let mut collector = Collector::new(2, Tally::new(SERIES), false);
        let of = |worker, second, at_end, integral_ns, ended| WorkerSecond {
            active: ActiveSecond {
                integral_ns,
                ..active(at_end)
            },
            ..worker_second(worker, second, ended)
        };
        collector.add(of(0, 0, 10, 10_000_000_000, true));
        collector.add(of(1, 0, -4, -2_000_000_000, false));
        collector.add(of(1, 1, -10, -8_000_000_000, true));
        let mut means = Vec::new();
        while let Some(run_second) = collector.next_second() {
            means.push(run_second.result().active_mean);
        }
        assert_eq!(means, [Some(8.0), Some(2.0)]);
    }

    #[test]
    fn a_worker_that_skipped_a_second_holds_up_no_row() {
        let mut collector = Collector::new(2, Tally::new(SERIES), false);
        collector.add(worker_second(0, 0, false));
        collector.add(worker_second(0, 1, false));
        collector.add(worker_second(1, 1, false));
        assert_eq!(
            collector.next_second().map(|run_second| run_second.second),
            Some(0)
        );
        assert_eq!(
            collector.next_second().map(|run_second| run_second.second),
            Some(1)
        );
    }

    #[test]
    fn a_lost_worker_is_a_failure_and_holds_up_no_row() {
        let mut collector = Collector::new(2, Tally::new(SERIES), false);
        collector.add(worker_second(0, 0, true));
        assert!(collector.next_second().is_none() && !collector.over());
        collector.add(lost(1, 0, 0));
        assert_eq!(
            collector.next_second().map(|run_second| run_second.second),
            Some(0)
        );
        assert!(collector.over());
        assert_eq!(collector.failures().collect::<Vec<_>>(), ["killed"]);
    }

    fn lost(worker: u64, second: u64, open: i64) -> WorkerSecond {
        WorkerSecond::lost(
            worker,
            second,
            open,
            Tally::new(SERIES),
            "killed".to_owned(),
        )
    }

    /// Takes all available seconds, and returns the second and the unfinished count of each.
    fn unfinished(collector: &mut Collector) -> Vec<(u64, u64)> {
        let mut seconds = Vec::new();
        while let Some(run_second) = collector.next_second() {
            seconds.push((run_second.second, run_second.tally.counted(UNFINISHED)));
            collector.give_back(run_second);
        }
        seconds
    }

    #[test]
    fn open_operations_of_lost_workers_are_unfinished_once_and_after_all_have_ended() {
        let mut collector = Collector::new(3, Tally::new(SERIES), false);
        let of = |worker, second, open, ended: Option<Result<(), String>>| WorkerSecond {
            active: active(open),
            ended,
            ..worker_second(worker, second, false)
        };
        collector.add(of(0, 0, 86, None));
        collector.add(of(1, 0, 5, None));
        collector.add(of(2, 0, 0, Some(Ok(()))));
        assert_eq!(unfinished(&mut collector), [(0, 0)]);
        collector.add(lost(0, 0, 86));
        assert_eq!(unfinished(&mut collector), [], "the other one goes on");
        let failed = Err("panicked".to_owned());
        collector.add(of(1, 1, 7, Some(failed)));
        assert_eq!(unfinished(&mut collector), [(1, 0), (2, 86 + 7)]);
        assert_eq!(unfinished(&mut collector), []);
    }

    #[test]
    fn operations_begun_by_a_lost_worker_and_ended_by_another_are_not_unfinished() {
        let mut collector = Collector::new(2, Tally::new(SERIES), false);
        let ends = WorkerSecond {
            active: active(-97),
            ended: Some(Ok(())),
            ..worker_second(1, 0, false)
        };
        collector.add(ends);
        collector.add(lost(0, 0, 100));
        assert_eq!(unfinished(&mut collector), [(0, 0), (1, 3)]);
    }

    #[test]
    fn operations_that_a_ledger_settles_are_not_unfinished() {
        let abandoned = |others_end: bool| {
            let mut collector = Collector::new(1, Tally::new(SERIES), others_end);
            collector.add(lost(0, 0, 100));
            let found = unfinished(&mut collector).into_iter();
            found.map(|(_, unfinished)| unfinished).sum::<u64>()
        };
        assert_eq!([false, true].map(abandoned), [100, 0]);
    }

    #[test]
    fn a_driver_that_lost_count_without_losing_a_worker_is_not_helped_out() {
        let mut collector = Collector::new(1, Tally::new(SERIES), false);
        collector.add(worker_second(0, 0, true));
        assert_eq!(unfinished(&mut collector), [(0, 0)], "one is open");
    }
}
