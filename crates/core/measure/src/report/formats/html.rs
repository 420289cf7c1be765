//! The page of a suite or of a single run. It works offline, without scripts, in light and dark mode, on narrow and wide
//! screens.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::terminal;
use crate::report::charts::{self, Group};
use crate::report::comparison::Comparison;
use crate::report::document::{Part, Section};
use crate::report::error::Error;
use crate::report::plain;
use crate::report::sections;
use crate::report::svg;
use crate::suite::Suite;
use crate::warning::Verdict;

mod figures;
mod files;
mod notes;
mod tables;

pub use files::{File, Files};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Title of the section with the verdict, whose own title is in the header.
const VERDICT: &str = "Verdict";
/// Facts shown in the page header.
const IN_HEADER: [&str; 2] = ["question", "verdicts"];
/// Sections that come first, in this order; the levels follow, then all others.
const FIRST: [&str; 3] = ["answer", "glance", "verdict"];
/// Sections of a comparison that are folded: their main figures stand in charts and in the overview.
const FOLDED: [&str; 7] = [
    "throughput",
    "connections",
    "latency",
    "memory",
    "cpu",
    "resources",
    "audit",
];

/// Renders a suite as one HTML file with all tables and charts. It loads no other resource, and the tables and charts
/// need no script.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn render(suite: &Suite) -> Result<String, Error> {
    page(suite, &Files::default())
}

/// Renders a suite with links to the files beside the page.
///
/// # Errors
/// A stored histogram cannot be decoded.
pub fn page(suite: &Suite, files: &Files) -> Result<String, Error> {
    let comparison = &Comparison::new(suite);
    let mut sections = sections::all(comparison);
    let title = sections
        .first()
        .map_or_else(String::new, |section| section.title.clone());
    sections.sort_by_key(|section| rank(&section.id));
    let drawn = sections
        .iter()
        .map(|section| draw_charts(comparison, section));
    let drawn = drawn.collect::<Result<Vec<_>, _>>()?;
    let most = figures::most_points(drawn.iter().flatten().flatten());
    let is_single = comparison.only_run().is_some();
    let shown: Vec<(&Section, Markup)> = sections
        .iter()
        .zip(&drawn)
        .map(|(section, groups)| (section, parts(section, groups, most, is_single)))
        .filter(|(_, content)| !content.0.is_empty())
        .collect();
    let body = html! {
        (head(comparison, files))
        div.bar {
            nav aria-label="Sections" {
                @for (section, _) in shown.iter().filter(|(section, _)| !section.title.is_empty()) {
                    a href=(format!("#{}", section.id)) { (nav_text(section)) }
                }
            }
            @if comparison.daemons.len() > 1 { (figures::legend(comparison)) }
        }
        main {
            @for (section, content) in shown {
                (section_of(section, &content, !is_single && FOLDED.contains(&section.id.as_str())))
            }
            (files.section(comparison))
        }
    };
    // HTML allows these end tags to be omitted, which saves a tenth of a page of tables.
    let page = document(
        &title,
        &body,
        comparison.daemons.len() == 1,
        &files.page_path,
    )
    .into_string();
    Ok(["</td>", "</th>", "</tr>"]
        .into_iter()
        .fold(page, |page, tag| page.replace(tag, "")))
}

/// Returns the position of a section in the page.
fn rank(id: &str) -> usize {
    let first = FIRST.iter().position(|first| *first == id);
    first.unwrap_or(FIRST.len() + usize::from(!id.starts_with("level-")))
}

/// Wraps the body in a self-contained HTML document.
fn document(title: &str, body: &Markup, has_one_daemon: bool, page_path: &str) -> Markup {
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
            body class=[has_one_daemon.then_some("one")] data-place=(page_path) {
                (svg::shapes())
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// Renders the head: what was measured, its verdicts, and links to the files. The verdict is said once.
fn head(comparison: &Comparison<'_>, files: &Files) -> Markup {
    let name = plain(&comparison.suite.name);
    let measured = sections::measured(comparison);
    let (heading, below) = match comparison.only_run() {
        None => (name, measured),
        Some(_) if name.is_empty() => (measured, String::new()),
        Some(_) => (measured, format!("plan {name}")),
    };
    html! {
        header.top {
            div.name {
                h1 { (heading) }
                (verdict_counts(comparison))
            }
            @for question in comparison.suite.question.iter() { p.question { (notes::with_code(&plain(question))) } }
            p.sum { span { (below) } (files.links()) }
            @if comparison.only_run().is_some() { (tiles(comparison)) }
        }
    }
}

/// Renders the main figures of a run, as the screen has them.
fn tiles(comparison: &Comparison<'_>) -> Markup {
    html! {
        dl.tiles {
            @for (label, text) in terminal::main_figures(comparison) {
                div { dt { (label) } dd { (text) } }
            }
        }
    }
}

/// Returns the text of a link to a section: its title without the part in brackets.
fn nav_text(section: &Section) -> &str {
    match section.id.as_str() {
        "verdict" => VERDICT,
        _ => section.title.split(" (").next().unwrap_or(&section.title),
    }
}

fn draw_charts(comparison: &Comparison<'_>, section: &Section) -> Result<Vec<Vec<Group>>, Error> {
    let drawn = section.parts.iter().map(|part| match part {
        Part::Charts(charts) => charts::draw(comparison, charts),
        _ => Ok(Vec::new()),
    });
    drawn.collect()
}

fn verdict_counts(comparison: &Comparison<'_>) -> Markup {
    let results = &comparison.suite.results;
    html! {
        p.verdicts {
            @for verdict in [Verdict::Valid, Verdict::Suspect, Verdict::Invalid] {
                @let count = results.iter().filter(|result| result.verdict == verdict).count();
                @if count > 0 {
                    span class=(format!("verdict {verdict}")) { @if results.len() > 1 { (count) " " } (verdict) }
                }
            }
        }
    }
}

/// Renders a section below its title, folded if asked, unless a row contradicts another figure.
fn section_of(section: &Section, content: &Markup, is_folded: bool) -> Markup {
    let heading = format!("{}-h", section.id);
    let title = match section.id.as_str() {
        "verdict" => VERDICT,
        _ => section.title.as_str(),
    };
    html! {
        section id=(section.id) aria-labelledby=(heading) {
            @if is_folded {
                details.fold open[tables::fails(section)] {
                    summary { h2 id=(heading) { (title) } }
                    (content)
                }
            } @else {
                h2 id=(heading) { (title) }
                (content)
            }
        }
    }
}

/// Renders the parts of a section. Tables of a level below a heading are folded: charts show the same.
fn parts(section: &Section, groups: &[Vec<Group>], most: usize, is_single: bool) -> Markup {
    let is_folding = !is_single && section.id.starts_with("level-");
    let mut shown = section.parts.iter().zip(groups).peekable();
    let mut rendered = Vec::new();
    while let Some((part, groups)) = shown.next() {
        let below = match (part, shown.peek()) {
            (Part::Heading(_), Some((Part::Table(table), _))) => Some(table),
            _ => None,
        };
        rendered.push(match (part, below) {
            // A heading without its table says nothing.
            (Part::Heading(_), Some(table)) if tables::is_empty(table) => html! {},
            (Part::Heading(heading), Some(table)) if is_folding => {
                shown.next();
                html! {
                    details { summary { (heading) } (tables::without_runs(table)) }
                    @if let Some(runs) = &table.runs { details { summary { "Every run" } (tables::table(runs)) } }
                }
            }
            (Part::Heading(heading), _) => html! { h3 { (heading) } },
            (Part::Note(note), _) => html! { p.note { (note) } },
            (Part::Facts(facts), _) if section.id == FIRST[0] => {
                html! { div.answer { (notes::whole(facts)) } }
            }
            (Part::Facts(facts), _) => notes::facts(facts, &IN_HEADER),
            (Part::Table(table), _) => tables::table(table),
            (Part::Warnings(warnings), _) => notes::warnings(warnings),
            (Part::Charts(_), _) => figures::groups(groups, most),
        });
    }
    html! { @for part in rendered { (part) } }
}
