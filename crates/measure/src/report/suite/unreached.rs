//! Levels that could not be measured, each with its reason.

use super::cells::level_name;
use super::document::{Part, Section};
use super::grid::{Grid, Head, Row};
use super::show::Text;
use crate::report::page;
use crate::suite::Suite;

pub(super) fn section(suite: &Suite) -> Option<Section> {
    let row = |missing: &crate::suite::Unreached| Row {
        daemon: None,
        texts: vec![
            Text::plain(page::plain(&missing.daemon)),
            Text::plain(level_name(&missing.level)),
            Text::plain(page::plain(&missing.reason)),
        ],
        starts_group: false,
    };
    let rows: Vec<Row> = suite.unreached.iter().map(row).collect();
    let head = ["daemon", "level", "reason"].map(Head::text).into();
    (!rows.is_empty()).then(|| {
        let grid = Grid::of_rows("Not reached", head, rows);
        Section::new("unreached", "Not reached", vec![Part::Grid(grid)])
    })
}
