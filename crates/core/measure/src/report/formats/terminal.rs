//! One screen of a terminal: the verdict and its reasons, the main figures or the answer, and what is wrong.

use super::Options;
use crate::report::comparison::{Comparison, level_name, measured_values};
use crate::report::plain;
use crate::report::sections;
use crate::suite::Suite;
use crate::units;
use crate::warning::{Kind, Severity, Verdict, Warning};

mod figures;

/// Fewest columns that text is wrapped into.
const NARROWEST: usize = 40;
/// Maximum number of lines of the screen of a run.
const LINES: usize = 15;
/// Maximum number of lines of a sentence of the answer.
const SENTENCE: usize = 4;
/// Maximum number of items of each list of a single daemon at one level.
const LISTED: usize = 2;
/// Labels of items that the screen of a run leaves out if it is too long, the least important first.
const SPARE: [&str; 5] = ["met", "notes", "not run", "shards", ""];
/// The same, if figures that are cut to one line do not suffice.
const LAST: [&str; 2] = ["fault", "suspect"];
/// Label of the title, which is not shown.
const TITLE: &str = "title";
/// Labels of figures.
const FIGURES: [&str; 8] = [
    "failures", "outcome", "rate", "goodput", "latency", "knee", "memory", "CPU",
];
/// Columns before the text of an item.
const INDENT: &str = "            ";

/// Tells which items are cut to one line, so that the screen is not too long.
#[derive(Debug, Clone, Copy, Default)]
struct Cut {
    /// Items other than figures.
    others: bool,
    figures: bool,
}

/// An item of the screen: its label and its text.
pub(super) struct Item {
    label: &'static str,
    text: String,
    /// Maximum number of lines, if there is one.
    most: Option<usize>,
    /// A path at the end of the text. It is neither cut nor broken.
    path: Option<String>,
}

impl Item {
    pub(super) fn new(label: &'static str, text: String) -> Self {
        Self {
            label,
            text,
            most: Some(2),
            path: None,
        }
    }

    /// Creates an item of the answer. A command is never cut.
    fn sentence(label: &'static str, text: &str) -> Self {
        let most = (label != sections::COMMAND).then_some(SENTENCE);
        Self {
            most,
            ..Self::new(label, plain(text))
        }
    }

    fn lines(&self, width: usize, cut: Cut) -> Vec<String> {
        let text = match self.label {
            TITLE => wrapped(&self.text, width).join("\n"),
            label => labelled(label, &self.text, width),
        };
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some(own) = self.most.filter(|_| width < usize::MAX) {
            let is_cut = if FIGURES.contains(&self.label) {
                cut.figures
            } else {
                cut.others
            };
            let most = if is_cut { 1 } else { own };
            let is_cut = lines.len() > most;
            lines.truncate(most);
            let last = lines.len().saturating_sub(1);
            for (index, line) in lines.iter_mut().enumerate() {
                if length(line) > width || is_cut && index == last {
                    let kept: String = line.chars().take(width.saturating_sub(2)).collect();
                    *line = format!("{} …", kept.trim_end());
                }
            }
        }
        if let Some(path) = &self.path {
            match lines.last_mut() {
                Some(last) if length(last) + 1 + length(path) <= width => {
                    last.push_str(&format!(" {path}"));
                }
                _ => lines.push(format!("{INDENT}{path}")),
            }
        }
        lines
    }
}

/// Formats a label and its text, wrapped into aligned lines.
fn labelled(label: &str, text: &str, width: usize) -> String {
    let mut written = String::new();
    let lines = text
        .lines()
        .flat_map(|line| wrapped(line, width.saturating_sub(INDENT.len())));
    for (index, line) in lines.enumerate() {
        let label = if index == 0 { label } else { "" };
        written.push_str(format!("  {label:<10}{line}").trim_end());
        written.push('\n');
    }
    written
}

/// Wraps a line at spaces; a word that is too long keeps its own line.
fn wrapped(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split_whitespace() {
        let open = lines.last_mut().expect("there is always a line");
        let length = open.chars().count();
        if length > 0 && length + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if length > 0 {
                open.push(' ');
            }
            open.push_str(word);
        }
    }
    lines
}

/// Counts the columns of a text.
fn length(text: &str) -> usize {
    text.chars().count()
}

/// Renders the screen. The screen of a single daemon at one level has at most 15 lines of 80 columns. If the number of
/// columns is not known, because a file or a pipe has none, nothing is wrapped or left out.
pub fn render(suite: &Suite, options: &Options<'_>) -> String {
    let comparison = Comparison::new(suite);
    let width = options
        .width
        .map_or(usize::MAX, |width| width.max(NARROWEST));
    let is_one = comparison.all().len() == 1;
    let listed = if is_one { LISTED } else { 1 };
    let mut items = vec![title(&comparison)];
    if is_one {
        let capacities = suite.capacities.iter();
        items.extend(capacities.map(|sentence| Item::sentence("capacity", sentence)));
        items.extend(overload(&comparison));
        items.extend(reasons(&comparison, listed));
        items.extend(figures::items(&comparison));
    } else {
        items.extend(verdicts(suite));
        let answer = sections::answer(&comparison).into_iter();
        items.extend(answer.map(|(label, sentence)| Item::sentence(label, &sentence)));
        items.extend(reasons(&comparison, listed));
    }
    items.extend(audit(&comparison));
    items.extend(missed(&comparison));
    items.extend(unreached(suite, listed));
    items.extend(grouped(&comparison, Severity::Note, 0));
    items.push(more(options));
    let mut cut = Cut::default();
    loop {
        let lines: Vec<String> = items
            .iter()
            .flat_map(|item| item.lines(width, cut))
            .collect();
        let rows = lines.iter().map(|line| length(line).div_ceil(width));
        if !is_one || width == usize::MAX || rows.sum::<usize>() <= LINES {
            return lines.join("\n") + "\n";
        }
        let find = |labels: &[&str]| {
            let mut labels = labels.iter();
            labels.find_map(|label| items.iter().rposition(|item| item.label == *label))
        };
        match (find(&SPARE), find(&LAST)) {
            _ if !cut.others => cut.others = true,
            (Some(spare), _) => drop(items.remove(spare)),
            _ if !cut.figures => cut.figures = true,
            (_, Some(last)) => drop(items.remove(last)),
            _ => return lines.join("\n") + "\n",
        }
    }
}

/// Returns the main figures of the runs of one daemon at one level, each with its label.
pub(super) fn main_figures(
    comparison: &Comparison<'_>,
) -> impl Iterator<Item = (&'static str, String)> {
    let figures = figures::items(comparison).into_iter();
    figures.map(|item| (item.label, item.text))
}

fn title(comparison: &Comparison<'_>) -> Item {
    Item::new(TITLE, sections::title(comparison))
}

/// Says where the rest is.
fn more(options: &Options<'_>) -> Item {
    let alone = options.page.map_or("--full", |_| "--full,");
    let text = options.more.unwrap_or(alone).to_owned();
    Item {
        most: None,
        path: options.page.map(str::to_owned),
        ..Item::new("more", text)
    }
}

/// Colours verdicts and labels of what is wrong, for a terminal that supports colours.
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
fn reasons(comparison: &Comparison<'_>, listed: usize) -> Vec<Item> {
    let mut items = Vec::new();
    for severity in [Severity::Invalid, Severity::Suspect] {
        // What is worse is shown; the rest is counted.
        let most = if items.is_empty() { listed } else { 0 };
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

fn unreached(suite: &Suite, listed: usize) -> Vec<Item> {
    let more = suite.unreached.len().saturating_sub(listed);
    let items = suite.unreached.iter().take(listed).map(|missing| {
        let reason = missing.reason.lines().next().unwrap_or_default();
        let (daemon, level) = (&missing.daemon, level_name(&missing.level));
        Item::new("not run", plain(&format!("{daemon} at {level}: {reason}")))
    });
    let mut items: Vec<Item> = items.collect();
    let more = (more > 0).then(|| {
        let noun = if more == 1 { "level" } else { "levels" };
        let count = units::count(more as u64);
        Item::new("", format!("and {count} more {noun}"))
    });
    items.extend(more);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_sentence_is_broken_at_blanks_and_a_long_word_is_kept() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrapped("at /a/very/long/path now", 6),
            ["at", "/a/very/long/path", "now"]
        );
    }
}
