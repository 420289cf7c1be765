//! The charts of a comparison: their selection and their content.

use super::comparison::{Comparison, level_id};
use super::document::Charts;
use super::error::Error;
use super::roles;
use super::svg::Chart;
use timeline::Timeline;

mod by_level;
mod drawn;
mod heat_map;
mod memory;
mod over_time;
mod percentiles;
mod ramp;
mod ratios;
mod timeline;

/// Charts that are shown together.
#[derive(Debug)]
pub(super) struct Group {
    /// Title of a group that is folded; `None` for one that is always shown.
    pub(super) fold: Option<String>,
    pub(super) charts: Vec<Chart>,
}

impl Group {
    fn shown(charts: impl IntoIterator<Item = Chart>) -> Self {
        Self {
            fold: None,
            charts: charts.into_iter().collect(),
        }
    }

    fn folded(title: impl Into<String>, charts: Vec<Chart>) -> Self {
        Self {
            fold: Some(title.into()),
            charts,
        }
    }
}

/// Builds the non-empty charts of a section.
pub(super) fn draw(comparison: &Comparison<'_>, charts: &Charts) -> Result<Vec<Group>, Error> {
    let mut groups = match charts {
        Charts::Levels if comparison.only_run().is_some() => Vec::new(),
        Charts::Levels => vec![Group::shown(by_level::draw(comparison))],
        Charts::Ratios => vec![Group::shown(ratios::draw(comparison))],
        Charts::Ramp => vec![Group::shown(ramp::draw(comparison))],
        Charts::Memory => vec![Group::shown([memory::draw(comparison)])],
        Charts::Level(level) => of_level(comparison, level)?,
    };
    for group in &mut groups {
        group.charts.retain(|chart| !chart.is_empty());
    }
    groups.retain(|group| !group.charts.is_empty());
    // A single daemon is named by the page. The label of its memory is a figure.
    if comparison.daemons.len() == 1 && !matches!(charts, Charts::Memory) {
        let charts = groups.iter_mut().flat_map(|group| &mut group.charts);
        for mark in charts.flat_map(|chart| &mut chart.marks) {
            mark.label = None;
        }
    }
    Ok(groups)
}

/// Builds the charts of a level: the most important series, rates and resources, then the rest to be unfolded.
fn of_level(comparison: &Comparison<'_>, level: &str) -> Result<Vec<Group>, Error> {
    let at = comparison.at(level);
    let id = level_id(level);
    let timeline = &Timeline::new(comparison, &at, &id);
    let headline = comparison.headline();
    let mut main = Vec::new();
    let mut heat = Vec::new();
    if let Some(series) = headline {
        main.push(percentiles::draw(comparison, &at, &id, series)?);
        main.push(over_time::latency(timeline, series));
        heat = heat_map::draw(timeline, series)?;
    }
    // One heat map shows what several can only show together.
    if comparison.only_run().is_some() {
        main.append(&mut heat);
    }
    main.extend(over_time::rates(timeline));
    main.extend(over_time::errors(timeline));
    main.push(over_time::memory(timeline));
    main.push(over_time::cpu(timeline));
    let is_connections = !roles::has_messages(comparison.suite);
    let connections = over_time::connections(timeline);
    let mut more = Vec::new();
    if is_connections {
        main.push(connections)
    } else {
        more.push(connections)
    }
    more.push(over_time::requests(timeline));
    more.extend(over_time::backlog(timeline));
    let mut others = Vec::new();
    let series = comparison.main_series().into_iter();
    let series: Vec<&str> = series.filter(|series| Some(*series) != headline).collect();
    for series in &series {
        others.push(percentiles::draw(comparison, &at, &id, series)?);
        others.push(over_time::latency(timeline, series));
    }
    let labels = series.iter().map(|series| comparison.series_label(series));
    let others_title = format!("Charts of {}", labels.collect::<Vec<_>>().join(", "));
    Ok(vec![
        Group::shown(main),
        Group::folded("Heat map of each daemon", heat),
        Group::folded(others_title, others),
        Group::folded("Charts of requests and the accept queue", more),
    ])
}
