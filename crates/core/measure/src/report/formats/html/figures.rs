//! Charts as figures, and the legend of the page.

use maud::{Markup, html};

use crate::report::charts::Group;
use crate::report::comparison::Comparison;
use crate::report::plain;
use crate::report::svg::{self, Chart, MarkKind, Size};

/// Maximum number of points per line.
const POINTS: usize = 1_000;
/// Maximum number of points of all lines together, at about five bytes each.
const BUDGET: usize = 20_000;
/// Minimum number of points per line, however many lines there are.
const FEWEST: usize = 48;

/// Returns the number of points for each line, so that a page of many lines stays small.
pub(super) fn most_points<'a>(groups: impl Iterator<Item = &'a Group>) -> usize {
    let charts = groups.flat_map(|group| &group.charts);
    let lines: usize = charts.map(|chart| chart.marks.len()).sum();
    (BUDGET / lines.max(1)).clamp(FEWEST, POINTS)
}

/// Lists the daemons with their colours and shapes, for all charts of the page.
pub(super) fn legend(comparison: &Comparison<'_>) -> Markup {
    html! {
        ul.legend aria-label="Daemons" {
            @for (daemon, name) in comparison.daemons.iter().enumerate() {
                li class=(svg::swatch(daemon)) data-d=(daemon) { (plain(name)) }
            }
        }
    }
}

pub(super) fn groups(groups: &[Group], most: usize) -> Markup {
    html! {
        @for group in groups {
            @match &group.fold {
                None => (figures(&group.charts, most)),
                Some(title) => details { summary { (title) } (figures(&group.charts, most)) },
            }
        }
    }
}

fn figures(charts: &[Chart], most: usize) -> Markup {
    let is_small = charts.iter().all(|chart| chart.size == Size::Compact);
    html! {
        div class=(if is_small { "charts small" } else { "charts" }) {
            @for chart in charts { (figure(chart, most)) }
        }
    }
}

fn figure(chart: &Chart, most: usize) -> Markup {
    let dashed = chart.marks.iter().any(|mark| mark.kind == MarkKind::Dashed);
    let daemon = chart.heat.as_ref().map(|heat| heat.daemon);
    html! {
        figure id=(chart.id) data-d=[daemon] {
            figcaption {
                strong { (chart.title) }
                @if !chart.reading.is_empty() { p class=[dashed.then_some("dashes")] { (chart.reading) } }
            }
            (chart.draw(most))
        }
    }
}
