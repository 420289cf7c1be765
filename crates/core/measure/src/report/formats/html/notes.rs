//! Facts and warnings. What is said of several runs is said once.

use maud::{Markup, html};

use crate::report::distinct;
use crate::report::facts::COMMAND;
use crate::warning::Warning;

/// Number of facts with one label, or of messages with one hint, above which the rest is folded.
const MOST: usize = 3;

/// Renders facts, without those that the page shows elsewhere. Many facts with one label are folded.
pub(super) fn facts(facts: &[(&'static str, String)], elsewhere: &[&str]) -> Markup {
    let shown: Vec<_> = facts
        .iter()
        .filter(|(label, _)| !elsewhere.contains(label))
        .collect();
    html! {
        @if !shown.is_empty() {
            dl {
                @for same in shown.chunk_by(|one, next| one.0 == next.0) {
                    @let texts = distinct(same.iter().map(|(_, text)| text));
                    div { dt { (same[0].0) } dd { (folded(&texts, |text| shown_as(same[0].0, text))) } }
                }
            }
        }
    }
}

fn shown_as(label: &str, text: &str) -> Markup {
    match label {
        COMMAND => html! { code.command { (text) } },
        _ => html! { (text) },
    }
}

/// Renders facts, none of them folded.
pub(super) fn whole(facts: &[(&'static str, String)]) -> Markup {
    html! {
        dl { @for (label, text) in facts { div { dt { (label) } dd { (unbroken(text)) } } } }
    }
}

/// Renders a text whose names between backticks are code.
pub(super) fn with_code(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // An odd backtick ends no name.
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (index, part) in parts.iter().enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// Renders a sentence that may end with an option, which keeps its own line.
fn unbroken(text: &str) -> Markup {
    const OPTION: &str = "--repeat ";
    match text.rsplit_once(OPTION) {
        Some((sentence, number)) if number.parse::<u64>().is_ok() => {
            html! { (sentence) span.whole { (OPTION) (number) } }
        }
        _ => html! { (text) },
    }
}

/// Renders warnings. Warnings of one kind, severity and hint share the hint.
pub(super) fn warnings(warnings: &[Warning]) -> Markup {
    let mut groups: Vec<(&Warning, Vec<&str>)> = Vec::new();
    for warning in warnings {
        let mut known = groups.iter_mut();
        let same = known.find(|(first, _)| {
            first.kind == warning.kind
                && first.severity == warning.severity
                && first.hint == warning.hint
        });
        match same {
            Some((_, messages)) => messages.push(&warning.message),
            None => groups.push((warning, vec![&warning.message])),
        }
    }
    html! {
        ul.warnings {
            @for (first, messages) in groups {
                li {
                    span class=(format!("severity {}", first.severity.name())) { (first.severity.name()) }
                    div {
                        (folded(&messages, |message| html! { span.log { (message) } }))
                        " " span.hint { "→ " (with_code(&first.hint)) }
                    }
                }
            }
        }
    }
}

/// Renders all texts, or the first ones with the rest folded.
fn folded<T>(texts: &[T], show: impl Fn(&T) -> Markup) -> Markup {
    let first = if texts.len() > MOST { 1 } else { texts.len() };
    let (shown, rest) = texts.split_at(first);
    html! {
        @for text in shown { div { (show(text)) } }
        @if !rest.is_empty() {
            details { summary { (rest.len()) " more" } @for text in rest { div { (show(text)) } } }
        }
    }
}
