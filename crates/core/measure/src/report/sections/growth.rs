//! Growth of a daemon under steady load: memory and open files against finished operations.

use crate::regression::LinearFit;
use crate::report::comparison::{Comparison, Repetitions, numbered};
use crate::report::table::{Head, Row, Table};
use crate::units::{self, NONE};

/// Builds a row for each run with enough steady load, or `None` if there is none.
pub(super) fn table(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let head = [
        Head::text("daemon"),
        Head::number("run"),
        Head::number("samples"),
        Head::number("finished"),
        Head::number("RSS KiB"),
        Head::number("first half"),
        Head::number("second half"),
        Head::number("open files"),
        Head::number("first half"),
        Head::number("second half"),
    ];
    let rows = numbered(at).filter_map(|(repeated, index, run)| {
        let growth = run.growth_under_load()?;
        let mut cells = vec![
            comparison.daemon(repeated.daemon),
            (index + 1).to_string(),
            growth.samples.to_string(),
            units::whole(growth.finished),
        ];
        let rss = (growth.rss_bytes, growth.rss_bytes_halves);
        cells.extend(slopes(rss, units::kib));
        cells.extend(slopes((growth.fds, growth.fds_halves), units::significant));
        Some(Row::new(Some(repeated.daemon), cells))
    });
    Table::non_empty("Growth under steady load", head.into(), rows.collect())
}

/// Formats the slope of a line and those of its halves.
fn slopes(
    (line, halves): (LinearFit, [Option<f64>; 2]),
    show: fn(f64) -> String,
) -> impl Iterator<Item = String> {
    let slopes = [Some(line.slope)].into_iter().chain(halves);
    slopes.map(move |slope| slope.map_or(NONE.to_owned(), show))
}
