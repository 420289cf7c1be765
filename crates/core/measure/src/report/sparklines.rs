//! Cell charts of a run, drawn with block characters.

use super::comparison::Comparison;
use super::document::Charts;
use super::error::Error;
use super::text::plain;
use crate::metrics;
use crate::result::{RunResult, Second};
use crate::tally::{Distribution, STARTED};
use crate::units;

/// Columns of a chart, without its labels.
const WIDTH: u64 = 60;
/// Maximum number of columns per decade.
const MOST_PER_DECADE: u64 = 10;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws charts as lines of text under headings. Only those of a single run are drawn: charts that
/// compare runs have tables beside them.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub(super) fn draw(
    comparison: &Comparison<'_>,
    charts: &Charts,
) -> Result<Vec<(&'static str, Vec<String>)>, Error> {
    let (Some(run), Charts::Level(_)) = (comparison.only_run(), charts) else {
        return Ok(Vec::new());
    };
    let mut drawn = vec![
        ("Distributions", distributions(run)?),
        ("Over time", over_time(run)),
    ];
    drawn.retain(|(_, lines)| !lines.is_empty());
    Ok(drawn)
}

/// Draws one line per figure over the seconds of a run: starts, open operations, failures and the p99 of each series.
/// Returns nothing for a run of less than two seconds.
fn over_time(result: &RunResult) -> Vec<String> {
    let last = result.seconds.iter().map(|second| second.second).max();
    let Some(length) = last
        .filter(|last| *last > 0)
        .map(|last| last.saturating_add(1))
    else {
        return Vec::new();
    };
    let per_column = length.div_ceil(WIDTH);
    let mut rows = Vec::new();
    let mut add = |label: String, show: fn(u64) -> String, read: Read<'_>| {
        let columns = columns(
            &result.seconds,
            per_column,
            length.div_ceil(per_column),
            read,
        );
        let highest = columns.iter().copied().max().unwrap_or(0);
        rows.extend((highest > 0).then(|| Row {
            label,
            line: bars(&columns),
            note: format!("max {}", show(highest)),
        }));
    };
    add("started/s".to_owned(), units::count, &|second| {
        second.counts.get(STARTED).copied()
    });
    add("active".to_owned(), units::count, &|second| {
        Some(second.active_peak)
    });
    add("failed/s".to_owned(), units::count, &|second| {
        Some(second.errors.values().sum())
    });
    for series in result.series.iter().chain(&result.lag) {
        let label = format!("{} p99", plain(&series.name));
        add(label, units::duration, &|second| {
            metrics::in_second(second, &series.name, "p99")
        });
    }
    let step = match per_column {
        1 => "1 s".to_owned(),
        seconds => format!("{seconds} s (maximum)"),
    };
    lines(rows, format!("0 to {length} s, one column = {step}"))
}

type Read<'a> = &'a dyn Fn(&Second) -> Option<u64>;

/// Returns the highest figure of each column, or 0 if there is none.
fn columns(seconds: &[Second], per_column: u64, count: u64, read: Read<'_>) -> Vec<u64> {
    let mut columns = vec![0; count as usize];
    for second in seconds {
        let index = (second.second / per_column).min(count - 1) as usize;
        columns[index] = read(second).unwrap_or(0).max(columns[index]);
    }
    columns
}

/// Draws one line per series on a common logarithmic axis: the higher the bar, the more values it represents.
fn distributions(result: &RunResult) -> Result<Vec<String>, Error> {
    let mut series = Vec::new();
    for one in result.series.iter().chain(&result.lag) {
        let values = one.distribution();
        let values = values.map_err(Error::histogram(result, &one.name))?;
        series.push((plain(&one.name), values));
    }
    let Some(axis) = Axis::over(&series) else {
        return Ok(Vec::new());
    };
    let row = |(label, values): (String, Distribution)| Row {
        label,
        line: bars(&axis.shares(&values)),
        note: String::new(),
    };
    Ok(lines(series.into_iter().map(row).collect(), axis.marks()))
}

/// A logarithmic axis of whole decades.
#[derive(Debug)]
struct Axis {
    first: u32,
    decades: u32,
    per_decade: u32,
    /// True if values below the axis are drawn in its first column.
    open: bool,
}

impl Axis {
    /// Chooses the decades of these series' values, without the smallest hundredth of each. A single value of a few
    /// nanoseconds would squeeze the rest into half of the chart.
    fn over(series: &[(String, Distribution)]) -> Option<Self> {
        let decade_of = |quantile: f64| {
            let values = series.iter();
            let values = values.filter_map(move |(_, values)| values.quantile(quantile));
            values.map(|value| value.max(1).ilog10())
        };
        let first = decade_of(0.01).min()?;
        let decades = decade_of(1.0).max()?.saturating_sub(first) + 1;
        let per_decade = (WIDTH as u32 / decades).clamp(1, MOST_PER_DECADE as u32);
        Some(Self {
            first,
            decades,
            per_decade,
            open: decade_of(0.0).min()? < first,
        })
    }

    fn shares(&self, values: &Distribution) -> Vec<u64> {
        let mut columns = vec![0; (self.decades * self.per_decade) as usize];
        let last = columns.len() - 1;
        for step in values.histogram().iter_recorded() {
            let decade = (step.value_iterated_to().max(1) as f64).log10() - f64::from(self.first);
            // A negative index becomes the first: the cast saturates.
            let index = (decade * f64::from(self.per_decade)) as usize;
            columns[index.min(last)] += step.count_since_last_iteration();
        }
        columns
    }

    /// Returns the labels of the decades, each at its start.
    fn marks(&self) -> String {
        let mut line = String::new();
        for decade in 0..self.decades {
            let column = (decade * self.per_decade) as usize;
            // In narrow decades, a label that would touch the previous one is left out.
            if decade == 0 || line.chars().count() < column {
                line.extend(std::iter::repeat_n(' ', column - line.chars().count()));
                line.push_str(if decade == 0 && self.open { "≤" } else { "" });
                line.push_str(&decade_name(self.first + decade));
            }
        }
        line
    }
}

/// Formats a power of ten in nanoseconds: `1ns`, `10µs`, `1000s`.
fn decade_name(exponent: u32) -> String {
    let unit = (exponent / 3).min(3);
    format!(
        "{}{}",
        10_u64.pow(exponent - unit * 3),
        ["ns", "µs", "ms", "s"][unit as usize]
    )
}

/// Draws one bar per column, relative to the largest. Figures above 0 are always visible.
fn bars(columns: &[u64]) -> String {
    let most = columns.iter().copied().max().unwrap_or(0);
    let bar = |value: &u64| match value {
        0 => ' ',
        value => LEVELS[(u128::from(*value) * 8).div_ceil(u128::from(most)) as usize - 1],
    };
    columns.iter().map(bar).collect()
}

#[derive(Debug, Default)]
struct Row {
    label: String,
    line: String,
    note: String,
}

/// Aligns rows under each other, with the axis below.
fn lines(rows: Vec<Row>, axis: String) -> Vec<String> {
    let labels = rows.iter().map(|row| row.label.chars().count());
    let label_width = labels.max().unwrap_or(0);
    let bottom = Row {
        line: axis,
        ..Row::default()
    };
    let line = |row: Row| {
        let line = format!("{:<label_width$}  {}  {}", row.label, row.line, row.note);
        line.trim_end().to_owned()
    };
    rows.into_iter().chain([bottom]).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_figure_is_a_full_bar_and_the_smallest_is_still_seen() {
        assert_eq!(bars(&[0, 1, 500, 1_000]), " ▁▄█");
        assert_eq!(bars(&[u64::MAX, 0]), "█ ");
        assert_eq!(bars(&[0, 0]), "  ");
    }

    #[test]
    fn a_few_tiny_values_do_not_squeeze_the_rest() {
        let mut values = Distribution::default();
        values.record(3);
        (0..1_000).for_each(|step| values.record(100_000 + step * 800));
        let axis = Axis::over(&[("gap".to_owned(), values.clone())]).unwrap();
        assert_eq!(
            (axis.first, axis.decades, axis.marks()),
            (5, 1, "≤100µs".to_owned())
        );
        assert_eq!(axis.shares(&values).iter().sum::<u64>(), 1_001);
    }

    #[test]
    fn decades_have_short_names() {
        assert_eq!(
            [0, 4, 8, 9, 12].map(decade_name),
            ["1ns", "10µs", "100ms", "1s", "1000s"]
        );
    }

    #[test]
    fn a_long_run_shows_the_highest_second_of_each_column() {
        let seconds: Vec<Second> = (0..120)
            .map(|second| Second {
                second,
                active_peak: 1 + 9 * u64::from(second == 61),
                ..Second::default()
            })
            .collect();
        let columns = columns(&seconds, 2, 60, &|second| Some(second.active_peak));
        assert_eq!((columns.len(), columns[30], columns[31]), (60, 10, 1));
    }
}
