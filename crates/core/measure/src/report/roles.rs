//! The roles that drivers give to their series and counters, over all runs of a suite.

use crate::metrics;
use crate::result::RunResult;
use crate::spec::{CounterRole, CounterSpec, CounterUnit, OperationKind, SeriesRole, SeriesSpec};
use crate::suite::Suite;
use crate::tally::OPERATIONS;

use super::comparison::{Comparison, Repetitions};
use super::distinct;
use super::plain;

/// The driver's own lateness, shown after its series.
pub(super) const LAG: &str = "lag";

/// Returns the main series among `all`, in the order of the specifications; `all` if none of them is a main series.
pub(super) fn main_series<'a>(suite: &'a Suite, all: Vec<&'a str>) -> Vec<&'a str> {
    let main = specified(suite).filter(|series| series.role != SeriesRole::Detail);
    let names = distinct(main.map(|series| series.name.as_ref()));
    let main: Vec<&str> = names
        .into_iter()
        .filter(|name| all.contains(name))
        .collect();
    if main.is_empty() { all } else { main }
}

/// Returns true if the series is the most important one of its driver.
pub(super) fn is_headline(suite: &Suite, series: &str) -> bool {
    specifications(suite, series).any(|spec| spec.role == SeriesRole::Headline)
}

/// Returns the names of the series that the short report shows beside the headline series.
pub(super) fn brief_series(suite: &Suite) -> Vec<&str> {
    let brief = specified(suite).filter(|series| series.is_brief);
    distinct(brief.map(|series| series.name.as_ref()))
}

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

/// Returns true if a rate is compared with the first daemon's.
pub(super) fn is_compared(rate: &CounterSpec) -> bool {
    rate.role != CounterRole::DependentRate
}

/// Returns true if the operations are messages: they do not hold connections, and memory is the backlog's.
pub(super) fn has_messages(suite: &Suite) -> bool {
    any(suite, |run| run.spec.operation == OperationKind::Message)
}

/// Returns true if memory is compared by connection: every daemon has such a figure at every level. Otherwise its peak
/// is compared.
pub(super) fn has_connection_memory(comparison: &Comparison<'_>) -> bool {
    let each = metrics::by_key("daemon.rss.each");
    let groups = comparison.all();
    let mut shown = groups.iter().map(Repetitions::shown);
    !has_messages(comparison.suite)
        && shown.all(|runs| runs.into_iter().any(|run| (each.read)(run).is_some()))
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

/// Returns the counter of what was repeated after faults, if there is one: connections if some were, otherwise
/// operations.
pub(super) fn repeated<'a>(runs: &[&'a RunResult]) -> Option<&'a CounterSpec> {
    let with = |role| {
        runs.iter()
            .flat_map(move |run| run.spec.counters_with(role))
    };
    let is_counted = |counter: &&CounterSpec| runs.iter().any(|run| run.count(&counter.name) > 0);
    with(CounterRole::Reconnects)
        .find(is_counted)
        .or_else(|| with(CounterRole::Retries).next())
        .or_else(|| with(CounterRole::Reconnects).next())
}

/// Returns true if a counter of a run is not shown elsewhere. Connections held have a maximum, but no sum.
pub(super) fn is_further_counter(run: &RunResult, name: &str) -> bool {
    let spec = run.spec.counter(name);
    !OPERATIONS.contains(&name) && spec.is_none_or(|spec| spec.role != CounterRole::Held)
}

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
    let runs = suite.results.iter();
    let specified = runs.flat_map(|run| run.spec.counters.iter());
    let mut counters: Vec<&CounterSpec> = Vec::new();
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::spec::Spec;

    const MAIN: SeriesSpec = SeriesSpec::new("main", SeriesRole::Main);
    const DETAIL: SeriesSpec = SeriesSpec::new("detail", SeriesRole::Detail);
    const FIRST: SeriesSpec = SeriesSpec::with_note("first", "1st", SeriesRole::Headline, "note");

    fn suite(specs: &[&[SeriesSpec]]) -> Suite {
        let result = |series: &&[SeriesSpec]| {
            let stored = include_str!("../../tests/data/result-2.json");
            let mut result: RunResult = serde_json::from_str(stored).unwrap();
            result.spec = Spec {
                series: Cow::Owned(series.to_vec()),
                ..Spec::UNKNOWN
            };
            result
        };
        Suite {
            results: specs.iter().map(result).collect(),
            ..Suite::default()
        }
    }

    #[test]
    fn the_main_series_are_in_the_order_of_the_specifications() {
        let suite = suite(&[&[], &[FIRST, DETAIL, MAIN], &[MAIN]]);
        let all = vec!["unlisted", "main", "detail", "first"];
        assert_eq!(main_series(&suite, all), ["first", "main"]);
        assert_eq!(main_series(&suite, vec!["detail", "main"]), ["main"]);
        assert!(is_headline(&suite, "first") && !is_headline(&suite, "main"));
        assert_eq!(series_label(&suite, "first"), "1st");
        assert_eq!(note(&suite, "first"), Some("note"));
    }

    #[test]
    fn a_driver_without_main_series_shows_all_by_name() {
        let suite = suite(&[&[], &[DETAIL]]);
        let all = vec!["unlisted", "detail"];
        assert_eq!(main_series(&suite, all.clone()), all);
        assert_eq!(series_label(&suite, "unlisted"), "unlisted");
    }
}
