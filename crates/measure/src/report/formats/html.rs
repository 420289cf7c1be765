//! The comparison as one HTML page. It works offline, without scripts, in light and dark mode, on narrow and wide
//! screens.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::report::cell::Cell;
use crate::report::comparison::Comparison;
use crate::report::document::{Part, Section};
use crate::report::error::Error;
use crate::report::svg::{self, Chart, Kind};
use crate::report::table::{Row, Table};
use crate::report::text::plain;
use crate::report::{charts, sections};
use crate::suite::Suite;
use crate::warning::{Verdict, Warning};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Facts shown in the page header.
const IN_HEADER: [&str; 2] = ["question", "verdicts"];

/// Maximum number of points per line.
const POINTS: usize = 1_000;
/// Maximum number of points of all lines together, at about five bytes each, so that a page stays below 1 MB.
const BUDGET: usize = 90_000;
/// Minimum number of points per line, however many lines there are.
const FEWEST: usize = 128;

/// Renders a suite as one HTML file with all tables and charts. It loads no other resource, and the tables need no
/// script.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn render(suite: &Suite) -> Result<String, Error> {
    let comparison = &Comparison::new(suite);
    let sections = sections::all(comparison);
    let drawn = sections
        .iter()
        .map(|section| draw_charts(comparison, section));
    let drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    let most = most_points(drawn.iter().flatten().flatten());
    let (verdict, rest) = sections.split_first().expect("every report has a verdict");
    let body = html! {
        (head(comparison, verdict))
        nav aria-label="Sections" {
            @for section in rest { a href=(format!("#{}", section.id)) { (short(&section.title)) } }
        }
        main {
            section id=(verdict.id) { (parts(comparison, verdict, &drawn[0], most)) }
            @for (section, charts) in rest.iter().zip(&drawn[1..]) {
                section id=(section.id) aria-labelledby=(format!("{}-h", section.id)) {
                    h2 id=(format!("{}-h", section.id)) { (section.title) }
                    (parts(comparison, section, charts, most))
                }
            }
        }
    };
    // HTML allows these end tags to be omitted, which saves a tenth of a page of tables.
    let page = document(&verdict.title, &body).into_string();
    Ok(page.replace("</td>", "").replace("</tr>", ""))
}

/// Wraps the body in a self-contained HTML document.
fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Keeps the browser from requesting an icon.
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (svg::shapes())
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

fn head(comparison: &Comparison<'_>, verdict: &Section) -> Markup {
    html! {
        header.top {
            (verdict_counts(comparison))
            h1 { (plain(&comparison.suite.name)) }
            @for question in comparison.suite.question.iter() { p.question { (plain(question)) } }
            p.sum { (verdict.title) }
        }
    }
}

/// Returns a title without its part in brackets.
fn short(title: &str) -> &str {
    title.split(" (").next().unwrap_or(title)
}

fn draw_charts(comparison: &Comparison<'_>, section: &Section) -> Result<Vec<Vec<Chart>>, Error> {
    let drawn = section.parts.iter().map(|part| match part {
        Part::Charts(charts) => charts::draw(comparison, charts),
        _ => Ok(Vec::new()),
    });
    drawn.collect()
}

fn most_points<'a>(charts: impl Iterator<Item = &'a Chart>) -> usize {
    let lines: usize = charts.map(|chart| chart.marks.len()).sum();
    (BUDGET / lines.max(1)).clamp(FEWEST, POINTS)
}

fn verdict_counts(comparison: &Comparison<'_>) -> Markup {
    let results = &comparison.suite.results;
    html! {
        p.verdicts {
            @for verdict in [Verdict::Valid, Verdict::Suspect, Verdict::Invalid] {
                @let count = results.iter().filter(|result| result.verdict == verdict).count();
                @if count > 0 {
                    span class=(format!("verdict {verdict}")) { (count) " " (verdict) }
                }
            }
        }
    }
}

fn parts(
    comparison: &Comparison<'_>,
    section: &Section,
    charts: &[Vec<Chart>],
    most: usize,
) -> Markup {
    html! {
        @for (part, charts) in section.parts.iter().zip(charts) {
            @match part {
                Part::Heading(heading) => h3 { (heading) },
                Part::Note(note) => p.note { (note) },
                Part::Facts(facts) => dl {
                    @for (label, text) in facts.iter().filter(|(label, _)| !IN_HEADER.contains(label)) { div { dt { (label) } dd { (text) } } }
                },
                Part::Table(table) => { (table_of(table)) (each_run(table)) },
                Part::Warnings(warnings) => (list(warnings)),
                Part::Charts(_) => div.charts {
                    @for chart in charts { (figure(comparison, chart, most)) }
                },
            }
        }
    }
}

fn table_of(table: &Table) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.caption) {
            table {
                thead { tr {
                    @for head in &table.head {
                        @if head.left_aligned { th.w scope="col" { (head.text) } } @else { th scope="col" { (head.text) } }
                    }
                } }
                tbody { @for row in &table.rows { (line(table, row)) } }
            }
        }
    }
}

fn line(table: &Table, row: &Row) -> Markup {
    let first = |text: &Cell| {
        html! {
            th.w scope="row" {
                (text.median)
                @if let Some(verdict) = text.verdict { span class=(format!("doubt {verdict}")) { (verdict) } }
            }
        }
    };
    let mut classes: Vec<String> = row.daemon.map(svg::swatch).into_iter().collect();
    classes.extend(row.starts_group.then(|| "o".to_owned()));
    classes.extend(row.fails().then(|| "fails".to_owned()));
    html! {
        tr class=[(!classes.is_empty()).then(|| classes.join(" "))] {
            @for (index, text) in row.cells.iter().enumerate() {
                @if index == 0 { (first(text)) }
                @else if table.head[index].left_aligned { td class=(text_classes(&text.median)) { (text.median) } }
                @else if text.best { td.best { (figures(text)) } }
                @else { td { (figures(text)) } }
            }
        }
    }
}

/// Returns the CSS classes of a text cell; long text is wrapped.
fn text_classes(text: &str) -> &'static str {
    match text.chars().count() {
        0..=32 => "w",
        _ => "w long",
    }
}

fn figures(text: &Cell) -> Markup {
    html! {
        (text.median)
        @if text.best { span.mark { "best" } }
        @if !text.range.is_empty() { small { (text.range) } }
        @if !text.interval.is_empty() { small { (text.interval) } }
    }
}

fn each_run(table: &Table) -> Markup {
    html! {
        @if let Some(runs) = &table.runs {
            details { summary { "Every run" } (table_of(runs)) }
        }
    }
}

fn list(warnings: &[Warning]) -> Markup {
    html! {
        ul.warnings {
            @for warning in warnings {
                li {
                    span class=(format!("severity {}", warning.severity.name())) {
                        (warning.severity.name())
                    }
                    " " span.log { (warning.message) } " " span.hint { "→ " (warning.hint) }
                }
            }
        }
    }
}

fn figure(comparison: &Comparison<'_>, chart: &Chart, most: usize) -> Markup {
    let mut daemons: Vec<usize> = chart.marks.iter().map(|mark| mark.daemon).collect();
    daemons.sort_unstable();
    daemons.dedup();
    let dashed = chart.marks.iter().any(|mark| mark.kind == Kind::Dashed);
    html! {
        figure id=(chart.id) {
            figcaption {
                strong { (chart.title) }
                ul.legend {
                    @for daemon in daemons {
                        li class=(svg::swatch(daemon)) data-d=(daemon) { (plain(comparison.daemons[daemon])) }
                    }
                }
                @if !chart.reading.is_empty() { p class=[dashed.then_some("dashes")] { (chart.reading) } }
            }
            (chart.draw(most))
        }
    }
}
