//! Warnings about figures that were measured under a disturbance.
//!
//! All limits are defined here, each with its reason; `docs/src/reference/limits.md` lists them.

use super::{Disturbance, Stalls};
use crate::units;
use crate::warning::{Kind, Severity, WORKER_CPU_LIMIT_PCT, Warning};

/// Length of a single stall that makes a result SUSPECT however long the run was. A tenth of a second is longer than
/// any wake-up on an idle machine, and it shows in the maximum of every series.
const LONG_STALL_NS: u64 = 100_000_000;
/// Share of the workers' time in stalls above which a result is SUSPECT, in percent: the share that a p99.9 ignores.
const STALLED_SUSPECT_PCT: f64 = 0.1;
/// Share of the workers' time in stalls above which a result is INVALID, in percent: the share that a p99 ignores.
const STALLED_INVALID_PCT: f64 = 1.0;
/// Share of the workers' time in interruptions shorter than a stall above which a result is SUSPECT, in percent. An
/// idle machine has none.
const SHORT_SUSPECT_PCT: f64 = 1.0;
/// Share of the workers' time in interruptions shorter than a stall above which a result is INVALID, in percent: a
/// tenth, as for the driver's lateness.
const SHORT_INVALID_PCT: f64 = 10.0;
/// Interrupted waits of a worker in a second above which a result is SUSPECT. A driver that nobody stops or traces has
/// none, whatever the daemon does.
const INTERRUPTED_SUSPECT: f64 = 1.0;
/// CPU use of other processes above which a result is SUSPECT, in percent of the CPUs that daemon and driver may use.
/// It is twice the use of an idle machine with a desktop, and more than the 3 % that a comparison calls a difference.
const OTHERS_SUSPECT_PCT: f64 = 5.0;
/// CPU use of other processes above which a result is INVALID if daemon or driver waited too: one of four CPUs was
/// taken.
pub(super) const OTHERS_INVALID_PCT: f64 = 25.0;
/// Share of a run's samples with others above [`OTHERS_INVALID_PCT`] that is tolerated, in percent: the share that a
/// p99 ignores. One sample is always tolerated, since a sample lasts a second and a run may last five.
const DISTURBED_SAMPLES_PCT: f64 = 1.0;
/// Waiting time for a CPU used by others, in percent of the time, above which a result is SUSPECT: the limit of
/// [`OTHERS_SUSPECT_PCT`], applied to a side that is bound to one CPU.
const WAIT_SUSPECT_PCT: f64 = 5.0;
/// Waiting time for a CPU used by others above which a result is INVALID, in percent: a tenth, as for the driver's
/// lateness.
const WAIT_INVALID_PCT: f64 = 10.0;
/// Waiting time for a CPU that is noted whoever used it, in percent of the time. Without other processes, daemon and
/// driver wait for each other, as in every closed loop that shares its CPUs.
const WAIT_NOTED_PCT: f64 = 25.0;
/// Waiting time above which a result is SUSPECT if the user of the CPU is not known, in percent. A worker that shares
/// its CPU with one thread of the daemon waits at most half of the time.
const WAIT_UNKNOWN_SUSPECT_PCT: f64 = 50.0;
/// Share of periods with the driver throttled by its control group's quota above which a result is INVALID, in percent.
/// Any throttling makes it SUSPECT. A period is 100 ms, so more than the share that a p99 ignores was late by up to
/// that.
const THROTTLED_INVALID_PCT: f64 = 1.0;
/// Share of measured seconds with a fully used worker above which a result is INVALID, in percent: a tenth, as for the
/// driver's lateness. Two such seconds make it SUSPECT, one is a note.
const FULL_SECONDS_INVALID_PCT: f64 = 10.0;
/// CPU use of a daemon's busiest thread, or of all CPUs together, above which it is called full, in percent.
const FULL_PCT: f64 = 85.0;

/// Further facts needed to derive warnings from a disturbance.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context {
    /// Workers of the driver.
    pub workers: u64,
    /// True if each worker uses a whole core on purpose.
    pub busy_waits: bool,
    /// True if every client continues as soon as it is answered.
    pub closed: bool,
    /// CPU use of the busiest worker over the run, percent of a core.
    pub worker_cpu_pct: f64,
    /// Involuntary context switches of the driver.
    pub forced_switches: u64,
    /// CPU use of the busiest thread of the daemon or of a service over the run, percent of a core.
    pub daemon_thread_pct: Option<f64>,
    /// CPU use of the daemons over the run, percent of the CPUs or of the quota that they were given.
    pub daemon_allotment_pct: Option<f64>,
}

impl Disturbance {
    /// Returns warnings about figures measured under this disturbance.
    #[must_use]
    pub fn warnings(&self, context: &Context) -> Vec<Warning> {
        let found = [
            self.unsampled(),
            self.other_work(context),
            self.disk.and_then(|disk| disk.warning()),
            self.throttled(),
            self.daemon_throttled(),
            self.stalled(context),
            self.stopped_shortly(context),
            self.full_worker(context),
            self.shared_cpus(context),
            self.unfilled(context),
        ];
        found.into_iter().flatten().collect()
    }

    /// Returns the CPU use of others in percent of the CPUs that daemon and driver may use.
    fn others_pct(&self) -> Option<f64> {
        Some(self.others_cpu_pct? / self.cpus.max(1) as f64)
    }

    /// Returns the part of a waiting time caused by others, in proportion to their share of the CPU time used.
    fn due_to_others(&self, wait_pct: Option<f64>) -> Option<f64> {
        let (others, own) = (self.others_cpu_pct?, self.own_cpu_pct?);
        let part = others / (others + own).max(f64::MIN_POSITIVE);
        Some(wait_pct? * part)
    }

    /// Checks that the machine was sampled in the measured time.
    fn unsampled(&self) -> Option<Warning> {
        let is_unsampled = self.samples == 0 && self.seconds > 0;
        is_unsampled.then(|| {
            let message = "the measured time is too short to be judged: no sample of other processes' CPU time lies in it";
            Kind::OtherWork.suspect(message, "measure for at least a second")
        })
    }

    /// Checks for other work on the machine.
    fn other_work(&self, context: &Context) -> Option<Warning> {
        let others = self.others_pct()?;
        let waits = [self.worker_wait_pct, self.daemon_wait_pct];
        let longest = waits
            .into_iter()
            .filter_map(|wait| self.due_to_others(wait))
            .reduce(f64::max);
        let is_disturbed = self.disturbed_samples > 1
            && 100.0 * self.disturbed_samples as f64 > DISTURBED_SAMPLES_PCT * self.samples as f64;
        let wait = longest.unwrap_or(0.0);
        let may_have_waited = longest.is_none_or(|wait| wait > WAIT_SUSPECT_PCT);
        let severity =
            if wait > WAIT_INVALID_PCT || (others > OTHERS_INVALID_PCT && may_have_waited) {
                Severity::Invalid
            } else if others > OTHERS_SUSPECT_PCT || wait > WAIT_SUSPECT_PCT || is_disturbed {
                Severity::Suspect
            } else {
                return None;
            };
        let cpus = match self.cpus {
            1 => "CPU".to_owned(),
            several => format!("{several} CPUs"),
        };
        let peak = self.others_cpu_peak_pct.unwrap_or(0.0) / self.cpus.max(1) as f64;
        let mut message = format!(
            "other processes used {} of the {cpus} during the run (peak {})",
            units::percent(others),
            units::percent(peak)
        );
        if let Some(wait) = self.worker_wait_pct {
            message += &format!(
                "; a worker of the driver waited {} of the time for a CPU ({} forced switches)",
                units::percent(wait),
                units::count(context.forced_switches)
            );
        }
        if let Some(wait) = self.daemon_wait_pct {
            message += &format!("; the daemon waited {}", units::percent(wait));
        }
        let hint = "stop other programs, or give daemon and driver their own CPUs (--driver-cpus, --daemon-cpus), and repeat";
        Some(Kind::OtherWork.warning(severity, message, hint))
    }

    /// Checks the quota of the driver's control group.
    fn throttled(&self) -> Option<Warning> {
        let quota = self.driver_quota?;
        let severity = Severity::above(quota.pct(), 0.0, THROTTLED_INVALID_PCT)?;
        let message = format!(
            "the CPU quota of its control group throttled the driver in {} of {} periods, {} in total",
            units::count(quota.throttled),
            units::count(quota.periods),
            units::duration(quota.held_ns)
        );
        let hint = "raise the quota (cpu.max, cpu.cfs_quota_us, docker --cpus), or run the driver outside that group";
        Some(Kind::Throttled.warning(severity, message, hint))
    }

    /// Checks the quota of the daemon's own group, which belongs to the tested configuration.
    fn daemon_throttled(&self) -> Option<Warning> {
        let quota = self.daemon_quota.filter(|quota| quota.throttled > 0)?;
        let message = format!(
            "the CPU quota of its control group throttled the daemon in {} of {} periods",
            units::count(quota.throttled),
            units::count(quota.periods)
        );
        let hint = "the figures describe a daemon with this quota: state the quota next to them";
        Some(Kind::Throttled.note(message, hint))
    }

    /// Checks for stalls of the workers' loops.
    fn stalled(&self, context: &Context) -> Option<Warning> {
        let stalls = Some(self.stalls).filter(|stalls| stalls.count > 0)?;
        let workers = context.workers.max(1);
        let time_ns = (self.seconds * workers) as f64 * 1e9;
        let share = 100.0 * stalls.total_ns as f64 / time_ns.max(1.0);
        let is_long = stalls.longest_ns >= LONG_STALL_NS;
        // One wake-up that was late for all workers.
        let is_single = stalls.count <= workers && !is_long;
        let severity = match Severity::above(share, STALLED_SUSPECT_PCT, STALLED_INVALID_PCT) {
            _ if is_single => Severity::Note,
            None if is_long => Severity::Suspect,
            by_share => by_share.unwrap_or(Severity::Note),
        };
        let [longest, total] = [stalls.longest_ns, stalls.total_ns].map(units::duration);
        let (count, share) = (units::count(stalls.count), units::percent(share));
        let message = format!(
            "workers of the driver stalled {count} times although operations were due: the longest {longest}, {total} in total, {share} of their time"
        );
        let hint = "check whether the driver was stopped or other processes used its CPUs; operations that ended during a stall have times caused by the driver: give it its own cores and repeat";
        Some(Kind::Stalled.warning(severity, message, hint))
    }

    /// Checks for interruptions of the workers' loops that are shorter than a stall, and come often.
    fn stopped_shortly(&self, context: &Context) -> Option<Warning> {
        let Stalls {
            short_ns,
            interrupted,
            ..
        } = self.stalls;
        let worker_seconds = (self.seconds * context.workers.max(1)).max(1) as f64;
        let share = 100.0 * short_ns as f64 / (worker_seconds * 1e9);
        let is_interrupted = interrupted as f64 > INTERRUPTED_SUSPECT * worker_seconds;
        let by_waits = is_interrupted.then_some(Severity::Suspect);
        let severity =
            Severity::above(share, SHORT_SUSPECT_PCT, SHORT_INVALID_PCT).max(by_waits)?;
        let message = format!(
            "workers of the driver were stopped for short times: {} in total, {} of their time, while they were at work; {} of their waits for events were interrupted",
            units::duration(short_ns),
            units::percent(share),
            units::count(interrupted)
        );
        let hint = "check what stops the driver (signals, a debugger or tracer, a frozen control group): every time that is measured includes these stops";
        Some(Kind::Stalled.warning(severity, message, hint))
    }

    /// Checks for a worker that was fully used over the run or in some of its seconds.
    fn full_worker(&self, context: &Context) -> Option<Warning> {
        if context.busy_waits {
            return None;
        }
        let full = self.full_seconds;
        let is_often = 100.0 * full as f64 > FULL_SECONDS_INVALID_PCT * self.seconds as f64;
        let severity = match full {
            _ if context.worker_cpu_pct > WORKER_CPU_LIMIT_PCT => Severity::Invalid,
            0 => return None,
            1 => Severity::Note,
            _ if is_often => Severity::Invalid,
            _ => Severity::Suspect,
        };
        Some(Warning::generator_cpu_bound(
            severity,
            context.worker_cpu_pct,
            full,
            self.seconds,
        ))
    }

    /// Checks whether daemon and driver waited for each other.
    fn shared_cpus(&self, context: &Context) -> Option<Warning> {
        let wait = self.worker_wait_pct.filter(|wait| *wait > WAIT_NOTED_PCT)?;
        let others = self.due_to_others(Some(wait));
        if others.is_some_and(|others| others > WAIT_SUSPECT_PCT) {
            // `other_work` reports it.
            return None;
        }
        let user = match others {
            Some(_) => "which daemon and driver used themselves",
            None => "but it is not known which process used it",
        };
        // A closed loop is expected to fill what it gets. A rate that is not served may be the driver's own limit.
        let is_full = !context.closed && context.worker_cpu_pct + wait > WORKER_CPU_LIMIT_PCT;
        let is_unknown = others.is_none() && wait > WAIT_UNKNOWN_SUSPECT_PCT;
        let severity = if is_full || is_unknown {
            Severity::Suspect
        } else {
            Severity::Note
        };
        let limited = if is_full {
            ", and worked the rest of it: the driver may limit the rate"
        } else {
            ""
        };
        let message = format!(
            "a worker of the driver waited {} of the time for a CPU, {user} ({} forced switches){limited}",
            units::percent(wait),
            units::count(context.forced_switches)
        );
        let hint = "the measured times include that wait: give daemon and driver their own CPUs (--driver-cpus, --daemon-cpus), or lower the load";
        Some(Kind::SharedCpus.warning(severity, message, hint))
    }

    /// Checks for a closed loop that used neither side fully.
    fn unfilled(&self, context: &Context) -> Option<Warning> {
        let (own, daemon) = (self.own_cpu_pct?, context.daemon_thread_pct?);
        let worker = context.worker_cpu_pct;
        let all = (own + self.others_cpu_pct.unwrap_or(0.0)) / self.cpus.max(1) as f64;
        let is_full = [daemon, worker, all]
            .into_iter()
            .chain(context.daemon_allotment_pct)
            .any(|used| used > FULL_PCT);
        if !context.closed || context.busy_waits || is_full {
            return None;
        }
        let message = format!(
            "neither side was fully used: the daemon's busiest thread used {daemon:.0} % of a core, the driver's busiest worker {worker:.0} %, all CPUs {all:.0} %"
        );
        let hint = "a closed loop then measures waiting (wake-ups, locks, disks, intended delays), not the daemon's capacity: add clients, or set a rate";
        Some(Kind::Unfilled.note(message, hint))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Throttled;
    use super::*;
    use Severity::{Invalid, Note, Suspect};

    const MS: u64 = 1_000_000;

    /// The severity of the warning of a kind.
    fn severity(of: &Disturbance, context: &Context, kind: Kind) -> Option<Severity> {
        let mut found = of.warnings(context).into_iter();
        found
            .find(|warning| warning.kind == kind)
            .map(|warning| warning.severity)
    }

    #[test]
    fn stalls_are_judged_by_their_length_and_their_share_of_the_time() {
        let of = |seconds, workers, count, longest_ms, total_ms| {
            let found = Disturbance {
                seconds,
                stalls: Stalls {
                    count,
                    longest_ns: longest_ms * MS,
                    total_ns: total_ms * MS,
                    ..Stalls::default()
                },
                ..Disturbance::default()
            };
            let context = Context {
                workers,
                ..Context::default()
            };
            severity(&found, &context, Kind::Stalled)
        };
        let table = [
            ((60, 1, 0, 0, 0), None),
            // One late wake-up of each worker.
            ((5, 2, 2, 60, 110), Some(Note)),
            ((5, 1, 1, 99, 99), Some(Note)),
            // Stopped for 0.5 s, in a minute and in ten seconds.
            ((60, 2, 2, 500, 1_000), Some(Suspect)),
            ((10, 2, 2, 500, 1_000), Some(Invalid)),
            ((3_600, 1, 1, 100, 100), Some(Suspect)),
            // Repeatedly.
            ((60, 1, 3, 12, 36), Some(Note)),
            ((60, 1, 6, 12, 72), Some(Suspect)),
            ((60, 1, 60, 12, 720), Some(Invalid)),
        ];
        for ((seconds, workers, count, longest, total), expected) in table {
            let found = of(seconds, workers, count, longest, total);
            assert_eq!(found, expected, "{count} in {seconds} s, {longest} ms");
        }
    }

    #[test]
    fn stops_shorter_than_a_stall_are_judged_by_their_share_and_by_interrupted_waits() {
        let of = |short_ms, interrupted| {
            let found = Disturbance {
                seconds: 5,
                stalls: Stalls {
                    short_ns: short_ms * MS,
                    interrupted,
                    ..Stalls::default()
                },
                ..Disturbance::default()
            };
            let context = Context {
                workers: 2,
                ..Context::default()
            };
            severity(&found, &context, Kind::Stalled)
        };
        // An idle machine, and a stop of a few milliseconds.
        assert_eq!([of(0, 0), of(5, 1)], [None, None]);
        assert_eq!([of(101, 0), of(1_001, 0)], [Some(Suspect), Some(Invalid)]);
        // Stops of a worker that waits for its daemon.
        assert_eq!([of(0, 10), of(0, 11)], [None, Some(Suspect)]);
    }

    #[test]
    fn other_work_is_judged_by_its_share_of_the_cpus_and_by_the_waits_that_it_caused() {
        // CPUs, own CPU, CPU of others, wait of a worker, wait of the daemon.
        let of = |cpus, own, others, worker, daemon| {
            let found = Disturbance {
                cpus,
                own_cpu_pct: Some(own),
                others_cpu_pct: Some(others),
                worker_wait_pct: worker,
                daemon_wait_pct: daemon,
                samples: 60,
                ..Disturbance::default()
            };
            severity(&found, &Context::default(), Kind::OtherWork)
        };
        let table = [
            // An idle machine, and one whose CPUs daemon and driver filled and waited for each other.
            ((2, 3.0, 4.0, Some(0.3), Some(0.2)), None),
            ((2, 180.0, 6.0, Some(45.0), Some(40.0)), None),
            ((2, 3.0, 12.0, Some(0.3), Some(0.2)), Some(Suspect)),
            // A core used by others: no waiting, waiting not known, the daemon waited.
            ((2, 3.0, 99.0, Some(0.3), Some(0.2)), Some(Suspect)),
            ((2, 3.0, 99.0, None, None), Some(Invalid)),
            ((2, 3.0, 99.0, Some(0.3), Some(8.0)), Some(Invalid)),
            // Three busy loops on the driver's CPU, and one next to a driver of nice 19.
            ((2, 35.0, 75.0, Some(72.0), Some(2.0)), Some(Invalid)),
            ((2, 3.0, 98.0, Some(97.0), Some(1.0)), Some(Invalid)),
            // The same on one of 64 CPUs.
            ((64, 35.0, 75.0, Some(72.0), Some(2.0)), Some(Invalid)),
            ((64, 35.0, 75.0, Some(9.0), Some(2.0)), Some(Suspect)),
        ];
        for ((cpus, own, others, worker, daemon), expected) in table {
            let found = of(cpus, own, others, worker, daemon);
            assert_eq!(
                found, expected,
                "{cpus} CPUs, {own} % and {others} %, {worker:?}"
            );
        }
    }

    #[test]
    fn a_run_without_a_sample_is_suspect_and_one_with_a_sample_is_not() {
        let of = |seconds, samples| {
            let found = Disturbance {
                seconds,
                samples,
                ..Disturbance::default()
            };
            severity(&found, &Context::default(), Kind::OtherWork)
        };
        assert_eq!([of(1, 0), of(1, 1), of(0, 0)], [Some(Suspect), None, None]);
    }

    #[test]
    fn other_work_of_some_seconds_is_suspect_and_of_one_is_not() {
        let of = |samples, disturbed_samples| {
            let found = Disturbance {
                cpus: 2,
                own_cpu_pct: Some(20.0),
                others_cpu_pct: Some(5.0),
                samples,
                disturbed_samples,
                ..Disturbance::default()
            };
            severity(&found, &Context::default(), Kind::OtherWork)
        };
        assert_eq!(
            [of(5, 1), of(60, 2), of(600, 6)],
            [None, Some(Suspect), None]
        );
    }

    #[test]
    fn a_quota_that_throttled_the_driver_is_severe_and_one_of_the_daemon_is_a_note() {
        let held = |throttled| {
            Some(Throttled {
                periods: 600,
                throttled,
                held_ns: throttled * 95 * MS,
            })
        };
        let of = |driver_quota, daemon_quota| {
            let found = Disturbance {
                driver_quota,
                daemon_quota,
                ..Disturbance::default()
            };
            severity(&found, &Context::default(), Kind::Throttled)
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(held(0), held(0)), None);
        assert_eq!(of(held(6), None), Some(Suspect));
        assert_eq!(of(held(590), held(3)), Some(Invalid));
        assert_eq!(of(None, held(590)), Some(Note));
    }

    #[test]
    fn a_worker_is_judged_by_its_full_seconds_too() {
        let of = |worker_cpu_pct, full_seconds, busy_waits| {
            let found = Disturbance {
                seconds: 60,
                full_seconds,
                ..Disturbance::default()
            };
            let context = Context {
                worker_cpu_pct,
                busy_waits,
                ..Context::default()
            };
            severity(&found, &context, Kind::GeneratorCpuBound)
        };
        assert_eq!(of(84.0, 0, false), None);
        assert_eq!(of(20.0, 1, false), Some(Note));
        assert_eq!(of(20.0, 2, false), Some(Suspect));
        assert_eq!(of(20.0, 7, false), Some(Invalid));
        assert_eq!(of(86.0, 60, false), Some(Invalid));
        assert_eq!(of(99.0, 60, true), None);
    }

    #[test]
    fn daemon_and_driver_that_wait_for_each_other_are_a_note() {
        let of = |own, worker_wait_pct, others_cpu_pct| Disturbance {
            cpus: 2,
            own_cpu_pct: Some(own),
            worker_wait_pct,
            others_cpu_pct,
            ..Disturbance::default()
        };
        let closed = Context {
            closed: true,
            worker_cpu_pct: 50.0,
            daemon_thread_pct: Some(40.0),
            ..Context::default()
        };
        let shared =
            |own, wait, others| severity(&of(own, wait, others), &closed, Kind::SharedCpus);
        assert_eq!(shared(180.0, Some(45.0), Some(4.0)), Some(Note));
        assert_eq!(shared(180.0, Some(45.0), None), Some(Note));
        assert_eq!(shared(180.0, Some(51.0), None), Some(Suspect));
        assert_eq!(shared(180.0, Some(70.0), Some(4.0)), Some(Note));
        assert_eq!(shared(180.0, Some(20.0), Some(4.0)), None);
        let unfilled =
            |own, context: &Context| severity(&of(own, None, Some(4.0)), context, Kind::Unfilled);
        assert_eq!(unfilled(90.0, &closed), Some(Note));
        assert_eq!(unfilled(180.0, &closed), None, "they filled the CPUs");
        let daemon_full = Context {
            daemon_thread_pct: Some(97.0),
            ..closed
        };
        assert_eq!(unfilled(90.0, &daemon_full), None);
        let allotment_full = Context {
            daemon_allotment_pct: Some(99.0),
            ..closed
        };
        assert_eq!(unfilled(90.0, &allotment_full), None);
        let open = Context {
            closed: false,
            ..closed
        };
        assert_eq!(unfilled(90.0, &open), None);
        let rate = |wait| severity(&of(180.0, Some(wait), Some(4.0)), &open, Kind::SharedCpus);
        assert_eq!(rate(30.0), Some(Note));
        assert_eq!(rate(45.0), Some(Suspect), "50 % work and 45 % wait");
    }
}
