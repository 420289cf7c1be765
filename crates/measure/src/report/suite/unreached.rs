//! What could not be measured, with what stopped it: never silently skipped.

use super::cells::level_name;
use super::document::{Part, Section};
use super::grid::{Grid, Head, Row};
use super::show::Text;
use crate::report::page;
use crate::suite::Suite;

pub(super) fn of(suite: &Suite) -> Option<Section> {
    let row = |missing: &crate::suite::Unreached| Row {
        daemon: None,
        texts: vec![
            Text::plain(page::plain(&missing.daemon)),
            Text::plain(level_name(&missing.level)),
            Text::plain(page::plain(&missing.reason)),
        ],
        opens: false,
    };
    let rows: Vec<Row> = suite.unreached.iter().map(row).collect();
    let head = ["daemon", "level", "reason"].map(Head::words).into();
    (!rows.is_empty()).then(|| {
        let grid = Grid::of_rows("Not reached", head, rows);
        Section::new("unreached", "Not reached", vec![Part::Grid(grid)])
    })
}
