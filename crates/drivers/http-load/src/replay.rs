//! A log whose requests are sent at its times: the load that it makes of a plan, and the notes on it.

use harness::output;
use load::duration;
use load::plan::{Group, Invalid, Plan};
use measure::units;
use subject::manifest::find_plan;
use traffic::{Replay, Rows};

use crate::settings::Settings;

/// The field of the log, for messages.
pub(crate) const FIELD: &str = "driver.replay (--replay)";
/// The path of each request, unless the plan names one.
const PATH: &str = "{{path}}";

/// Opens the log of a plan that replays one.
///
/// # Errors
/// A file that can't be read, or is not a log.
pub(crate) fn open(settings: &Settings) -> Result<Option<(Rows, Replay)>, Invalid> {
    let Some(path) = &settings.replay else {
        return Ok(None);
    };
    let speed = settings.speed;
    if !(speed.is_finite() && speed > 0.0) {
        let problem = "is not above 0: give a factor, such as 2 for twice as fast";
        return Err(Invalid::setting("speed", problem));
    }
    let mut rows = Rows::open_log(FIELD, &find_plan(path))?;
    let replay = Replay::new(FIELD, &mut rows, &settings.method, speed)?;
    Ok(Some((rows, replay)))
}

/// Makes the load of a plan the one of its log: one group with the log's average rate, for as long as the log lasts. The
/// log is read to its end.
///
/// # Errors
/// A log that can't be read, or a plan with a load of its own.
pub(crate) fn complete(plan: &mut Plan<Settings>) -> Result<(), Invalid> {
    let Some((mut rows, mut replay)) = open(&plan.driver)? else {
        return Ok(());
    };
    replay.check(FIELD, &mut rows, &[])?;
    let lasts = replay.duration();
    if plan.groups.is_empty() {
        plan.groups.push(Group::new("replay", 0));
    }
    let problem = match plan.groups.as_slice() {
        [group] if !group.stages.is_empty() => "a log has its own times: leave out the stages",
        [group] if !group.ramp.is_zero() => "a log has its own times: leave out `ramp`",
        [_] => "",
        _ => "a log is replayed by one group: leave out the others",
    };
    if !problem.is_empty() {
        return Err(Invalid::new(FIELD, problem));
    }
    let planned = plan.planned();
    if planned > lasts {
        let problem = format!(
            "the log lasts {} at this speed, and timeline.warmup and timeline.measure {}: leave timeline.measure (--duration) out, or shorten it",
            duration::format(lasts),
            duration::format(planned)
        );
        return Err(Invalid::new(FIELD, problem));
    }
    if plan.timeline.measure.is_zero() {
        plan.timeline.measure = lasts - plan.timeline.warmup;
    }
    let group = &mut plan.groups[0];
    // Options name the connections as clients.
    if group.clients > 0 {
        plan.driver.connections = std::mem::take(&mut group.clients);
    }
    plan.level.get_or_insert_with(|| "replay".to_owned());
    group.rate = Some(rows.len() as f64 / lasts.as_secs_f64());
    plan.driver.path.get_or_insert_with(|| PATH.to_owned());
    Ok(())
}

/// Says which parts of a log are not sent as they were.
pub(crate) fn note(rows: &Rows, replay: &Replay, method: &str) {
    let (ignored, times) = (rows.ignored(), replay.times());
    let mut note = format!(
        "{} requests with {method} are replayed",
        units::count(rows.len())
    );
    if ignored.others > 0 {
        let others = units::count(ignored.others);
        note.push_str(&format!("; {others} with other methods are not sent"));
    }
    if ignored.unreadable > 0 {
        let (lines, first) = (units::count(ignored.unreadable), ignored.first_unreadable);
        note.push_str(&format!(
            "; {lines} lines are not requests, such as line {first}"
        ));
    }
    if times.late > 0 {
        let (late, late_s) = (units::count(times.late), times.late_ns as f64 / 1e9);
        note.push_str(&format!(
            "; {late} have a time up to {late_s} s before an earlier line's, and are due at that one"
        ));
    }
    output::note(&format!("{note}; header fields and bodies are the plan's"));
}
