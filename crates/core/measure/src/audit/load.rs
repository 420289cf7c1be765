//! Audits of the load: concurrency, users, times and the driver's own CPU use, against the plan and the series.

use super::{AuditRow, ops_without_latency};
use crate::result::{Lifetime, RunResult, StagedGroup};
use crate::units;
use crate::warning::{Kind, WORKER_CPU_LIMIT_PCT};

/// Tolerance of mean concurrency against Little's law. Loops count starts and ends per turn, which is a large share of
/// short operations.
const CONCURRENCY_TOLERANCE: f64 = 0.25;
/// Share of the planned users that may be idle: the client's own work between two operations.
const MAX_IDLE_SHARE: f64 = 0.2;
/// Share of the planned seconds that may be missing.
const DURATION_TOLERANCE: f64 = 0.02;
/// Seconds that a run may exceed its plan: closing connections and deleting queues takes time on a busy machine.
const MAX_OVERRUN_S: f64 = 10.0;
/// Tolerance for the loops, which notice the end of a phase only when they wake up, in seconds.
const WAKE_UP_S: f64 = 0.25;

/// Totals of the series of a lifetime.
struct Times {
    /// Sum of all values, seconds.
    sum_s: f64,
    /// Upper bound of the longest lifetime, seconds.
    longest_s: f64,
    /// Operations with a recorded time.
    timed: u64,
}

/// Returns the totals, or `None` if there is nothing to sum.
fn times(result: &RunResult, lifetime: &Lifetime) -> Option<Times> {
    let names = lifetime.series.iter();
    let found: Vec<_> = names.filter_map(|name| result.series(name)).collect();
    let timed = if found.len() == lifetime.series.len() {
        found.iter().map(|series| series.count).min()?
    } else {
        0
    };
    let sums_ns = found
        .iter()
        .map(|series| series.mean_ns * series.count as f64);
    let longest_ns = found.iter().map(|series| series.max_ns as f64);
    Some(Times {
        sum_s: sums_ns.map(|ns| ns / 1e9).sum(),
        longest_s: longest_ns.map(|ns| ns / 1e9).sum(),
        timed,
    })
}

/// Checks Little's law (L = λW; Little, 1961) over the whole run, from warm-up to drain. Such a run begins and ends
/// with nothing open, so the mean number of open operations is rate times mean time without edge corrections.
pub(super) fn concurrency(result: &RunResult) -> Option<AuditRow> {
    let lifetime = result.audit_inputs.lifetime.as_ref()?;
    let times = times(result, lifetime)?;
    let means: Option<Vec<f64>> = result
        .seconds
        .iter()
        .map(|second| second.active_mean)
        .collect();
    let means = means.filter(|means| !means.is_empty() && result.wall_s > 0.0)?;
    // A worker may report the end of an operation a turn before another reports its beginning.
    let found = means.iter().sum::<f64>().max(0.0) / result.wall_s;
    let expected = times.sum_s / result.wall_s;
    let operations = &result.operations;
    // One turn of each worker's loop.
    let turns = 1.0 + result.threads as f64;
    let ended = (operations.ok + operations.failed) as f64 / result.wall_s;
    let slack = result
        .seconds
        .iter()
        .filter_map(|second| second.active_slack);
    let slack = slack.sum::<f64>() / result.wall_s;
    let most = expected * (1.0 + CONCURRENCY_TOLERANCE)
        + turns
        + slack
        + ended * lifetime.counted_late_ns as f64 / 1e9
        + ops_without_latency(result, times.timed) as f64;
    let least = if lifetime.from_due {
        0.0
    } else {
        (expected * (1.0 - CONCURRENCY_TOLERANCE) - turns - slack).max(0.0)
    };
    Some(AuditRow::new(
        "open operations, mean (Little's law)",
        accepted(expected, "= rate × time", least, most),
        units::number(found),
        (least..=most).contains(&found),
        "the series do not cover the open operations: some operations are in no series, or a series does not measure whole operations",
    ))
}

/// Checks Little's law for a closed loop, whose users run one operation after the other and are always busy.
pub(super) fn users(result: &RunResult) -> Option<AuditRow> {
    let inputs = &result.audit_inputs;
    let (users, lifetime) = (inputs.users?, inputs.lifetime.as_ref()?);
    let measured_s = measured_s(result)?;
    let times = times(result, lifetime)?;
    let busy = times.sum_s / measured_s;
    // An operation counts if it starts in the measured time. The first may follow one of the warm-up; the last may end
    // later.
    let edge = users * times.longest_s / measured_s;
    // With few users, a large share may still be in a warm-up operation that is not recorded.
    let unseen = match result.phases {
        Some(phases) if phases.warmup_s > 0.0 => 1.0 + users.sqrt(),
        _ => 0.0,
    };
    let missing = edge + unseen + ops_without_latency(result, times.timed) as f64;
    let least = users * (1.0 - MAX_IDLE_SHARE) - missing;
    let most = users * (1.0 + DURATION_TOLERANCE) + edge + 1.0;
    Some(AuditRow::new(
        "busy users, mean (rate × time)",
        accepted(users, "planned", least.max(0.0), most),
        units::number(busy),
        (least..=most).contains(&busy),
        "too low: users were blocked in the client or idle; too high: latencies include time spent in no user's request. Either way the load differed from the plan",
    ))
}

/// Returns the seconds in which counted operations were started: as planned, or less if the run ended early. Without
/// phases it is the whole run.
fn measured_s(result: &RunResult) -> Option<f64> {
    let load_s = load_s(result);
    let measured_s = result.phases.map_or(load_s, |phases| {
        phases.measure_s.min(load_s - phases.warmup_s)
    });
    (measured_s > 0.0).then_some(measured_s)
}

/// Returns the seconds of the run after its opening.
fn load_s(result: &RunResult) -> f64 {
    result.wall_s - result.opening_s()
}

/// Compares the stages of each group with the seconds of load. Stages planned after the end were never run.
pub(super) fn stages(result: &RunResult) -> Vec<AuditRow> {
    let load_s = load_s(result);
    let ran_s = result.phases.map_or(load_s, |phases| {
        load_s.min(phases.warmup_s + phases.measure_s)
    });
    let row = |group: &StagedGroup| {
        let least_s = least_s(group.planned_s - group.idle_tail_s);
        let [planned, least] = [group.planned_s, least_s].map(units::in_seconds);
        AuditRow::new(
            format!("seconds of load for the stages of {}", group.group),
            format!("{planned} (at least {least})"),
            units::in_seconds(ran_s),
            ran_s >= least_s,
            "the last stages never ran: make warm-up plus measure as long as all stages together",
        )
    };
    result.audit_inputs.staged.iter().map(row).collect()
}

/// Compares the time taken to open the connections with its limit.
pub(super) fn opening(result: &RunResult) -> Option<AuditRow> {
    let opening = result.audit_inputs.opening.as_ref()?;
    let missing = if opening.complete {
        ""
    } else {
        ", not all open"
    };
    Some(AuditRow::new(
        "seconds to open the connections, before the load",
        format!("at most {}", units::in_seconds(opening.limit_s)),
        format!("{}{missing}", units::in_seconds(opening.took_s)),
        opening.complete,
        "the load started before all connections were open: allow more time (--open-timeout, driver.open_timeout), or find out why the server accepts connections so slowly",
    ))
}

/// Compares the duration of the run, from its first start to the end of its drain, with its phases.
pub(super) fn wall(result: &RunResult) -> Option<AuditRow> {
    let planned_s = result.audit_inputs.load_s?;
    let ran_s = load_s(result);
    let least = least_s(planned_s - result.audit_inputs.idle_tail_s);
    let most = result.phases.map(|phases| planned_s + phases.drain_s);
    let most = most.map(|most| most * (1.0 + DURATION_TOLERANCE) + MAX_OVERRUN_S);
    let fits = ran_s >= least && most.is_none_or(|most| ran_s <= most);
    let (planned, least) = (units::in_seconds(planned_s), units::in_seconds(least));
    let expected = match most.map(units::in_seconds) {
        Some(most) => format!("{planned} ({least} to {most})"),
        None => format!("{planned} (at least {least})"),
    };
    Some(AuditRow::new(
        "seconds from first start to the end",
        expected,
        units::in_seconds(ran_s),
        fits,
        "the load ended early or took too long, so the rates do not cover the planned seconds",
    ))
}

/// Returns a row if no operation was due in the measured time of a run that only time ends and that holds no connections.
pub(super) fn due(result: &RunResult) -> Option<AuditRow> {
    let (inputs, operations) = (&result.audit_inputs, &result.operations);
    let is_idle = operations.started == 0 && operations.missed == 0;
    let measures = inputs.load_s.is_some() && inputs.lifetime.is_some() && inputs.held.is_none();
    (is_idle && measures).then(|| {
        AuditRow::new(
            "operations due in the measured time",
            "at least 1".to_owned(),
            "0".to_owned(),
            false,
            "nothing was measured: measure for longer, or raise the rate",
        )
    })
}

/// Returns the least acceptable duration for a planned one.
fn least_s(planned_s: f64) -> f64 {
    (planned_s * (1.0 - DURATION_TOLERANCE) - WAKE_UP_S).max(0.0)
}

/// Formats an expected value with the bounds between which a value is accepted.
fn accepted(expected: f64, name: &str, least: f64, most: f64) -> String {
    let [expected, least, most] = [expected, least, most].map(units::number);
    format!("{expected} {name} ({least} to {most})")
}

/// Checks the CPU use of the busiest worker.
pub(super) fn worker(result: &RunResult) -> Option<AuditRow> {
    let used = result.audit_inputs.worker_cpu_pct?;
    let row = AuditRow::new(
        "CPU of the driver's busiest worker",
        format!("at most {WORKER_CPU_LIMIT_PCT:.0} % of a core"),
        format!("{used:.0} %"),
        used <= WORKER_CPU_LIMIT_PCT,
        "the driver may be the bottleneck instead of the daemon: use more threads or processes, or lower the load",
    );
    Some(row.reported_as(Kind::GeneratorCpuBound))
}
