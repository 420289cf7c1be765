//! Renders a second of a run as one line of fixed shape: only the width of the terminal decides where a field stands.

use console::Term;
use measure::units;

use crate::live::{LiveSecond, Phase};

/// Width of the bar that fields must leave.
const LEAST_BAR: usize = 10;
/// Widest bar: a longer one says no more.
const MOST_BAR: usize = 40;
/// Width of the name of a phase.
const PHASE: usize = 7;

/// Returns the columns of a line on stderr: the terminal's without the last, in which some terminals break the line.
#[must_use]
pub fn columns() -> usize {
    usize::from(Term::stderr().size().1).saturating_sub(1)
}

/// Renders a line of at most `width` columns.
pub fn render(second: &LiveSecond, width: usize) -> String {
    let time = time(second);
    let mut room = width.saturating_sub(PHASE + 1 + time.chars().count() + 1);
    let mut shown = Vec::new();
    // The first fields are the last to go.
    for (place, field) in fields(second) {
        let needed = field.chars().count() + 2;
        if room >= needed + LEAST_BAR {
            room -= needed;
            shown.push((place, field));
        }
    }
    shown.sort_by_key(|(place, _)| *place);
    let bar = bar(second, room.min(MOST_BAR));
    let mut line = format!("{:PHASE$} {bar} {time}", second.phase.name());
    for (_, field) in shown {
        line.push_str("  ");
        line.push_str(&field);
    }
    line.chars().take(width).collect()
}

/// Returns the fields by their importance, each with its place in the line.
fn fields(second: &LiveSecond) -> Vec<(u8, String)> {
    if let (Phase::Opening, Some((open, planned))) = (second.phase, second.connections) {
        let [open, planned] = [open, planned].map(compact);
        return vec![(0, format!("{open:>5} of {planned:>5} connections"))];
    }
    let p99 = second
        .p99_ns
        .map_or_else(|| "–".to_owned(), units::duration);
    vec![
        (2, format!("failed {:>5}", compact(second.failed))),
        (3, format!("p99 {p99:>7}")),
        (0, format!("{:>5}/s", compact(second.rate))),
        (1, format!("open {:>5}", compact(second.open))),
        (5, format!("ok {:>5}", compact(second.ok))),
        (4, format!("started {:>5}", compact(second.started))),
    ]
}

/// Returns the time so far and at the end, as wide as the latest end may become.
fn time(second: &LiveSecond) -> String {
    let digits = second.latest.to_string().len();
    let text = second.end.after(second.second);
    format!("{text:>width$}", width = 2 * digits + 4)
}

fn bar(second: &LiveSecond, width: usize) -> String {
    let end = second.end.seconds().max(1);
    let halves = (2 * width as u64 * second.second.min(end) / end) as usize;
    let filled = "━".repeat(halves / 2);
    let half = if halves % 2 == 1 { "╸" } else { "" };
    format!("{:─<width$}", format!("{filled}{half}"))
}

/// Formats a count in at most five characters: `9,999`, `12.3k`, `1.23M`.
pub fn compact(count: u64) -> String {
    if count < 10_000 {
        return units::count(count);
    }
    let mut value = count as f64;
    for unit in ["k", "M", "G", "T"] {
        value /= 1e3;
        let text = match value {
            value if value < 9.995 => format!("{value:.2}"),
            value if value < 99.95 => format!("{value:.1}"),
            value if value < 999.5 => format!("{value:.0}"),
            _ => continue,
        };
        return text + unit;
    }
    "many".to_owned()
}

/// Renders a line for a log, without a bar.
#[must_use]
pub fn log_line(second: &LiveSecond) -> String {
    let head = format!("{:>4} s  {:PHASE$}", second.second, second.phase.name());
    if let (Phase::Opening, Some((open, planned))) = (second.phase, second.connections) {
        let [open, planned] = [open, planned].map(units::count);
        return format!("{head}  {open} of {planned} connections");
    }
    let p99 = second
        .p99_ns
        .map_or_else(|| "–".to_owned(), units::duration);
    format!(
        "{head}  started {}  ok {}  failed {}  p99 {p99}",
        units::count(second.started),
        units::count(second.ok),
        units::count(second.failed),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::End;
    use crate::live::tests::second;
    use harness_testing::assert_contains;

    #[test]
    fn at_80_columns_the_line_has_what_matters_and_a_bar() {
        assert_eq!(
            render(&second(33), 79),
            "measure ━━━━━━──────   33/~66 s  1,234/s  open 1,000  failed     0  p99 12.3 ms"
        );
    }

    #[test]
    fn no_field_moves_whatever_the_figures_and_the_end_become() {
        let place = |second: &LiveSecond, width: usize| {
            let line: Vec<char> = render(second, width).chars().collect();
            assert!(line.len() <= width, "{line:?}");
            let text: String = line.iter().collect();
            let at = |what: &str| text.find(what).map(|at| text[..at].chars().count());
            ["/s", "open", "failed", "p99", "started", "ok "].map(at)
        };
        let calm = second(3);
        let busy = LiveSecond {
            second: 187,
            phase: Phase::Drain,
            end: End::AtMost(187),
            started: 123_456_789,
            ok: 99_999,
            failed: 1_000_000_000,
            open: 10_000,
            rate: 9_999,
            p50_ns: None,
            p99_ns: Some(59_990_000_000),
            ..second(3)
        };
        let idle = LiveSecond {
            p99_ns: None,
            failed: 7,
            ..second(100)
        };
        for width in [20, 40, 60, 79, 99, 119, 200] {
            let places = place(&calm, width);
            assert_eq!(places, place(&busy, width), "{width}");
            assert_eq!(places, place(&idle, width), "{width}");
        }
    }

    #[test]
    fn a_wide_terminal_shows_every_count() {
        let line = render(&second(66), 160);
        assert_contains(&line, &["started 81.4k", "ok 79.2k", "open 1,000"]);
    }

    #[test]
    fn opening_connections_are_counted() {
        let opening = LiveSecond {
            phase: Phase::Opening,
            end: End::AtMost(187),
            connections: Some((20_000, 1_000_000)),
            ..second(3)
        };
        let line = render(&opening, 79);
        assert!(line.starts_with("opening "), "{line}");
        assert!(
            line.ends_with("  3/≤187 s  20.0k of 1.00M connections"),
            "{line}"
        );
        assert_eq!(
            log_line(&opening),
            "   3 s  opening  20,000 of 1,000,000 connections"
        );
    }

    #[test]
    fn a_line_of_a_log_has_exact_counts() {
        assert_eq!(
            log_line(&second(20)),
            "  20 s  measure  started 24,680  ok 24,000  failed 0  p99 12.3 ms"
        );
    }

    #[test]
    fn a_count_fits_five_columns() {
        let counts = [
            0,
            9_999,
            10_000,
            99_949,
            99_950,
            999_500,
            12_345_678,
            u64::MAX,
        ];
        let texts = counts.map(compact);
        assert_eq!(
            texts,
            [
                "0", "9,999", "10.0k", "99.9k", "100k", "1.00M", "12.3M", "many"
            ]
        );
    }
}
