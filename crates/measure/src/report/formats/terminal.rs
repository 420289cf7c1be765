//! One screen of a terminal: the verdict and its reasons, the main figures or the answer, and what is wrong.

use super::Options;
use super::full::labelled;
use crate::report::comparison::{Comparison, level_name, measured_values};
use crate::report::sections;
use crate::report::table::FAILS;
use crate::report::text::plain;
use crate::suite::Suite;
use crate::units;
use crate::warning::{Kind, Severity, Verdict, Warning};

mod figures;

/// Columns, if the width of the terminal is not known.
const WIDTH: usize = 80;
/// Fewest columns that text is wrapped into.
const NARROWEST: usize = 40;
/// Maximum number of lines of the screen of a run.
const LINES: usize = 15;
/// Maximum number of items of each list.
const LISTED: usize = 2;

/// An item of the screen: its label and its text.
pub(super) struct Item {
    label: &'static str,
    text: String,
    /// Maximum number of lines, if there is one.
    most: Option<usize>,
}

impl Item {
    pub(super) fn new(label: &'static str, text: String) -> Self {
        Self {
            label,
            text,
            most: Some(2),
        }
    }

    /// Creates an item whose text is never cut.
    fn whole(label: &'static str, text: String) -> Self {
        Self {
            most: None,
            ..Self::new(label, text)
        }
    }

    fn lines(&self, width: usize, most: usize) -> Vec<String> {
        let text = labelled(self.label, &self.text, width);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let most = self.most.map_or(lines.len(), |own| own.min(most));
        if lines.len() > most {
            lines.truncate(most);
            if let Some(last) = lines.last_mut() {
                let kept: String = last.chars().take(width.saturating_sub(2)).collect();
                *last = format!("{} …", kept.trim_end());
            }
        }
        lines
    }
}

/// Renders the screen. That of a single daemon at one level has at most 15 lines if the terminal is 80 columns wide.
pub fn render(suite: &Suite, options: &Options<'_>) -> String {
    let comparison = Comparison::new(suite);
    let width = options.width.unwrap_or(WIDTH).max(NARROWEST);
    let is_one = comparison.all().len() == 1;
    let mut items = Vec::new();
    if is_one {
        items.extend(overload(&comparison));
        items.extend(reasons(&comparison));
        items.extend(figures::items(&comparison));
    } else {
        items.extend(verdicts(suite));
        items.extend(reasons(&comparison));
        let answer = sections::answer(&comparison).into_iter();
        items.extend(answer.map(|(label, sentence)| Item::whole(label, plain(&sentence))));
    }
    items.extend(audit(&comparison));
    items.extend(missed(&comparison));
    items.extend(unreached(suite));
    items.extend(grouped(&comparison, Severity::Note, 0));
    let page = options
        .page
        .map_or(String::new(), |page| format!(", {page}"));
    let more = options.more.unwrap_or("--full");
    items.push(Item::whole("more", format!("{more}{page}")));
    let title = sections::title(&comparison);
    let fill = |most: usize| -> Vec<String> {
        let items = items.iter().flat_map(|item| item.lines(width, most));
        [title.clone()].into_iter().chain(items).collect()
    };
    let lines = match fill(2) {
        lines if is_one && lines.len() > LINES => fill(1),
        lines => lines,
    };
    lines.join("\n") + "\n"
}

/// Colours verdicts, labels of what is wrong, and lines of contradicting figures, for a terminal that supports colours.
pub fn coloured(report: &str) -> String {
    report.split_inclusive('\n').map(coloured_line).collect()
}

fn coloured_line(line: &str) -> String {
    const RED: &str = "\u{1b}[31m";
    const YELLOW: &str = "\u{1b}[33m";
    const GREEN: &str = "\u{1b}[32m";
    const END: &str = "\u{1b}[0m";
    const WORDS: [(&str, &str); 9] = [
        ("VALID:", GREEN),
        ("SUSPECT:", YELLOW),
        ("INVALID:", RED),
        ("  suspect ", YELLOW),
        ("  invalid ", RED),
        ("  missed ", RED),
        ("  failures ", RED),
        ("  overload ", RED),
        ("  audit ", RED),
    ];
    if let Some(text) = line.strip_suffix('\n').filter(|text| text.contains(FAILS)) {
        return format!("{RED}{text}{END}\n");
    }
    let found = WORDS.iter().find(|(word, _)| line.starts_with(word));
    found.map_or(line.to_owned(), |(word, colour)| {
        format!("{colour}{word}{END}{}", &line[word.len()..])
    })
}

/// Counts the verdicts of several runs.
fn verdicts(suite: &Suite) -> Option<Item> {
    let counts = [Verdict::Valid, Verdict::Suspect, Verdict::Invalid].map(|verdict| {
        let runs = suite.results.iter();
        (verdict, runs.filter(|run| run.verdict == verdict).count())
    });
    let found = counts.iter().filter(|(_, count)| *count > 0);
    let found = found.map(|(verdict, count)| format!("{count} {verdict}"));
    let found: Vec<String> = found.collect();
    (!found.is_empty()).then(|| Item::new("verdicts", found.join(", ")))
}

fn overload(comparison: &Comparison<'_>) -> Option<Item> {
    let mut runs = comparison.suite.results.iter();
    let overload = runs.find_map(|run| run.overload())?;
    Some(Item::new("overload", plain(overload)))
}

/// Returns true for a warning that has an item of its own.
fn is_audit(warning: &Warning) -> bool {
    matches!(warning.kind, Kind::Audit | Kind::CountsDisagree)
}

/// Returns the first warnings above a note, and the number of the others by subject.
fn reasons(comparison: &Comparison<'_>) -> Vec<Item> {
    let mut items = Vec::new();
    for severity in [Severity::Invalid, Severity::Suspect] {
        // What is worse is shown; the rest is counted.
        let most = if items.is_empty() { LISTED } else { 0 };
        let of_severity = warnings(comparison, severity);
        let shown = of_severity.iter().take(most);
        let shown: Vec<Item> = shown
            .map(|warning| {
                let first = warning.message.lines().next().unwrap_or_default();
                Item::new(severity.name(), first.to_owned())
            })
            .collect();
        let rest = grouped(comparison, severity, shown.len());
        items.extend(shown);
        items.extend(rest);
    }
    items
}

fn warnings(comparison: &Comparison<'_>, severity: Severity) -> Vec<Warning> {
    let mut warnings = sections::all_warnings(comparison);
    warnings.retain(|warning| warning.severity == severity && !is_audit(warning));
    crate::warning::sort(&mut warnings);
    warnings
}

/// Counts the warnings of a severity by subject, without the first ones, which are shown: `3: few samples (2), stalls`.
fn grouped(comparison: &Comparison<'_>, severity: Severity, shown: usize) -> Option<Item> {
    let warnings = warnings(comparison, severity);
    let rest = warnings.get(shown..).unwrap_or_default();
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for warning in rest {
        let name = warning.kind.name();
        match kinds.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => kinds.push((name, 1)),
        }
    }
    let named = kinds.iter().map(|(name, count)| match count {
        1 => (*name).to_owned(),
        several => format!("{name} ({several})"),
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let count = rest.len();
    let (label, text) = match (severity, shown) {
        (Severity::Note, _) => ("notes", format!("{count}: {named}")),
        (severity, 0) => (severity.name(), format!("{count}: {named}")),
        _ => ("", format!("and {count} more: {named}")),
    };
    (count > 0).then(|| Item::new(label, text))
}

/// Returns the figures of a run that contradict each other.
fn audit(comparison: &Comparison<'_>) -> Option<Item> {
    let mut wrong = sections::all_warnings(comparison);
    wrong.retain(is_audit);
    let first = wrong.first()?;
    let first_line = first.message.lines().next().unwrap_or_default();
    let more = match wrong.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(Item::new("audit", format!("{first_line}{more}")))
}

/// Returns the missed thresholds; if all were met, their number.
fn missed(comparison: &Comparison<'_>) -> Option<Item> {
    let groups = comparison.all();
    let mut missed = Vec::new();
    for repeated in &groups {
        let name = match groups.len() {
            1 => String::new(),
            _ => format!("{}: ", comparison.group_name(repeated)),
        };
        for (text, thresholds) in repeated.thresholds(|threshold| !threshold.met) {
            let measured = measured_values(&thresholds);
            missed.push(format!("{name}{} ({measured})", plain(text)));
        }
    }
    let all = groups.iter().map(|repeated| repeated.thresholds(|_| true));
    let all: usize = all.map(|thresholds| thresholds.len()).sum();
    match (missed.len(), all) {
        (0, 0) => None,
        (0, 1) => Some(Item::new("met", "the threshold".to_owned())),
        (0, all) => Some(Item::new("met", format!("all {all} thresholds"))),
        (count, _) => {
            let more = count.saturating_sub(LISTED);
            missed.truncate(LISTED);
            let count = match more {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            Some(Item::new("missed", missed.join("; ") + &count))
        }
    }
}

fn unreached(suite: &Suite) -> Vec<Item> {
    let more = suite.unreached.len().saturating_sub(LISTED);
    let items = suite.unreached.iter().take(LISTED).map(|missing| {
        let reason = missing.reason.lines().next().unwrap_or_default();
        let (daemon, level) = (&missing.daemon, level_name(&missing.level));
        Item::new("not run", plain(&format!("{daemon} at {level}: {reason}")))
    });
    let mut items: Vec<Item> = items.collect();
    let more = (more > 0).then(|| {
        let count = units::count(more as u64);
        Item::new("", format!("and {count} more levels"))
    });
    items.extend(more);
    items
}
