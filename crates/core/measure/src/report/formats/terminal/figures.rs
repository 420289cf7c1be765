//! The main figures of the runs of one daemon at one level.

use super::Item;
use crate::metrics;
use crate::report::comparison::{Comparison, Repetitions};
use crate::report::plain;
use crate::report::roles;
use crate::report::sections;
use crate::result::RunResult;
use crate::summary::SummaryStats;
use crate::tally::OK;
use crate::units::{self, Unit};

/// Maximum number of kinds of failures that are named.
const KINDS: usize = 4;
/// Statistics of the headline series.
const STATISTICS: [&str; 3] = ["p50", "p99", "max"];
/// Statistics of the series beside it.
const OF_BRIEF: [&str; 2] = ["p50", "p99"];

/// Builds an item for operations, rates, the goodput, the headline series, daemon, services, driver and faults, as far as they are
/// known.
pub(super) fn items(comparison: &Comparison<'_>) -> Vec<Item> {
    let groups = comparison.all();
    let Some(repeated) = groups.first() else {
        return Vec::new();
    };
    let runs = repeated.shown();
    let mut items = vec![operations(&runs, repeated)];
    let shards = runs.first().and_then(|run| sections::shards(run));
    items.extend(shards.map(|text| Item::new("shards", text)));
    items.extend(rates(comparison, &runs));
    items.extend(sections::goodput(&runs).map(|text| Item::new("goodput", text)));
    items.extend(latency(comparison, &runs));
    items.extend(sections::knee_of(&runs).map(|text| Item::new("knee", text)));
    items.extend(resources(comparison, &runs));
    items.extend(faults(&runs));
    items
}

/// Counts operations, failures first: `3 of 1,000 failed (rejected 2, reset 1), 995 ok, 2 unfinished`.
fn operations(runs: &[&RunResult], repeated: &Repetitions<'_>) -> Item {
    let sum = |read: fn(&RunResult) -> u64| -> u64 { runs.iter().map(|run| read(run)).sum() };
    let [started, ok, failed, unfinished, missed] = [
        sum(|run| run.operations.started),
        sum(|run| run.operations.ok),
        sum(|run| run.operations.failed),
        sum(|run| run.operations.unfinished),
        sum(|run| run.operations.missed),
    ];
    let [started, ok] = [started, ok].map(units::count);
    let (label, mut text) = match failed {
        0 => ("outcome", format!("{started} started, {ok} ok, 0 failed")),
        _ => {
            let (failed, kinds) = (units::count(failed), kinds(runs));
            let text = format!("{failed} of {started} failed{kinds}, {ok} ok");
            ("failures", text)
        }
    };
    for (count, what) in [(unfinished, "unfinished"), (missed, "missed")] {
        if count > 0 {
            text.push_str(&format!(", {} {what}", units::count(count)));
        }
    }
    if runs.len() > 1 {
        text.push_str(&format!(", in {} runs", runs.len()));
    }
    if repeated.left_out() > 0 {
        text.push_str(&format!("; {} INVALID left out", repeated.left_out()));
    }
    Item::new(label, text)
}

fn kinds(runs: &[&RunResult]) -> String {
    let mut kinds: Vec<(String, u64)> = Vec::new();
    for (name, count) in runs.iter().flat_map(|run| &run.errors) {
        match kinds.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += count,
            None => kinds.push((name.clone(), *count)),
        }
    }
    let kinds = kinds.into_iter().map(|(name, count)| (plain(&name), count));
    units::kinds(kinds.collect(), KINDS)
}

/// Formats the mean of the runs, with the lowest and the highest value if they differ.
fn figure(
    runs: &[&RunResult],
    read: impl Fn(&RunResult) -> Option<f64>,
    show: impl Fn(f64) -> String,
) -> Option<String> {
    let stats = SummaryStats::from_values(runs.iter().filter_map(|run| read(run)))?;
    let [mean, low, high] = [stats.mean, stats.min, stats.max].map(show);
    if low == high {
        return Some(mean);
    }
    // The unit stands once: `119 µs (113–125 µs)`.
    let low = match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
        _ => low,
    };
    Some(format!("{mean} ({low}–{high})"))
}

fn rates(comparison: &Comparison<'_>, runs: &[&RunResult]) -> Option<Item> {
    let rates = roles::rates(comparison.suite).into_iter();
    let transfers = roles::transfers(comparison.suite).into_iter();
    let counted = rates.filter_map(|rate| {
        let value = figure(runs, |run| metrics::rate(run, &rate.name), units::whole)?;
        Some(format!("{value} {}/s", plain(&rate.label)))
    });
    let transferred = transfers.filter_map(|counter| {
        let read = |run: &RunResult| metrics::rate(run, &counter.name);
        let value = figure(runs, read, |rate| {
            format!("{}/s", units::bytes(rate as u64))
        })?;
        Some(format!("{value} {}", plain(&counter.label)))
    });
    let mut parts: Vec<String> = counted.collect();
    if parts.is_empty() {
        let read = |run: &RunResult| run.per_second(OK).filter(|rate| *rate > 0.0);
        let completed = figure(runs, read, units::significant);
        parts.extend(completed.map(|rate| format!("{rate} completed/s")));
    }
    parts.extend(transferred);
    (!parts.is_empty()).then(|| Item::new("rate", parts.join(", ")))
}

/// Builds an item for the headline series, and for those that the driver wants beside it.
fn latency(comparison: &Comparison<'_>, runs: &[&RunResult]) -> Option<Item> {
    let series = comparison.headline()?;
    let mut headline = statistics(runs, series, &STATISTICS);
    if let Some((median, own)) = headline.first_mut().zip(own_median(runs, series)) {
        median.push_str(&format!(", of which {own} is driver and machine"));
    }
    if headline.is_empty() {
        return None;
    }
    let mut parts = vec![(series, headline)];
    let brief = roles::brief_series(comparison.suite).into_iter();
    parts.extend(brief.map(|series| (series, statistics(runs, series, &OF_BRIEF))));
    parts.retain(|(_, statistics)| !statistics.is_empty());
    let parts = parts.iter().map(|(series, statistics)| {
        let label = comparison.series_label(series);
        format!("{label} {}", statistics.join(", "))
    });
    let mut item = Item::new("latency", parts.collect::<Vec<_>>().join("; "));
    item.most = Some(3);
    Some(item)
}

/// Formats statistics of a series. There are none if no run has it.
fn statistics(runs: &[&RunResult], series: &str, keys: &[&str]) -> Vec<String> {
    let statistics = keys.iter().filter_map(|key| {
        let read = metrics::statistic_by_key(key)?.read;
        let value = |run: &RunResult| read(&run.summary(series)?);
        let value = figure(runs, value, |ns| Unit::Nanoseconds.short(ns))?;
        Some(format!("{key} {value}"))
    });
    statistics.collect()
}

/// Returns the part of the median that is the driver's and the machine's, by the calibration of the runs.
fn own_median(runs: &[&RunResult], series: &str) -> Option<String> {
    let own = |run: &RunResult| {
        let floor = run.calibration.as_ref()?.floor(series)?.p50_ns?;
        Some(floor.min(run.series(series)?.p50_ns) as f64)
    };
    figure(runs, own, |ns| Unit::Nanoseconds.short(ns))
}

/// Builds an item for memory and one for CPU: of the daemon, of each service and of the driver.
fn resources(comparison: &Comparison<'_>, runs: &[&RunResult]) -> Vec<Item> {
    let metric = |key: &str| {
        let metric = metrics::by_key(key);
        figure(runs, metric.read, |value| metric.unit.short(value))
    };
    let service = |key: &str| {
        let metric = metrics::of_side(key);
        let services = runs.first().map(|run| &run.services);
        let services = services.into_iter().flatten().enumerate();
        let figures = services.filter_map(move |(index, service)| {
            let read = |run: &RunResult| (metric.read)(&run.services.get(index)?.usage, run);
            let value = figure(runs, read, |value| metric.unit.short(value))?;
            Some((plain(&service.name), value))
        });
        figures.collect::<Vec<_>>()
    };
    let is_shown = roles::has_connection_memory(comparison);
    let each = metric("daemon.rss.each").filter(|_| is_shown);
    let memory = [
        metric("daemon.rss.peak").map(|peak| match each {
            Some(each) => format!("daemon {peak} (+{each} per connection)"),
            None => format!("daemon {peak}"),
        }),
        metric("driver.rss.peak").map(|peak| format!("driver {peak}")),
    ];
    // The system counts CPU time in steps of 10 ms, so a short run may have used none of them.
    let used = |run: &&RunResult| metrics::value("daemon.cpu.each", run) > Some(0.0);
    let each = metric("daemon.cpu.each").filter(|_| runs.iter().all(used));
    let cpu = [
        metric("daemon.cpu.average").map(|cpu| match each {
            Some(each) => format!("daemon {cpu} ({each} per operation)"),
            None => format!("daemon {cpu}"),
        }),
        metric("driver.cpu.average").map(|cpu| format!("driver {cpu}")),
    ];
    let item =
        |label, of, [daemon, driver]: [Option<String>; 2], services: Vec<(String, String)>| {
            let services = services.iter();
            let services = services.map(|(name, value)| format!("{name} {value}"));
            let parts = daemon.into_iter().chain(services).chain(driver);
            let parts: Vec<String> = parts.collect();
            (!parts.is_empty()).then(|| Item::new(label, format!("{of}: {}", parts.join(", "))))
        };
    let memory = item("memory", "peak", memory, service("rss.peak"));
    let cpu = item("CPU", "of a core", cpu, service("cpu.average"));
    memory.into_iter().chain(cpu).collect()
}

fn faults(runs: &[&RunResult]) -> Option<Item> {
    let faults = runs.first().map(|run| &run.faults)?;
    let first = faults.first()?;
    let back = match first.back_s {
        Some(back_s) => format!("back after {}", units::seconds(back_s - first.at_s)),
        None => "not back".to_owned(),
    };
    let more = match faults.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let text = format!("{}: {back}{more}", plain(&first.what));
    Some(Item::new("fault", text))
}
