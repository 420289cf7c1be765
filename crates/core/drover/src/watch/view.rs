//! Draws what is watched: the run in progress, its rate and response times, its resources, and the verdicts so far.

use std::time::{Duration, SystemTime};

use harness::live::LiveSecond;
use harness::progress::{compact, render_line};
use measure::units;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::watched::Watched;
use crate::estimate;
use crate::live_run::{LiveRun, Use};
use crate::progress::{describe_level, describe_run};
use crate::record::{Record, Running};

mod shards;
mod table;

/// Rows of a chart with its heading.
const CHART: u16 = 5;

/// The part of the table that is shown, counted from its first row and column.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scroll {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Draws one frame. Limits the scroll to what there is.
pub(super) fn draw(frame: &mut Frame<'_>, watched: &Watched, scroll: &mut Scroll) {
    let run = watched.run.as_ref().filter(|_| watched.is_running());
    let chart = if run.is_some() { CHART } else { 0 };
    let [title, now, _, charts, resources, _, table, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(chart),
        Constraint::Length(u16::from(run.is_some())),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(headline(watched)).bold(), title);
    frame.render_widget(Line::from(progress(watched, run, now.width)), now);
    if let Some(run) = run {
        // Percentiles cannot be added.
        let whose = watched.divided.as_ref().map_or("", |_| "slowest shard: ");
        draw_charts(frame, charts, run, whose);
        frame.render_widget(resources_of(run), resources);
    }
    if let Some(divided) = &watched.divided {
        shards::draw(frame, table, divided, scroll);
    } else if let Some(record) = &watched.record {
        table::draw(frame, table, record, watched.running(), scroll);
    }
    frame.render_widget(Line::from(ending(watched)).dim(), footer);
}

/// Names the suite and its run, or the folder of a single run.
fn headline(watched: &Watched) -> String {
    if let Some(divided) = &watched.divided {
        return divided.describe();
    }
    let Some(record) = &watched.record else {
        return format!("run in {}", watched.folder.display());
    };
    let (suite, total) = (&record.suite, record.suite.total());
    match watched.running() {
        Some(running) => format!(
            "{} · {}",
            suite.name,
            describe_run(running, total, suite.repeat)
        ),
        None => {
            let of = total.map_or(String::new(), |total| format!(" of {total}"));
            format!(
                "{} · {}{of} runs have results",
                suite.name,
                record.runs.len()
            )
        }
    }
}

/// Describes how far the run is, or why there is none.
fn progress(watched: &Watched, run: Option<&LiveRun>, width: u16) -> String {
    if let Some(second) = run.and_then(|run| run.seconds.back()) {
        return render_line(second, usize::from(width));
    }
    match watched.running() {
        Some(running) => format!(
            "before the load: the daemon is built, launched and checked · {}",
            estimate::format_time(elapsed(running))
        ),
        None => format!("in {}", watched.folder.display()),
    }
}

fn elapsed(running: &Running) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let began = Duration::from_secs(running.began_unix_s);
    now.unwrap_or_default().saturating_sub(began)
}

/// Draws the rate and the 99th percentile of the last seconds side by side; `whose` says whose percentile.
fn draw_charts(frame: &mut Frame<'_>, area: Rect, run: &LiveRun, whose: &str) {
    let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2);
    let [left, right] = halves.areas(area);
    let last = run.seconds.back();
    let time = |ns: Option<u64>| ns.map_or_else(|| units::NONE.to_owned(), units::duration);
    let rate = last.map_or(0, |second| second.rate);
    let [p50, p99] = [
        time(last.and_then(|second| second.p50_ns)),
        time(last.and_then(|second| second.p99_ns)),
    ];
    draw_chart(
        frame,
        left,
        run,
        format!("starts {}/s", compact(rate)),
        |second| second.rate,
    );
    draw_chart(
        frame,
        right,
        run,
        format!("{whose}p99 {p99} · p50 {p50}"),
        |second| second.p99_ns.unwrap_or_default(),
    );
}

fn draw_chart(
    frame: &mut Frame<'_>,
    area: Rect,
    run: &LiveRun,
    heading: String,
    value: impl Fn(&LiveSecond) -> u64,
) {
    let [title, chart] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let shown = run.seconds.len().min(usize::from(chart.width));
    let seconds = run.seconds.iter().skip(run.seconds.len() - shown);
    let values: Vec<u64> = seconds.map(value).collect();
    frame.render_widget(Line::from(heading), title);
    frame.render_widget(Sparkline::default().data(&values).fg(Color::Cyan), chart);
}

/// Describes the resources and the errors of the run in a line.
fn resources_of(run: &LiveRun) -> Paragraph<'static> {
    let resources = run.resources.clone().unwrap_or_default();
    let shown = |of: &Use| {
        let rss = of
            .rss_kb
            .map_or_else(|| units::NONE.to_owned(), |kb| units::bytes(kb * 1024));
        let cpu = of
            .cpu_pct
            .map_or_else(|| units::NONE.to_owned(), |pct| format!("{pct:.0} %"));
        format!("{rss:>8}  CPU {cpu:>5}")
    };
    let failed = run.seconds.back().map_or(0, |second| second.failed);
    let failures = match failed {
        0 => Span::raw("no failures"),
        failed => Span::styled(
            format!("{} failed", compact(failed)),
            Style::new().fg(Color::Red),
        ),
    };
    Paragraph::new(Line::from(vec![
        Span::raw(format!("daemon {}   ", shown(&resources.daemon))),
        Span::raw(format!("driver {}   ", shown(&resources.driver))),
        failures,
    ]))
}

/// Says how long the suite takes, or how it has ended, and which keys there are.
fn ending(watched: &Watched) -> String {
    let keys = "q quits, arrows scroll";
    let state = match (&watched.record, watched.running()) {
        (_, Some(running)) => left(running),
        (Some(record), None) => ended(record),
        (None, None) if watched.is_running() => String::new(),
        (None, None) if watched.has_lost_shards() => "no shard is active any more".to_owned(),
        (None, None) => "the run has ended".to_owned(),
    };
    match state.as_str() {
        "" => keys.to_owned(),
        state => format!("{state} · {keys}"),
    }
}

fn left(running: &Running) -> String {
    let about = Duration::from_secs(running.about_s).saturating_sub(elapsed(running));
    match running.after_s.map(Duration::from_secs) {
        Some(after) => format!("about {} left", estimate::format_time(after + about)),
        None => format!("about {} left of this run", estimate::format_time(about)),
    }
}

fn ended(record: &Record) -> String {
    if record.ended_at.is_some() {
        return "finished".to_owned();
    }
    match record.unreached.first() {
        Some(missed) => format!(
            "not finished: {} at {} was not measured",
            missed.daemon,
            describe_level(&missed.level)
        ),
        None => "not finished, and no program runs it: repeat drover run".to_owned(),
    }
}
