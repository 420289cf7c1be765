//! The progress lines and the summary that users of the reference's scripts expect.

use std::fmt::Write as _;

use load::plan::Plan;
use load::recorder::{OK, STARTED};
use measure::result::RunResult;
use measure::tally::Tally;
use measure::warning::Verdict;

use crate::outcome::{self, count};
use crate::settings::{Mode, Settings};

/// Medians up to these times, in milliseconds, with their judgements.
const JUDGEMENTS: [(f64, &str); 3] = [(10.0, "excellent"), (50.0, "good"), (100.0, "acceptable")];

/// Returns the line before the run.
pub(crate) fn announcement(plan: &Plan<Settings>) -> String {
    let population = plan.driver.population();
    let kind = match plan.driver.mode {
        Mode::Protocol => "",
        Mode::Sdk => "SDK ",
    };
    let rates: Option<f64> = plan.groups.iter().map(|group| group.rate).sum();
    let per_user = rates.map_or(plan.driver.heartbeats_per_sec, |sum| {
        (sum / population.users() as f64 * 1e3).round() / 1e3
    });
    format!(
        "Starting {kind}presence load: {} clients across {} rooms, {per_user} heartbeats/s per user",
        population.users(),
        population.rooms,
    )
}

/// Returns the progress line of a second in which a report is due.
pub(crate) fn line(second: &Tally, total: &Tally) -> Option<String> {
    if second.counted(count::REPORTED_MS) == 0 {
        return None;
    }
    let elapsed_s = total.counted(count::REPORTED_MS) as f64 / 1e3;
    let users = total.counted(count::USERS);
    // The protocol mode does not report it, and neither does the reference's script.
    let connected = match total.counts.get(count::CLOSED.name()) {
        Some(closed) => {
            let open = total.counted(count::CONNECTED).saturating_sub(*closed);
            format!("connected={open}/{users} ")
        }
        None => String::new(),
    };
    let operation = match total.counted(count::MESSAGES) {
        0 => "heartbeat",
        _ => "message",
    };
    Some(format!(
        "[{elapsed_s:.1}s] {connected}joined={}/{users} {operation}_ok={}/{} events={} errors={}",
        second.counted(count::HELD),
        total.counted(OK),
        total.counted(STARTED),
        total.counted(count::EVENTS),
        total.errors.values().sum::<u64>(),
    ))
}

/// Renders the summary in the format of the script whose mode was used.
pub(crate) fn render(result: &RunResult) -> Option<String> {
    let plan: Plan<Settings> = serde_json::from_value(result.plan.clone()).ok()?;
    let settings = &plan.driver;
    // The reference has no conversations.
    if settings.conversation.is_some() {
        return None;
    }
    let population = settings.population();
    let title = match settings.mode {
        Mode::Protocol => "Load test summary",
        Mode::Sdk => "SDK Load test summary",
    };
    let mut text = format!(
        "{title}\nDuration: {:.1}s\nClients: {} (rooms={}, users/room={})\n",
        result.wall_s,
        population.users(),
        population.rooms,
        population.users_per_room
    );
    let operations = &result.operations;
    let failed_otherwise = failed(result, |kind| !is_heartbeat(kind));
    let rows = [
        ("Connect successes", result.count(count::CONNECTED)),
        ("Join successes", result.count(count::JOINS)),
        (
            "Heartbeats attempted",
            operations.started.saturating_sub(failed_otherwise),
        ),
        ("Heartbeat successes", operations.ok),
        ("Presence events received", result.count(count::EVENTS)),
        (
            "Join snapshot total size",
            result.count(count::SNAPSHOT_MEMBERS),
        ),
    ];
    for (label, number) in rows {
        let is_sdk = settings.mode == Mode::Sdk;
        let belongs = match label {
            "Connect successes" => is_sdk,
            "Join snapshot total size" => !is_sdk,
            _ => true,
        };
        if belongs {
            let _ = writeln!(text, "{label}: {number}");
        }
    }
    let _ = writeln!(text, "Errors: {{ {} }}", errors(result, settings.mode));
    let latencies = [
        ("Connect", "connect"),
        ("Join", "join"),
        ("Heartbeat", "heartbeat"),
    ];
    let skipped = usize::from(settings.mode == Mode::Protocol);
    for (label, series) in latencies.into_iter().skip(skipped) {
        text.push_str(&latency(result, label, series));
    }
    if let Some(judgement) = judgement(result) {
        let _ = writeln!(text, "{judgement}");
    }
    if let Some(headline) = result.overload() {
        let _ = writeln!(text, "{headline}");
    }
    Some(text)
}

/// Counts errors. A connection that the driver cut is none.
fn failed(result: &RunResult, of: impl Fn(&str) -> bool) -> u64 {
    let errors = result.errors.iter();
    let errors = errors.filter(|(kind, _)| *kind != outcome::CUT);
    errors
        .filter(|(kind, _)| of(kind))
        .map(|(_, number)| number)
        .sum()
}

fn is_join(kind: &str) -> bool {
    kind.starts_with("join_")
}

fn is_leave(kind: &str) -> bool {
    kind.starts_with("leave_")
}

fn is_heartbeat_timeout(kind: &str) -> bool {
    [
        outcome::HEARTBEAT_TIMEOUT,
        outcome::CONNECTION_LOST,
        outcome::NOT_JOINED,
    ]
    .contains(&kind)
}

fn is_heartbeat(kind: &str) -> bool {
    kind.starts_with("heartbeat_") || is_heartbeat_timeout(kind)
}

/// Renders the errors as the scripts do. A heartbeat without a connection would have timed out in the reference.
fn errors(result: &RunResult, mode: Mode) -> String {
    let failed = |of: &dyn Fn(&str) -> bool| failed(result, of);
    let connect = failed(&|kind| !(is_join(kind) || is_leave(kind) || is_heartbeat(kind)));
    let leave = failed(&is_leave);
    let rows: Vec<(&str, u64)> = match mode {
        Mode::Protocol => vec![
            ("connect", connect),
            ("joinTimeout", failed(&|kind| kind == outcome::JOIN_TIMEOUT)),
            (
                "joinRejected",
                failed(&|kind| is_join(kind) && kind != outcome::JOIN_TIMEOUT),
            ),
            ("heartbeatTimeout", failed(&is_heartbeat_timeout)),
            (
                "heartbeatRejected",
                failed(&|kind| is_heartbeat(kind) && !is_heartbeat_timeout(kind)),
            ),
            ("leave", leave),
        ],
        Mode::Sdk => vec![
            ("connect", connect),
            ("join", failed(&is_join)),
            ("heartbeat", failed(&is_heartbeat)),
            ("leave", leave),
        ],
    };
    let rows: Vec<String> = rows
        .iter()
        .map(|(name, number)| format!("{name}: {number}"))
        .collect();
    rows.join(", ")
}

fn latency(result: &RunResult, label: &str, series: &str) -> String {
    let Some(series) = result.series(series) else {
        return format!("{label} latency (ms): count=0\n");
    };
    let ms = |ns: u64| ns as f64 / 1e6;
    format!(
        "{label} latency (ms): count={}, min={:.2}, p50={:.2}, p90={:.2}, p95={:.2}, p99={:.2}, max={:.2}, avg={:.2}\n",
        series.count,
        ms(series.min_ns),
        ms(series.p50_ns),
        ms(series.p90_ns),
        ms(series.p95_ns),
        ms(series.p99_ns),
        ms(series.max_ns),
        series.mean_ns / 1e6,
    )
}

/// Judges the median of the heartbeats by the reference's four classes, in a run that can be judged.
fn judgement(result: &RunResult) -> Option<String> {
    if result.verdict != Verdict::Valid {
        return None;
    }
    let p50_ms = result.series("heartbeat")?.p50_ns as f64 / 1e6;
    let judged = JUDGEMENTS.iter().find(|(limit_ms, _)| p50_ms < *limit_ms);
    Some(match judged {
        Some((limit_ms, word)) => {
            format!("Heartbeat p50 {p50_ms:.2} ms: {word} (below {limit_ms} ms)")
        }
        None => format!(
            "Heartbeat p50 {p50_ms:.2} ms: investigate performance issues (not below 100 ms)"
        ),
    })
}

#[cfg(test)]
mod tests {
    use measure::result::SeriesResult;
    use measure::tally::Distribution;

    use super::*;

    #[test]
    fn only_a_valid_run_is_judged() {
        let mut times = Distribution::default();
        times.record(1_000_000);
        let mut result = RunResult {
            series: SeriesResult::from_distribution("heartbeat", &times)
                .into_iter()
                .collect(),
            ..RunResult::default()
        };
        for verdict in [Verdict::Valid, Verdict::Suspect, Verdict::Invalid] {
            result.verdict = verdict;
            let judgement = judgement(&result);
            assert_eq!(
                judgement.is_some(),
                verdict == Verdict::Valid,
                "{judgement:?}"
            );
        }
    }
}
