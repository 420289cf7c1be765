//! Levels that could not be measured, each with its reason.

use crate::report::comparison::{Comparison, level_name};
use crate::report::document::{Part, Section};
use crate::report::table::{Head, Row, Table};
use crate::report::text::plain;
use crate::suite::Unreached;

/// Element ID of the section.
pub(super) const ID: &str = "unreached";

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let row = |missing: &Unreached| {
        let level = level_name(&missing.level);
        Row::new(
            None,
            [plain(&missing.daemon), level, plain(&missing.reason)],
        )
    };
    let rows: Vec<Row> = comparison.suite.unreached.iter().map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let head = ["daemon", "level", "reason"].map(Head::text).into();
    let table = Table::new("Not reached", head, rows);
    vec![Section::new(ID, "Not reached", vec![Part::Table(table)])]
}
