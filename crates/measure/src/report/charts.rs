//! The charts of a comparison: their selection and their content.

use super::comparison::{Comparison, level_id};
use super::document::Charts;
use super::error::Error;
use super::svg::Chart;

mod by_level;
mod drawn;
mod memory;
mod over_time;
mod percentiles;

/// Builds the non-empty charts of a section.
pub(super) fn draw(comparison: &Comparison<'_>, charts: &Charts) -> Result<Vec<Chart>, Error> {
    Ok(match charts {
        Charts::Levels => by_level::draw(comparison),
        Charts::Memory => memory::draw(comparison).into_iter().collect(),
        Charts::Level(level) => of_level(comparison, level)?,
    })
}

fn of_level(comparison: &Comparison<'_>, level: &str) -> Result<Vec<Chart>, Error> {
    let at = comparison.at(level);
    let id = level_id(level);
    let mut charts = Vec::new();
    for series in comparison.main_series() {
        charts.extend(percentiles::draw(comparison, &at, &id, series)?);
    }
    for series in comparison.main_series() {
        charts.extend(over_time::latency(comparison, &at, &id, series));
    }
    charts.extend(over_time::rates(comparison, &at, &id));
    charts.extend(over_time::resources(comparison, &at, &id));
    Ok(charts)
}
