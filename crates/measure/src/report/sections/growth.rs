//! Growth of a daemon under steady load: memory and open files against finished operations.

use crate::report::comparison::{Comparison, Repetitions};
use crate::report::table::{Head, Row, Table};
use crate::report::text::plain;
use crate::result::RunResult;
use crate::units::{self, NONE};

/// Builds a row for each run with enough steady load, or `None` if there is none.
pub(super) fn table(comparison: &Comparison<'_>, at: &[Repetitions<'_>]) -> Option<Table> {
    let head = [
        Head::text("daemon"),
        Head::figure("run"),
        Head::figure("samples"),
        Head::figure("finished"),
        Head::figure("RSS KiB"),
        Head::figure("first half"),
        Head::figure("second half"),
        Head::figure("open files"),
        Head::figure("first half"),
        Head::figure("second half"),
    ];
    let mut rows = Vec::new();
    for repeated in at {
        for (place, run) in repeated.runs.iter().enumerate() {
            let Some(figures) = figures(run) else {
                continue;
            };
            let named = [
                plain(comparison.daemons[repeated.daemon]),
                (place + 1).to_string(),
            ];
            let cells = named.into_iter().chain(figures);
            rows.push(Row::new(Some(repeated.daemon), cells));
        }
    }
    (!rows.is_empty()).then(|| Table::new("Growth under steady load", head.into(), rows))
}

fn figures(run: &RunResult) -> Option<[String; 8]> {
    let slopes = run.growth_under_load()?;
    let or_none = |half: Option<f64>, show: fn(f64) -> String| half.map_or(NONE.to_owned(), show);
    let [rss_first, rss_second] = slopes
        .rss_bytes_halves
        .map(|half| or_none(half, units::kib));
    let [fds_first, fds_second] = slopes
        .fds_halves
        .map(|half| or_none(half, units::significant));
    Some([
        slopes.looks.to_string(),
        units::whole(slopes.finished),
        units::kib(slopes.rss_bytes.slope),
        rss_first,
        rss_second,
        units::significant(slopes.fds.slope),
        fds_first,
        fds_second,
    ])
}
