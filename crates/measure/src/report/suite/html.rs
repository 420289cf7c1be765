//! The comparison as one page of HTML: no network, no script needed, light and dark, narrow and wide.

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

/// Facts that the head of the page shows.
const IN_HEADER: [&str; 2] = ["question", "verdicts"];

/// Most points of one line.
const POINTS: usize = 1_000;
/// Points of all lines together, at about five bytes each: what keeps a page below 1 MB.
const BUDGET: usize = 90_000;
/// Fewest points of one line, however many lines there are.
const FEWEST: usize = 128;

/// The page.
///
/// # Errors
/// A stored histogram that can't be decoded.
pub(super) fn render(cells: &Cells<'_>) -> Result<String, Error> {
    let sections = document::of(cells);
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
    // HTML lets cells and rows end where the next begins: a tenth of a page of tables.
    let page = document(&opening.title, &body).into_string();
    Ok(page.replace("</td>", "").replace("</tr>", ""))
}

/// A page that needs nothing but itself.
fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                // A browser need not even ask for an icon.
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

/// A title without what stands in brackets.
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
                        @if head.words { th.w scope="col" { (head.text) } } @else { th scope="col" { (head.text) } }
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
                (text.middle)
                @if let Some(verdict) = text.doubt { span class=(format!("doubt {verdict}")) { (verdict) } }
            }
        }
    };
    let swatch = row.daemon.map(svg::swatch);
    let fails = row
        .texts
        .last()
        .is_some_and(|text| text.middle.starts_with(FAILS));
    let own = [(row.opens, "o"), (fails, "fails")];
    let own = own.map(|(holds, class)| holds.then(|| class.to_owned()));
    let classes = [swatch].into_iter().chain(own);
    let classes: Vec<String> = classes.flatten().collect();
    html! {
        tr class=[(!classes.is_empty()).then(|| classes.join(" "))] {
            @for (place, text) in row.texts.iter().enumerate() {
                @if place == 0 { (first(text)) }
                @else if grid.head[place].words { td class=(words(&text.middle)) { (text.middle) } }
                @else if text.best { td.best { (figures(text)) } }
                @else { td { (figures(text)) } }
            }
        }
    }
}

/// Longer text is broken into lines.
fn words(text: &str) -> &'static str {
    if text.chars().count() > 32 {
        "w long"
    } else {
        "w"
    }
}

fn figures(text: &Text) -> Markup {
    html! {
        (text.middle)
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
