//! The roles that drivers give to their series and counters, over all runs of a suite.

use crate::result::RunResult;
use crate::spec::{CounterRole, CounterSpec, CounterUnit, OperationKind, SeriesRole, SeriesSpec};
use crate::suite::Suite;
use crate::tally::{MISSED, OK, STARTED, UNFINISHED};

use super::text::plain;

/// The driver's own lateness, shown after its series.
pub(super) const LAG: &str = "lag";
/// Counters of operations, which have their own columns.
const OPERATIONS: [&str; 4] = [STARTED, OK, UNFINISHED, MISSED];

/// Returns the main series among `all`, in the order of the specifications; `all` if none of them is a main series.
pub(super) fn main_series<'a>(suite: &'a Suite, all: Vec<&'a str>) -> Vec<&'a str> {
    let mut main = Vec::new();
    for series in specified(suite).filter(|series| series.role != SeriesRole::Detail) {
        let name = series.name.as_ref();
        if all.contains(&name) && !main.contains(&name) {
            main.push(name);
        }
    }
    if main.is_empty() { all } else { main }
}

/// Returns true if the series is the most important one of its driver.
pub(super) fn is_headline(suite: &Suite, series: &str) -> bool {
    specifications(suite, series).any(|spec| spec.role == SeriesRole::Headline)
}

/// Returns the display name of a series.
pub(super) fn series_label(suite: &Suite, series: &str) -> String {
    let spec = specifications(suite, series).next();
    plain(spec.map_or(series, |spec| &spec.label))
}

/// Returns the explanation of a series that readers may know by another name or meaning.
pub(super) fn note<'a>(suite: &'a Suite, series: &str) -> Option<&'a str> {
    specifications(suite, series).find_map(|spec| spec.note.as_deref())
}

/// Returns the counters that are rates and that some run counted.
pub(super) fn rates(suite: &Suite) -> Vec<&CounterSpec> {
    counted(suite, CounterRole::is_rate)
}

/// Returns the counters of bytes received and sent that some run counted.
pub(super) fn transfers(suite: &Suite) -> Vec<&CounterSpec> {
    counted(suite, |role| {
        matches!(role, CounterRole::BytesReceived | CounterRole::BytesSent)
    })
}

/// Returns true if a rate is compared with that of the first daemon.
pub(super) fn is_compared(rate: &CounterSpec) -> bool {
    rate.role != CounterRole::DependentRate
}

/// Returns true if the operations are messages: they do not hold connections, and memory is that of the backlog.
pub(super) fn has_messages(suite: &Suite) -> bool {
    any(suite, |run| run.spec.operation == OperationKind::Message)
}

/// Returns the counters of delivery errors that some run has, and of events that some run counted.
pub(super) fn delivery(suite: &Suite) -> Vec<&CounterSpec> {
    let mut delivery = counters(suite, |role| role == CounterRole::DeliveryError);
    delivery.retain(|error| any(suite, |run| run.counts.contains_key(error.name.as_ref())));
    delivery.extend(counted(suite, |role| {
        matches!(role, CounterRole::DeliveryEvent | CounterRole::Reconnects)
    }));
    delivery
}

/// Returns true if some run counted the connections that it opened.
pub(super) fn holds_connections(suite: &Suite) -> bool {
    any(suite, |run| run.total(CounterRole::Opened) > 0)
}

/// Returns the role of what was repeated after faults, with its name: connections, or operations.
pub(super) fn repeated<'a>(
    mut runs: impl Iterator<Item = &'a RunResult>,
) -> (CounterRole, &'static str) {
    if runs.any(|run| run.total(CounterRole::Reconnects) > 0) {
        (CounterRole::Reconnects, "reconnects")
    } else {
        (CounterRole::Retries, "retries")
    }
}

/// Returns true if a counter of a run is not shown elsewhere. Connections held have a maximum, but no sum.
pub(super) fn is_further_counter(run: &RunResult, name: &str) -> bool {
    let spec = run.spec.counter(name);
    !OPERATIONS.contains(&name) && spec.is_none_or(|spec| spec.role != CounterRole::Held)
}

/// Returns true if a counter of a run counts bytes.
pub(super) fn counts_bytes(run: &RunResult, name: &str) -> bool {
    let spec = run.spec.counter(name);
    spec.is_some_and(|spec| spec.unit == CounterUnit::Bytes)
}

/// Returns the series that the drivers specify; several drivers may specify the same one.
fn specified(suite: &Suite) -> impl Iterator<Item = &SeriesSpec> {
    let results = suite.results.iter();
    results.flat_map(|run| run.spec.series.iter())
}

fn specifications<'a>(suite: &'a Suite, name: &str) -> impl Iterator<Item = &'a SeriesSpec> {
    specified(suite).filter(move |series| series.name == name)
}

/// Returns the counters with such a role that some run counted.
fn counted(suite: &Suite, has_role: impl Fn(CounterRole) -> bool) -> Vec<&CounterSpec> {
    let mut counted = counters(suite, has_role);
    counted.retain(|counter| any(suite, |run| run.count(&counter.name) > 0));
    counted
}

/// Returns the counters with such a role, each once, in the order of the specifications.
fn counters(suite: &Suite, has_role: impl Fn(CounterRole) -> bool) -> Vec<&CounterSpec> {
    let mut counters: Vec<&CounterSpec> = Vec::new();
    let specified = suite
        .results
        .iter()
        .flat_map(|run| run.spec.counters.iter());
    for counter in specified.filter(|counter| has_role(counter.role)) {
        if !counters.iter().any(|known| known.name == counter.name) {
            counters.push(counter);
        }
    }
    counters
}

fn any(suite: &Suite, holds: impl Fn(&RunResult) -> bool) -> bool {
    suite.results.iter().any(holds)
}
