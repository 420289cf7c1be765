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

/// Renders a suite with some hostile texts in every format, and adds what leaks. Returns false if the texts are not free,
/// as times and encoded histograms are not.
fn render(whole: &Value, texts: &[&String], leaks: &mut Vec<String>) -> bool {
    let infected = texts
        .iter()
        .fold(whole.clone(), |whole, text| infect(&whole, text));
    let Ok(suite) = serde_json::from_value::<Suite>(infected) else {
        return false;
    };
    for format in FORMATS.iter().filter(|format| format.name != "json") {
        let Ok(report) = format.render_suite(&suite, &Options::default()) else {
            return false;
        };
        let leak = leak(format.name, &report);
        leaks.extend(leak.map(|before| format!("{format}: one of {texts:?} after {before:?}")));
    }
    true
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
    let is_free = |text: &&String| {
        let infected = infect(&whole, text);
        text.len() < 200 && serde_json::from_value::<Suite>(infected).is_ok()
    };
    let free: Vec<&String> = found.iter().filter(is_free).collect();
    assert!(free.len() > 50, "only {} texts were free", free.len());
    let mut leaks = Vec::new();
    // A page takes long to draw, so several texts share one.
    for texts in free.chunks(16) {
        if !render(&whole, texts, &mut leaks) {
            for text in texts {
                render(&whole, &[*text], &mut leaks);
            }
        }
    }
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
