//! The table of the verdicts so far: daemons × levels.

use measure::warning::Verdict;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::Scroll;
use crate::progress::describe_level;
use crate::record::{Record, RunId, Running};

/// Repetitions that are shown by a letter each; more are counted.
const MOST_LETTERS: u32 = 12;
/// Rows besides the daemons': the levels, and the key.
const HEAD: usize = 1;

/// The state of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Ended(Verdict),
    /// A run with a result whose verdict is not in the record of an earlier version.
    Measured,
    NotMeasured,
    Running,
    Open,
}

impl State {
    /// Returns its word, its letter, and its colour.
    fn shown(self) -> (&'static str, char, Color) {
        match self {
            Self::Ended(Verdict::Valid) => ("VALID", 'V', Color::Green),
            Self::Ended(Verdict::Suspect) => ("SUSPECT", 'S', Color::Yellow),
            Self::Ended(Verdict::Invalid) => ("INVALID", 'I', Color::Red),
            Self::Measured => ("measured", 'm', Color::Reset),
            Self::NotMeasured => ("missing", '!', Color::Magenta),
            Self::Running => ("running", '>', Color::Cyan),
            Self::Open => ("·", '·', Color::DarkGray),
        }
    }
}

/// Draws the rows that fit, from the scrolled one on.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    record: &Record,
    running: Option<&Running>,
    scroll: &mut Scroll,
) {
    let daemons = &record.suite.daemons;
    let levels = levels(record, running);
    let height = usize::from(area.height).saturating_sub(HEAD + 1).max(1);
    scroll.rows = scroll.rows.min(daemons.len().saturating_sub(height));
    scroll.columns = scroll.columns.min(levels.len().saturating_sub(1));
    let first = daemons
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        + 2;
    let repeat = record.suite.repeat;
    let least = if repeat > MOST_LETTERS {
        15
    } else {
        7.max(repeat as usize)
    };
    let width = |level: &String| describe_level(level).chars().count().max(least) + 2;
    let shown = &levels[scroll.columns..];
    let head = shown
        .iter()
        .map(|level| format!("{:width$}", describe_level(level), width = width(level)));
    let mut lines = vec![Line::from(format!("{:first$}{}", "", head.collect::<String>())).bold()];
    for daemon in daemons.iter().skip(scroll.rows).take(height) {
        let mut spans = vec![Span::raw(format!("{daemon:first$}"))];
        for level in shown {
            let states = states(record, running, daemon, level);
            spans.extend(cell(&states, width(level)));
        }
        lines.push(Line::from(spans));
    }
    let hidden = daemons.len().saturating_sub(scroll.rows + height);
    let mut key = Vec::new();
    if repeat > 1 {
        key.push("V valid  S suspect  I invalid  ! missing  > running".to_owned());
    }
    if !record.set_aside.is_empty() {
        key.push(format!("{} INVALID made again", record.set_aside.len()));
    }
    if hidden > 0 {
        key.push(format!("{hidden} more below"));
    }
    lines.push(Line::from(key.join(" · ")).dim());
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the levels of the suite, or those that a search has tried.
fn levels(record: &Record, running: Option<&Running>) -> Vec<String> {
    if record.suite.capacity.is_none() {
        return record
            .suite
            .levels
            .iter()
            .map(|level| level.name.clone())
            .collect();
    }
    let tried = record.runs.iter().map(|run| &run.id);
    let tried = tried.chain(running.map(|running| &running.id));
    let mut levels: Vec<String> = tried.map(|id| id.level.clone()).collect();
    levels.sort_by_key(|level| level.parse::<u64>().unwrap_or_default());
    levels.dedup();
    levels
}

/// Returns the states of the repetitions, in their order.
fn states(record: &Record, running: Option<&Running>, daemon: &str, level: &str) -> Vec<State> {
    let at_level = record
        .runs
        .iter()
        .filter(|run| run.id.level == level && run.id.daemon == daemon);
    let ended = at_level.map(|run| run.id.run);
    let repeat = match record.suite.capacity {
        Some(_) => ended.max().unwrap_or(1),
        None => record.suite.repeat,
    };
    let state = |number: u32| {
        let id = RunId {
            daemon: daemon.to_owned(),
            level: level.to_owned(),
            run: number,
        };
        if running.is_some_and(|running| running.id == id) {
            return State::Running;
        }
        let ended = record.runs.iter().find(|run| run.id == id);
        match ended {
            Some(run) => run.verdict.map_or(State::Measured, State::Ended),
            None if record.stopped(&id).is_some() => State::NotMeasured,
            None => State::Open,
        }
    };
    (1..=repeat).map(state).collect()
}

/// Returns the text of a cell: a word for one run, a letter for each of several, and counts for many.
fn cell(states: &[State], width: usize) -> Vec<Span<'static>> {
    let span = |text: String, state: State| Span::styled(text, Style::new().fg(state.shown().2));
    let (spans, used) = match states {
        [only] => {
            let word = only.shown().0;
            (vec![span(word.to_owned(), *only)], word.chars().count())
        }
        several if several.len() <= MOST_LETTERS as usize => {
            let letter = |state: &State| span(state.shown().1.to_string(), *state);
            (several.iter().map(letter).collect(), several.len())
        }
        many => {
            let mut sorted = many.to_vec();
            sorted.sort_unstable();
            let counts: Vec<(State, String)> = sorted
                .chunk_by(|one, other| one == other)
                .map(|alike| (alike[0], format!("{}{} ", alike.len(), alike[0].shown().1)))
                .collect();
            let used = counts.iter().map(|(_, text)| text.chars().count()).sum();
            let spans = counts.into_iter().map(|(state, text)| span(text, state));
            (spans.collect(), used)
        }
    };
    let padding = " ".repeat(width.saturating_sub(used));
    spans.into_iter().chain([Span::raw(padding)]).collect()
}
