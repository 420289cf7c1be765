//! CSV with one row per second, for spreadsheets and plots.
//!
//! Columns: `run_id` and `daemon` if several results are given; `second`, `active`, `active_peak`; each counter by its
//! name; `error_` + each kind; and per series its `_count`, `_p50_ns`, `_p99_ns` and `_max_ns`. A second without values
//! of a series has empty percentile cells, since it has no percentile rather than a percentile of 0.

use std::collections::BTreeMap;

use crate::metrics::{OF_A_SECOND, SecondStatistic};
use crate::result::{RunResult, Second};
use crate::units::Unit;

/// Renders the seconds of all results.
#[must_use]
pub fn render(results: &[RunResult]) -> String {
    let columns = Columns::new(results);
    let mut text = line(columns.head(results.len() > 1));
    for result in results {
        for second in &result.seconds {
            let mut cells = if results.len() > 1 {
                vec![result.run_id.clone(), result.daemon.name.clone()]
            } else {
                Vec::new()
            };
            columns.cells(second, &mut cells);
            text.push_str(&line(cells));
        }
    }
    text
}

/// Names that occur anywhere in the results, so that every row has the same cells.
#[derive(Debug, Default)]
struct Columns<'a> {
    counts: Vec<&'a str>,
    errors: Vec<&'a str>,
    series: Vec<&'a str>,
}

impl<'a> Columns<'a> {
    fn new(results: &'a [RunResult]) -> Self {
        let mut columns = Self::default();
        for result in results {
            let seconds = || result.seconds.iter();
            let counts = seconds()
                .map(|second| &second.counts)
                .chain([&result.counts]);
            let errors = seconds()
                .map(|second| &second.errors)
                .chain([&result.errors]);
            let series = result.series.iter().map(|series| &series.name);
            // Operations started after the measured time have rows but are not in the totals.
            let late = seconds()
                .flat_map(|second| &second.series)
                .map(|series| &series.name);
            add_names(&mut columns.counts, counts.flat_map(BTreeMap::keys));
            add_names(&mut columns.errors, errors.flat_map(BTreeMap::keys));
            add_names(&mut columns.series, series.chain(late));
        }
        columns.counts.sort_unstable();
        columns.errors.sort_unstable();
        columns
    }

    fn head(&self, several: bool) -> Vec<String> {
        let whose = if several {
            &["run_id", "daemon"][..]
        } else {
            &[]
        };
        let fixed = whose
            .iter()
            .chain(&["second", "active", "active_peak"])
            .map(|name| (*name).to_owned());
        let counts = self.counts.iter().map(|name| (*name).to_owned());
        let errors = self.errors.iter().map(|kind| format!("error_{kind}"));
        let column = |name: &str, statistic: &SecondStatistic| match statistic.unit {
            Unit::Nanoseconds => format!("{name}_{}_ns", statistic.key),
            _ => format!("{name}_{}", statistic.key),
        };
        let series = self
            .series
            .iter()
            .flat_map(|name| OF_A_SECOND.map(|statistic| column(name, &statistic)));
        fixed.chain(counts).chain(errors).chain(series).collect()
    }

    fn cells(&self, second: &Second, cells: &mut Vec<String>) {
        let of = |counts: &BTreeMap<String, u64>, name: &str| {
            counts.get(name).copied().unwrap_or(0).to_string()
        };
        cells.extend(
            [second.second, second.active, second.active_peak].map(|figure| figure.to_string()),
        );
        cells.extend(self.counts.iter().map(|name| of(&second.counts, name)));
        cells.extend(self.errors.iter().map(|kind| of(&second.errors, kind)));
        for name in &self.series {
            match second.series.iter().find(|series| series.name == *name) {
                Some(series) => {
                    cells.extend(OF_A_SECOND.map(|statistic| (statistic.read)(series).to_string()))
                }
                None => cells.extend(["0", "", "", ""].map(str::to_owned)),
            }
        }
    }
}

fn add_names<'a>(names: &mut Vec<&'a str>, more: impl Iterator<Item = &'a String>) {
    for name in more {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
}

fn line(cells: Vec<String>) -> String {
    cells.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// Quotes a cell as required by RFC 4180.
fn quoted(cell: String) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}
