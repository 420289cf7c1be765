//! Reports of results whose texts somebody else chose.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

/// Begins as a formula, controls a terminal, reverses the direction of text, and has markup of HTML and Markdown.
const HOSTILE: &str =
    "=cmd|\u{1b}]0;x\u{7}\u{9b}2J\r\u{202e}\"'<script>alert(1)</script><!-- [a](javascript:b)";

/// Collects the texts of a document: values and names of fields.
fn texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            found.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => {
            for (name, field) in fields {
                found.insert(name.clone());
                texts(field, found);
            }
        }
        _ => {}
    }
}

/// Puts the hostile text before every occurrence of a text.
fn infect(value: &Value, text: &str) -> Value {
    let infected = |found: &String| {
        if found == text {
            format!("{HOSTILE}{found}")
        } else {
            found.clone()
        }
    };
    match value {
        Value::String(found) => Value::String(infected(found)),
        Value::Array(items) => items.iter().map(|item| infect(item, text)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, field)| (infected(name), infect(field, text)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// Returns what a report lets through, with what stands before it.
fn leak(format: &str, report: &str) -> Option<String> {
    // Code in Markdown is verbatim.
    let text: String = match format {
        "markdown" | "summary" => report.split('`').step_by(2).collect(),
        _ => report.to_owned(),
    };
    let markup: &[&str] = match format {
        "html" => &["<script>alert", "<!-- ["],
        "markdown" | "summary" => &["<script", "<!--", " [a]("],
        "junit" => &["<script", "<!--"],
        "csv" => &["\n=", ",=", "\"="],
        _ => &[],
    };
    let controls = |letter: char| {
        letter.is_control() && letter != '\n'
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found = markup.iter().find_map(|markup| text.split_once(markup));
    let found = found.or_else(|| report.split_once(controls));
    let (before, _) = found?;
    let mut tail: Vec<char> = before.chars().rev().take(60).collect();
    tail.reverse();
    Some(String::from_iter(tail))
}

#[test]
fn text_of_any_field_of_a_result_stays_text_in_every_format() {
    let mut suite = small();
    suite.results.truncate(1);
    suite.question = Some("a question".to_owned());
    suite.command = Some("drover run a".to_owned());
    suite.capacities = vec!["a sentence".to_owned()];
    suite.results.push(result::full());
    let whole = serde_json::to_value(&suite).unwrap();
    let mut found = BTreeSet::new();
    texts(&whole, &mut found);
    let (mut leaks, mut infected) = (BTreeSet::new(), 0);
    for text in &found {
        // Some texts are not free: names of fields, times, encoded histograms.
        let Ok(suite) = serde_json::from_value::<Suite>(infect(&whole, text)) else {
            continue;
        };
        infected += 1;
        for format in FORMATS.iter().filter(|format| format.name != "json") {
            let Ok(report) = format.render_suite(&suite, &Options::default()) else {
                continue;
            };
            let leak = leak(format.name, &report);
            leaks.extend(leak.map(|before| format!("{format}: {text:?} after {before:?}")));
        }
    }
    assert!(infected > 50, "only {infected} texts were free");
    let leaks: Vec<_> = leaks.into_iter().collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
