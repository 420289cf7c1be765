//! Whether a daemon grows under steady load: memory and descriptors against what it has finished.

use super::cells::{Cell, Cells};
use super::grid::{Grid, Head, Row};
use super::show::{self, Text};
use crate::report::page;
use crate::result::RunResult;
use crate::slope::Line;

/// A row for each run that stood under steady load for long enough; nothing where none did.
pub(super) fn table(cells: &Cells<'_>, at: &[Cell<'_>]) -> Option<Grid> {
    let head = [
        Head::words("daemon"),
        Head::figure("run"),
        Head::figure("looks"),
        Head::figure("finished meanwhile"),
        Head::figure("RSS KiB ± 95 %"),
        Head::figure("open files ± 95 %"),
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
                opens: false,
            });
        }
    }
    (!rows.is_empty()).then(|| Grid::of_rows("Growth under steady load", head.into(), rows))
}

fn figures(run: &RunResult) -> Option<[String; 4]> {
    let slopes = run.slopes()?;
    let shown = |line: Line, unit: f64| {
        format!(
            "{} ± {}",
            show::significant(line.slope / unit),
            show::significant(line.half_interval() / unit)
        )
    };
    Some([
        slopes.looks.to_string(),
        show::whole(slopes.finished),
        shown(slopes.rss_bytes, 1024.0),
        shown(slopes.fds, 1.0),
    ])
}
