//! Growth of a daemon under steady load: memory and open files against finished operations.

use super::cells::{Cell, Cells};
use super::grid::{Grid, Head, Row};
use super::show::{self, NONE, Text};
use crate::report::page;
use crate::result::RunResult;

/// Builds a row for each run with enough steady load, or `None` if there is none.
pub(super) fn table(cells: &Cells<'_>, at: &[Cell<'_>]) -> Option<Grid> {
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
    for cell in at {
        for (place, run) in cell.runs.iter().enumerate() {
            let Some(texts) = figures(run) else { continue };
            let named = [
                page::plain(cells.daemons[cell.daemon]),
                (place + 1).to_string(),
            ];
            rows.push(Row {
                daemon: Some(cell.daemon),
                texts: named.into_iter().chain(texts).map(Text::plain).collect(),
                starts_group: false,
            });
        }
    }
    (!rows.is_empty()).then(|| Grid::of_rows("Growth under steady load", head.into(), rows))
}

fn figures(run: &RunResult) -> Option<[String; 8]> {
    let slopes = run.growth_under_load()?;
    let kib = |bytes: f64| show::significant(bytes / 1024.0);
    let or_none = |half: Option<f64>, show: fn(f64) -> String| half.map_or(NONE.to_owned(), show);
    let [rss_first, rss_second] = slopes.rss_bytes_halves.map(|half| or_none(half, kib));
    let [fds_first, fds_second] = slopes
        .fds_halves
        .map(|half| or_none(half, show::significant));
    Some([
        slopes.looks.to_string(),
        show::whole(slopes.finished),
        kib(slopes.rss_bytes.slope),
        rss_first,
        rss_second,
        show::significant(slopes.fds.slope),
        fds_first,
        fds_second,
    ])
}
