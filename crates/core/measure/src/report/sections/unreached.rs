//! Levels that could not be measured, each with its reason.

use crate::report::comparison::{Comparison, level_name};
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::table::{Head, Row, Table};
use crate::suite::Unreached;

/// Element ID of the section.
pub(super) const ID: &str = "unreached";

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let row = |missing: &Unreached| {
        let level = level_name(&missing.level);
        let cells = [plain(&missing.daemon), level, plain(&missing.reason)];
        Row::new(None, cells)
    };
    let rows = comparison.suite.unreached.iter().map(row).collect();
    let head = ["daemon", "level", "reason"].map(Head::text).into();
    let table = Table::non_empty("Not reached", head, rows);
    let parts = table.into_iter().map(Part::Table).collect();
    Section::non_empty(ID, "Not reached", parts)
}
