//! CSV with one row per second, for spreadsheets and plots.
//!
//! Columns: `run_id` and `daemon` if several results are given; `second`, `active`, `active_peak`; each counter by its
//! name; `error_` + each kind; and per series its `_count`, `_p50_ns`, `_p99_ns` and `_max_ns`. A second without values
//! of a series has empty percentile cells, since it has no percentile rather than a percentile of 0.

use std::collections::BTreeSet;

use crate::metrics::OF_A_SECOND;
use crate::report::{distinct, plain};
use crate::result::{RunResult, Second};
use crate::units::Unit;

/// Renders the seconds of all results.
pub fn render(results: &[RunResult]) -> String {
    let is_several = results.len() > 1;
    let columns = Columns::new(results);
    let mut text = line(&columns.head(is_several));
    for result in results {
        for second in &result.seconds {
            let mut cells = if is_several {
                vec![result.run_id.clone(), result.daemon.name.clone()]
            } else {
                Vec::new()
            };
            columns.add_cells(second, &mut cells);
            text.push_str(&line(&cells));
        }
    }
    text
}

/// Names that occur anywhere in the results, so that every row has the same cells.
#[derive(Debug)]
struct Columns<'a> {
    counts: BTreeSet<&'a String>,
    errors: BTreeSet<&'a String>,
    series: Vec<&'a String>,
}

impl<'a> Columns<'a> {
    fn new(results: &'a [RunResult]) -> Self {
        let seconds = || results.iter().flat_map(|result| &result.seconds);
        let counts = results.iter().flat_map(|result| result.counts.keys());
        let errors = results.iter().flat_map(|result| result.errors.keys());
        let series = results.iter().flat_map(|result| {
            let series = result.series.iter().map(|series| &series.name);
            // Operations started after the measured time have rows but are not in the totals.
            let late = result.seconds.iter().flat_map(|second| &second.series);
            series.chain(late.map(|series| &series.name))
        });
        Self {
            counts: counts
                .chain(seconds().flat_map(|second| second.counts.keys()))
                .collect(),
            errors: errors
                .chain(seconds().flat_map(|second| second.errors.keys()))
                .collect(),
            series: distinct(series),
        }
    }

    fn head(&self, is_several: bool) -> Vec<String> {
        let mut head = Vec::new();
        if is_several {
            head.extend(["run_id", "daemon"].map(str::to_owned));
        }
        head.extend(["second", "active", "active_peak"].map(str::to_owned));
        head.extend(self.counts.iter().copied().cloned());
        head.extend(self.errors.iter().map(|kind| format!("error_{kind}")));
        for name in &self.series {
            head.extend(OF_A_SECOND.map(|statistic| match statistic.unit {
                Unit::Nanoseconds => format!("{name}_{}_ns", statistic.key),
                _ => format!("{name}_{}", statistic.key),
            }));
        }
        head
    }

    fn add_cells(&self, second: &Second, cells: &mut Vec<String>) {
        let numbers = [second.second, second.active, second.active_peak];
        cells.extend(numbers.map(|number| number.to_string()));
        for (names, counts) in [
            (&self.counts, &second.counts),
            (&self.errors, &second.errors),
        ] {
            let counts = names.iter().map(|name| counts.get(*name).unwrap_or(&0));
            cells.extend(counts.map(u64::to_string));
        }
        for name in &self.series {
            match second.series.iter().find(|series| series.name == **name) {
                Some(series) => {
                    cells.extend(OF_A_SECOND.map(|statistic| (statistic.read)(series).to_string()))
                }
                None => cells.extend(["0", "", "", ""].map(str::to_owned)),
            }
        }
    }
}

/// Returns a line of cells.
pub fn line(cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| quoted(cell));
    cells.collect::<Vec<_>>().join(",") + "\n"
}

/// Quotes a cell as required by RFC 4180. A spreadsheet would calculate a name that begins as a formula does: an
/// apostrophe makes it text.
fn quoted(cell: &str) -> String {
    let formula = if cell.starts_with(['=', '+', '-', '@']) {
        "'"
    } else {
        ""
    };
    let cell = format!("{formula}{}", plain(cell));
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}
