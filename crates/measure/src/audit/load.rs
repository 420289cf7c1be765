//! Concurrency, users, times and the driver's own CPU: whether what ran is what was planned and what the series say.

use super::{Lifetime, Row, number, untimed};
use crate::result::RunResult;
use crate::units;
use crate::warning::{Kind, WORKER_CPU_LIMIT_PCT};

/// How far what was open may lie from what the times come to: a loop counts what begins and ends in a turn, which of
/// short operations is a good part of their time.
const CONCURRENCY_SHARE: f64 = 0.25;
/// Share of the planned users that need not be busy: the client's own work between two operations.
const IDLE_SHARE: f64 = 0.2;
/// Share of planned seconds that may be missing.
const SHORT_SHARE: f64 = 0.02;
/// Seconds that a run may take longer than planned: connections are closed, queues deleted, on a busy machine.
const LATE_S: f64 = 10.0;
/// A phase's ends are seen by loops that wake up.
const WAKING_S: f64 = 0.25;

/// What the series of a lifetime come to.
struct Times {
    /// All values together, seconds.
    sum_s: f64,
    /// The longest lifetime, at most, seconds.
    longest_s: f64,
    /// Operations whose times are there.
    timed: u64,
}

/// `None` where there is nothing to sum.
fn times(result: &RunResult, lifetime: &Lifetime) -> Option<Times> {
    let series: Vec<_> = lifetime.series.iter().collect();
    let found: Vec<_> = series
        .iter()
        .filter_map(|name| result.series(name))
        .collect();
    let timed = match found.len() == series.len() {
        true => found.iter().map(|series| series.count).min()?,
        false => 0,
    };
    Some(Times {
        sum_s: found
            .iter()
            .map(|series| series.mean_ns * series.count as f64 / 1e9)
            .sum(),
        longest_s: found.iter().map(|series| series.max_ns as f64 / 1e9).sum(),
        timed,
    })
}

/// Little's law (L = λW; Little, 1961) over the whole run, warm-up to drain, which begins and ends with nothing open:
/// what was open on average is the rate times the mean time, without an edge to correct for.
pub(super) fn concurrency(result: &RunResult) -> Option<Row> {
    let lifetime = result.facts.lifetime.as_ref()?;
    let times = times(result, lifetime)?;
    let means: Option<Vec<f64>> = result.seconds.iter().map(|row| row.active_mean).collect();
    let means = means.filter(|means| !means.is_empty() && result.wall_s > 0.0)?;
    let found = means.iter().sum::<f64>() / result.wall_s;
    let expected = times.sum_s / result.wall_s;
    let operations = &result.operations;
    // One turn of each worker's loop.
    let turns = 1.0 + result.threads as f64;
    let ended = (operations.ok + operations.failed) as f64 / result.wall_s;
    let most = expected * (1.0 + CONCURRENCY_SHARE)
        + turns
        + ended * lifetime.counted_late_ns as f64 / 1e9
        + untimed(result, times.timed) as f64;
    let least = match lifetime.from_due {
        true => 0.0,
        false => expected * (1.0 - CONCURRENCY_SHARE) - turns,
    };
    let bound = if lifetime.from_due { "at most " } else { "" };
    Some(Row::new(
        "open operations, mean (Little's law)",
        format!("{bound}{} = rate × time", number(expected)),
        number(found),
        (least..=most).contains(&found),
        "the times are not those of what was open: operations that are in no series, or a series that is not the operation's",
    ))
}

/// The same law for a closed loop: users that do one operation after the other are all busy.
pub(super) fn users(result: &RunResult) -> Option<Row> {
    let facts = &result.facts;
    let (users, lifetime) = (facts.users?, facts.lifetime.as_ref()?);
    let measured_s = measured_s(result)?;
    let times = times(result, lifetime)?;
    let busy = times.sum_s / measured_s;
    // An operation counts if it starts within: at the beginning one of the warm-up may go on, the last one goes on behind.
    let edge = users * times.longest_s / measured_s;
    // Of few users many may be in a long operation of the warm-up, of which no series tells.
    let unseen = match phase(result, "warmup").is_some_and(|warmup| warmup > 0.0) {
        true => 1.0 + users.sqrt(),
        false => 0.0,
    };
    let missing = edge + unseen + untimed(result, times.timed) as f64;
    let least = users * (1.0 - IDLE_SHARE) - missing;
    let most = users * (1.0 + SHORT_SHARE) + edge + 1.0;
    Some(Row::new(
        "busy users, mean (rate × time)",
        format!("{} planned", number(users)),
        number(busy),
        (least..=most).contains(&busy),
        "fewer: users wait for the client, or think; more: times hold waiting that no user did; in both cases the load was not the planned one",
    ))
}

/// How long operations were started that count: as planned, less what the run ended earlier; of a result without a
/// timeline all of it.
fn measured_s(result: &RunResult) -> Option<f64> {
    let measured_s = match phase(result, "measure") {
        Some(measure) => measure.min(result.wall_s - phase(result, "warmup").unwrap_or(0.0)),
        None => result.wall_s,
    };
    (measured_s > 0.0).then_some(measured_s)
}

fn phase(result: &RunResult, name: &str) -> Option<f64> {
    duration(&result.plan["timeline"][name])
}

fn duration(text: &serde_json::Value) -> Option<f64> {
    let duration = humantime::parse_duration(text.as_str()?).ok()?;
    Some(duration.as_secs_f64())
}

/// The stages of each group against the seconds of load that there were: what is planned behind them was never run.
pub(super) fn stages(result: &RunResult) -> Vec<Row> {
    let timed = phase(result, "measure").map(|measure| {
        let planned = measure + phase(result, "warmup").unwrap_or(0.0);
        planned.min(result.wall_s)
    });
    let ran_s = timed.unwrap_or(result.wall_s);
    let groups = result.plan["groups"].as_array().into_iter().flatten();
    let of_group = |group: &serde_json::Value| {
        let stages = group["stages"]
            .as_array()
            .filter(|stages| !stages.is_empty())?;
        let is_limited = !group["ops"].is_null();
        let each: Option<Vec<f64>> = stages
            .iter()
            .map(|stage| duration(&stage["over"]))
            .collect();
        let planned_s: f64 = each?.iter().sum();
        let name = group["name"].as_str().unwrap_or("the load");
        (!is_limited).then(|| {
            Row::new(
                format!("seconds of load for the stages of {name}"),
                seconds(planned_s),
                seconds(ran_s),
                lasts(ran_s, planned_s),
                "the last stages never ran: make warm-up and measure as long as all stages together",
            )
        })
    };
    groups.filter_map(of_group).collect()
}

/// What the run took, from its first start to the end of its drain, against its phases.
pub(super) fn wall(result: &RunResult) -> Option<Row> {
    let load_s = result.facts.load_s?;
    let most = result.facts.drain_s.map(|drain_s| load_s + drain_s);
    let fits = most.is_none_or(|most| result.wall_s <= most * (1.0 + SHORT_SHARE) + LATE_S);
    let expected = match most.filter(|most| *most > load_s) {
        Some(most) => format!("{} to {}", seconds(load_s), seconds(most)),
        None => seconds(load_s),
    };
    Some(Row::new(
        "seconds from first start to the end",
        expected,
        seconds(result.wall_s),
        fits && lasts(result.wall_s, load_s),
        "the load ended early or dragged on: its rates are of other seconds than those that were planned",
    ))
}

fn lasts(ran_s: f64, planned_s: f64) -> bool {
    ran_s >= planned_s * (1.0 - SHORT_SHARE) - WAKING_S
}

fn seconds(seconds: f64) -> String {
    match seconds {
        long if long >= 100.0 => format!("{} s", units::count(long.round() as u64)),
        short => format!("{short:.1} s"),
    }
}

/// What the busiest worker used of its core.
pub(super) fn worker(result: &RunResult) -> Option<Row> {
    let used = result.facts.worker_cpu_pct?;
    let row = Row::new(
        "CPU of the driver's busiest worker",
        format!("at most {WORKER_CPU_LIMIT_PCT:.0} % of a core"),
        format!("{used:.0} %"),
        used <= WORKER_CPU_LIMIT_PCT,
        "the driver, not the daemon, may be what was measured: use more threads or processes, or less load",
    );
    Some(row.told_by(Kind::GeneratorCpuBound))
}
