//! Each metric of each daemon as a ratio to the control's, with its interval: a forest plot.

use super::drawn::{Drawn, axis};
use crate::change::{ChangeScale, MARGIN};
use crate::report::comparison::Comparison;
use crate::report::contest::{Contest, Contests, described};
use crate::report::sections::common_level;
use crate::report::svg::{Chart, Limit, Mark, MarkKind, Scale};

/// The share of a metric's width used by its daemons.
const SPREAD: f64 = 0.6;

/// Draws a dot for each ratio and a line for its interval; `None` if nothing is compared with a control.
pub(super) fn draw(comparison: &Comparison<'_>) -> Option<Chart> {
    let level = common_level(comparison).filter(|_| comparison.has_controls())?;
    let mut contests = Contests::new(comparison, level);
    // Shares that may be 0 have no ratio.
    let has_ratio = |contest: &Contest<'_>| contest.metric.column.scale == ChangeScale::Ratio;
    contests.all.retain(has_ratio);
    let daemons = 0..comparison.daemons.len();
    let compared: Vec<usize> = daemons
        .filter(|daemon| comparison.controls[*daemon].is_some())
        .collect();
    let mut drawn = Drawn::default();
    for (index, daemon) in compared.iter().enumerate() {
        let aside = (index as f64 + 0.5) / compared.len() as f64 - 0.5;
        drawn.extend(of_daemon(comparison, &contests, *daemon, aside * SPREAD));
    }
    let names = contests.all.iter().map(name).collect();
    let y = axis(
        "ratio to the control, log scale",
        Scale::ratio(drawn.ys()),
        "",
    );
    let x = axis("metric", Scale::Names(names), "");
    let reading = "Dot: the ratio; line: the interval that the word is about. Across: equal, and 3 % more and less.";
    let title = "Compared with the control".to_owned();
    let chart = drawn.chart("ratios".to_owned(), title, reading, x, y);
    let bounds = [1.0, 1.0 + MARGIN, 1.0 / (1.0 + MARGIN)];
    let limits = bounds.map(|value| Limit {
        value,
        text: String::new(),
        met: true,
    });
    Some(Chart {
        limits: limits.into(),
        ..chart
    })
}

/// Names a metric on the axis: `p50`, `rate`, `memory`.
fn name(contest: &Contest<'_>) -> String {
    let statistic = contest.metric.key().rsplit('.').next();
    match contest.metric.label {
        "latency" => statistic.unwrap_or_default().to_owned(),
        label => label.to_owned(),
    }
}

fn of_daemon(
    comparison: &Comparison<'_>,
    contests: &Contests<'_>,
    daemon: usize,
    aside: f64,
) -> Drawn {
    let (mut ratios, mut lines, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for (index, contest) in contests.all.iter().enumerate() {
        let Some((ratio, finding)) = contest.to_daemon(daemon) else {
            continue;
        };
        let x = index as f64 + aside;
        ratios.push((x, ratio));
        lines.extend(
            finding
                .interval
                .map(|(low, high)| vec![(x, low), (x, high)]),
        );
        let noun = &contest.metric.column.head;
        texts.push(format!("{noun} {}", described(ratio, &finding)));
    }
    if ratios.is_empty() {
        return Drawn::default();
    }
    let name = comparison.daemon(daemon);
    let named = texts.iter().map(|text| format!("{name}: {text}")).collect();
    let mut marks = vec![Mark::new(daemon, MarkKind::Dots, vec![ratios]).named(named)];
    if !lines.is_empty() {
        marks.push(Mark::new(daemon, MarkKind::Line, lines));
    }
    Drawn {
        marks,
        descriptions: vec![format!("{name}: {}", texts.join(", "))],
    }
}
