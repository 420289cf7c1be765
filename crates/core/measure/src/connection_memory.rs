//! Memory of a connection: the resident memory that each one adds while a run opens them.
//!
//! Growth divided by connections is not that: a heap that warms up, or the pages of a database, grow with time and work.

use crate::regression::LinearFit;
use crate::result::{Cost, Resources, RunResult};
use crate::usage::UsageSummary;

/// Minimum number of connections that a figure for each is based on. With fewer, the pages that a process touches for
/// another reason are a large part of the growth: 8 clients of a database seemed to need 394 KiB each.
const MIN_CONNECTIONS: f64 = 100.0;
/// Minimum growth that a figure for each connection is based on, KiB: more than one arena of an allocator.
const MIN_GROWTH_KB: f64 = 256.0;
/// Minimum number of samples after all connections are open. They show whether memory stops to grow when connections do.
const MIN_SAMPLES_AFTER: usize = 3;
/// Share of the most connections at which all of them count as opened.
const OPENED: f64 = 0.95;
/// Minimum ratio of the smaller to the larger slope of the two halves. Memory that warms up levels off.
const MIN_HALVES_RATIO: f64 = 0.5;
/// Maximum growth after the connections were opened, as a share of the growth before.
const MAX_GROWTH_AFTER: f64 = 0.25;

/// Returns true if a growth of memory while this many connections were opened supports a figure for each of them.
pub(crate) fn is_supported(connections: f64, growth_kb: f64) -> bool {
    connections >= MIN_CONNECTIONS && growth_kb >= MIN_GROWTH_KB
}

impl RunResult {
    /// Returns the resident memory, in KiB, that a connection adds to the process tree whose use `usage` of this result
    /// is: the slope of a line through the samples while connections are opened. Returns `None` if they are few or were
    /// opened too fast for it, if the line does not hold beyond noise, if its halves differ, or if memory continued to
    /// grow.
    pub(crate) fn rss_kb_per_connection(&self, usage: &UsageSummary) -> Option<f64> {
        let connections = self.connections_over_time();
        let samples = self.resources.iter().filter_map(|sample| {
            let open = sample.active.or_else(|| at(&connections, sample.at_s))?;
            Some((open, self.cost_of(usage, sample)?.rss_kb as f64))
        });
        // The first connections bring what a process needs only once.
        let samples: Vec<(f64, f64)> = samples.filter(|(open, _)| *open > 0.0).collect();
        let most = samples.iter().map(|(open, _)| *open).fold(0.0, f64::max);
        let opened = samples
            .iter()
            .position(|(open, _)| *open >= OPENED * most)?;
        let (ramp, after) = samples.split_at(opened + 1);
        if after.len() < MIN_SAMPLES_AFTER {
            return None;
        }
        let line = LinearFit::through(ramp).filter(LinearFit::exceeds_noise)?;
        // The line of each half needs three samples.
        let (first, second) = ramp.split_at(ramp.len() / 2);
        let [first, second] = [first, second].map(LinearFit::through);
        let [first, second] = [first?.slope, second?.slope];
        let are_alike = first.min(second) >= MIN_HALVES_RATIO * first.max(second);
        let peak = after.iter().map(|(_, rss)| *rss).fold(0.0, f64::max);
        let growth = line.slope * (most - ramp[0].0);
        let stops = peak <= line.at(most) + MAX_GROWTH_AFTER * growth;
        let is_supported = is_supported(most - ramp[0].0, growth);
        (are_alike && stops && is_supported).then_some(line.slope)
    }

    /// Returns the connections at times in seconds since the first start; open operations, if the driver does not count
    /// connections.
    fn connections_over_time(&self) -> Vec<(f64, f64)> {
        let mut held = self.held();
        if held.is_empty() {
            let seconds = self.seconds.iter();
            held = seconds.map(|row| (row.second, row.active)).collect();
        }
        let ends = held.into_iter();
        let ends = ends.map(|(second, open)| (second as f64 + 1.0, open as f64));
        std::iter::once((0.0, 0.0)).chain(ends).collect()
    }

    /// Returns the side of a sample whose summary is `usage`.
    fn cost_of(&self, usage: &UsageSummary, sample: &Resources) -> Option<Cost> {
        let is_of = |side: &Option<UsageSummary>| {
            side.as_ref().is_some_and(|side| std::ptr::eq(side, usage))
        };
        if is_of(&self.usage.daemon) {
            return sample.daemon;
        }
        if is_of(&self.usage.driver) {
            return sample.driver;
        }
        let mut services = self.services.iter();
        let service = services.find(|service| std::ptr::eq(&service.usage, usage))?;
        sample.services.get(&service.name).copied()
    }
}

/// Returns the value at a time between two points, or `None` outside of all points.
fn at(points: &[(f64, f64)], time: f64) -> Option<f64> {
    let mut pairs = points.windows(2);
    let pair = pairs.find(|pair| (pair[0].0..=pair[1].0).contains(&time))?;
    let [(from, low), (to, high)] = [pair[0], pair[1]];
    Some(low + (high - low) * (time - from) / (to - from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Second;

    /// Returns a run of 30 s that opens 100 connections a second for `ramp` seconds, and whose daemon needs `rss_kb` at a
    /// time and a number of connections.
    fn run(ramp: u64, rss_kb: impl Fn(f64, f64) -> f64) -> RunResult {
        let text = include_str!("../tests/data/result-2.json");
        let mut run: RunResult = serde_json::from_str(text).unwrap();
        run.counts.clear();
        let open = |at_s: f64| 100.0 * at_s.clamp(0.0, ramp as f64);
        run.seconds = (0..30)
            .map(|second| Second {
                second,
                active: open(second as f64 + 1.0) as u64,
                ..Second::default()
            })
            .collect();
        let at = |second: u64| second as f64 - 0.02;
        run.resources = (0..30)
            .map(|second| Resources {
                at_s: at(second),
                daemon: Some(Cost {
                    rss_kb: rss_kb(at(second), open(at(second))) as u64,
                    ..Cost::default()
                }),
                ..Resources::default()
            })
            .collect();
        run
    }

    fn per_connection(run: &RunResult) -> Option<f64> {
        run.rss_kb_per_connection(run.usage.daemon.as_ref().unwrap())
    }

    #[test]
    fn memory_that_grows_with_connections_has_a_figure_for_each() {
        let run = run(10, |_, open| 20_000.0 + 6.0 * open);
        let kb = per_connection(&run).unwrap();
        assert!((kb - 6.0).abs() < 0.05, "{kb}");
        assert_eq!(
            run.rss_kb_per_connection(run.usage.driver.as_ref().unwrap()),
            None,
            "the driver was not sampled"
        );
    }

    #[test]
    fn a_heap_that_warms_up_is_not_memory_of_connections() {
        // It grows with time, while connections are opened and after.
        assert_eq!(
            per_connection(&run(10, |at_s, _| 40_000.0 + 900.0 * at_s)),
            None
        );
        // It levels off before all connections are open.
        let filled = |at_s: f64, _: f64| 40_000.0 + 20_000.0 * (1.0 - (-at_s / 2.0).exp());
        assert_eq!(per_connection(&run(10, filled)), None);
        // It goes up and down.
        let collected = |at_s: f64, open: f64| 40_000.0 + open + 9_000.0 * (at_s.round() % 3.0);
        assert_eq!(per_connection(&run(10, collected)), None);
        // It does not change.
        assert_eq!(per_connection(&run(10, |_, _| 40_000.0)), None);
    }

    #[test]
    fn growth_beside_few_connections_is_not_their_memory() {
        // Eight clients of a database whose cache fills up while they begin.
        let few = |clients: u64| {
            let mut run = run(10, |_, open| 20_000.0 + 0.394 * 8.0 * open);
            for row in &mut run.seconds {
                row.active = row.active * clients / 1_000;
            }
            per_connection(&run)
        };
        assert_eq!(few(8), None);
        assert!(few(1_000).is_some());
        // A few pages for each of many connections.
        let of_pages = run(10, |_, open| 20_000.0 + (open / 100.0).floor() * 12.0);
        assert_eq!(per_connection(&of_pages), None);
    }

    #[test]
    fn a_line_needs_three_samples_in_each_half() {
        let of = |ramp| per_connection(&run(ramp, |_, open| 20_000.0 + 6.0 * open));
        assert_eq!(of(5), None);
        assert!(of(6).is_some());
    }

    #[test]
    fn connections_that_are_opened_at_once_have_no_figure() {
        assert_eq!(
            per_connection(&run(1, |_, open| 20_000.0 + 6.0 * open)),
            None
        );
        // Nor those that are opened until the end, after which nothing was seen.
        assert_eq!(
            per_connection(&run(30, |_, open| 20_000.0 + 6.0 * open)),
            None
        );
    }
}
