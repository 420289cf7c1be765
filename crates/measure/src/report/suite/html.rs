//! The comparison as one HTML page. It works offline, without scripts, in light and dark mode, on narrow and wide
//! screens.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::cells::Cells;
use super::charts;
use super::document::{self, Part, Section};
use super::grid::{Grid, Row};
use super::show::Text;
use crate::report::audit::FAILS;
use crate::report::svg::{self, Chart, Kind};
use crate::report::{Error, page};
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

/// Renders the page.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub(super) fn render(cells: &Cells<'_>) -> Result<String, Error> {
    let sections = document::sections(cells);
    let mut drawn = Vec::new();
    for section in &sections {
        drawn.push(charts_of(cells, section)?);
    }
    let most = most_points(drawn.iter().flatten());
    let (opening, rest) = sections.split_first().expect("there is an opening");
    let body = html! {
        (head(cells, opening))
        nav aria-label="Sections" {
            @for section in rest { a href=(format!("#{}", section.id)) { (short(&section.title)) } }
        }
        main {
            section id=(opening.id) { (parts(cells, &opening.parts, &[], most)) }
            @for (section, charts) in rest.iter().zip(&drawn[1..]) {
                section id=(section.id) aria-labelledby=(format!("{}-h", section.id)) {
                    h2 id=(format!("{}-h", section.id)) { (section.title) }
                    (parts(cells, &section.parts, charts, most))
                }
            }
        }
    };
    // HTML allows these end tags to be omitted, which saves a tenth of a page of tables.
    let page = document(&opening.title, &body).into_string();
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

fn head(cells: &Cells<'_>, opening: &Section) -> Markup {
    html! {
        header.top {
            (verdict(cells))
            h1 { (page::plain(&cells.suite.name)) }
            @for question in cells.suite.question.iter() { p.question { (page::plain(question)) } }
            p.sum { (opening.title) }
        }
    }
}

/// Returns a title without its part in brackets.
fn short(title: &str) -> &str {
    title.split(" (").next().unwrap_or(title)
}

fn charts_of(cells: &Cells<'_>, section: &Section) -> Result<Vec<Chart>, Error> {
    let mut charts = Vec::new();
    for part in &section.parts {
        if let Part::Pictures(place) = part {
            charts.extend(charts::at(cells, place)?);
        }
    }
    Ok(charts)
}

fn most_points<'a>(charts: impl Iterator<Item = &'a Chart>) -> usize {
    let lines: usize = charts.map(|chart| chart.marks.len()).sum();
    (BUDGET / lines.max(1)).clamp(FEWEST, POINTS)
}

fn verdict(cells: &Cells<'_>) -> Markup {
    let results = &cells.suite.results;
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

fn parts(cells: &Cells<'_>, parts: &[Part], charts: &[Chart], most: usize) -> Markup {
    html! {
        @for part in parts {
            @match part {
                Part::Heading(heading) => h3 { (heading) },
                Part::Note(note) => p.note { (note) },
                Part::Facts(facts) => dl {
                    @for (label, text) in facts.iter().filter(|(label, _)| !IN_HEADER.contains(label)) { div { dt { (label) } dd { (text) } } }
                },
                Part::Grid(grid) => { (table(grid)) (each_run(grid)) },
                Part::Warnings(warnings) => (list(warnings)),
                Part::Pictures(_) => div.charts {
                    @for chart in charts { (figure(cells, chart, most)) }
                },
            }
        }
    }
}

fn table(grid: &Grid) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(grid.caption) {
            table {
                thead { tr {
                    @for head in &grid.head {
                        @if head.left_aligned { th.w scope="col" { (head.text) } } @else { th scope="col" { (head.text) } }
                    }
                } }
                tbody { @for row in &grid.rows { (line(grid, row)) } }
            }
        }
    }
}

fn line(grid: &Grid, row: &Row) -> Markup {
    let first = |text: &Text| {
        html! {
            th.w scope="row" {
                (text.median)
                @if let Some(verdict) = text.verdict { span class=(format!("doubt {verdict}")) { (verdict) } }
            }
        }
    };
    let swatch = row.daemon.map(svg::swatch);
    let fails = row
        .texts
        .last()
        .is_some_and(|text| text.median.starts_with(FAILS));
    let own = [(row.starts_group, "o"), (fails, "fails")];
    let own = own.map(|(holds, class)| holds.then(|| class.to_owned()));
    let classes = [swatch].into_iter().chain(own);
    let classes: Vec<String> = classes.flatten().collect();
    html! {
        tr class=[(!classes.is_empty()).then(|| classes.join(" "))] {
            @for (place, text) in row.texts.iter().enumerate() {
                @if place == 0 { (first(text)) }
                @else if grid.head[place].left_aligned { td class=(words(&text.median)) { (text.median) } }
                @else if text.best { td.best { (figures(text)) } }
                @else { td { (figures(text)) } }
            }
        }
    }
}

/// Returns the CSS classes of a text cell; long text is wrapped.
fn words(text: &str) -> &'static str {
    if text.chars().count() > 32 {
        "w long"
    } else {
        "w"
    }
}

fn figures(text: &Text) -> Markup {
    html! {
        (text.median)
        @if text.best { span.mark { "best" } }
        @if !text.range.is_empty() { small { (text.range) } }
        @if !text.interval.is_empty() { small { (text.interval) } }
    }
}

fn each_run(grid: &Grid) -> Markup {
    html! {
        @if let Some(runs) = &grid.runs {
            details { summary { "Every run" } (table(runs)) }
        }
    }
}

fn list(warnings: &[Warning]) -> Markup {
    html! {
        ul.warnings {
            @for warning in warnings {
                li {
                    span class=(format!("severity {}", page::severity(warning.severity))) {
                        (page::severity(warning.severity))
                    }
                    " " span.log { (warning.message) } " " span.hint { "→ " (warning.hint) }
                }
            }
        }
    }
}

fn figure(cells: &Cells<'_>, chart: &Chart, most: usize) -> Markup {
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
                        li class=(svg::swatch(daemon)) data-d=(daemon) { (page::plain(cells.daemons[daemon])) }
                    }
                }
                @if !chart.reading.is_empty() { p class=[dashed.then_some("dashes")] { (chart.reading) } }
            }
            (chart.draw(most))
        }
    }
}
