//! The language of identifiers, and the length of functions.

use crate::tidy::tree::{root, rust_sources};

/// Words that no identifier may contain, as `GLOSSARY.md` has it: metaphors, and a private word for a standard term.
/// Each has the words to use instead.
const BANNED: [(&str, &str); 37] = [
    ("birth", "start"),
    ("came", "the event's noun, or `count`"),
    ("crew", "worker range"),
    ("desk", "connection or state"),
    ("door", "endpoint or socket"),
    ("doubt", "warning"),
    ("doubts", "warnings"),
    ("errand", "operation"),
    ("glance", "overview"),
    ("gone", "closed, ended or exited"),
    ("gravest", "most severe"),
    ("hear", "receive"),
    ("heard", "received"),
    ("lane", "worker"),
    ("lanes", "workers"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("patience", "timeout or grace"),
    ("place", "index or slot"),
    ("places", "indices or slots"),
    ("reborn", "restarted"),
    ("recipe", "launch or manifest"),
    ("remark", "note or warning"),
    ("remarks", "notes or warnings"),
    ("said", "output or message"),
    ("seat", "slot"),
    ("seats", "slots"),
    ("sip", "small read"),
    ("site", "daemon or daemons"),
    ("spoke", "sent"),
    ("story", "run"),
    ("strike", "inject"),
    ("struck", "injected"),
    ("told", "reported or sent"),
    ("whim", "choice"),
    ("wish", "request or setting"),
    ("wishes", "requests or settings"),
];

/// Keywords before the name of an item.
const ITEMS: [&str; 8] = [
    "fn", "struct", "enum", "mod", "const", "static", "trait", "type",
];

/// Returns the name of the item, field or parameter that a line defines.
fn defined_name(line: &str) -> Option<&str> {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| word.starts_with("pub") || ["const", "async", "unsafe"].contains(word));
    let first = words.next()?;
    let name = match first.strip_suffix(':') {
        Some(field) => field,
        None if ITEMS.contains(&first) => words.next()?,
        // Without its keyword, only a constant begins with its name and a colon.
        None => return None,
    };
    let other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    Some(&name[..name.find(other).unwrap_or(name.len())])
}

/// Splits `snake_case` and `CamelCase` into lower-case words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if letter == '_' || (letter.is_ascii_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = letter.is_ascii_lowercase();
        if letter != '_' {
            words
                .last_mut()
                .expect("there is a first word")
                .push(letter.to_ascii_lowercase());
        }
    }
    words
}

#[test]
fn names_are_split_into_words() {
    assert_eq!(words("PlannedStage"), ["planned", "stage"]);
    assert_eq!(words("MOST_SEVERE"), ["most", "severe"]);
    for (line, name) in [
        ("    pub(crate) const fn as_text(&self) {", Some("as_text")),
        ("const LIMIT: u64 = 3;", Some("LIMIT")),
        ("pub struct Plan<D> {", Some("Plan")),
        ("    pub sent_at: u64,", Some("sent_at")),
        ("    let value: u64 = 3;", None),
    ] {
        assert_eq!(defined_name(line), name, "{line}");
    }
}

#[test]
fn no_identifier_is_a_metaphor() {
    let mut found = Vec::new();
    for (path, text) in rust_sources() {
        // Names of tests are sentences.
        let mut is_test = false;
        for (number, line) in text.lines().enumerate() {
            let name = defined_name(line).filter(|_| !is_test);
            if let Some(name) = name {
                let words = words(name);
                let banned = BANNED
                    .iter()
                    .filter(|(banned, _)| words.iter().any(|word| word == banned));
                found.extend(banned.map(|(banned, better)| {
                    let at = path.display();
                    format!(
                        "{at}:{}: `{name}`: instead of `{banned}`, use {better}",
                        number + 1
                    )
                }));
            }
            let trimmed = line.trim_start();
            is_test = trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test");
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Returns the functions of a source as the formatter leaves them, with their lines: from `fn` to the brace that closes.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let plain = text.split("#[cfg(test)]\nmod tests {").next();
    let lines: Vec<&str> = plain.unwrap_or_default().lines().collect();
    let several = lines.iter().enumerate();
    let several = several.filter(|(_, line)| !line.ends_with('}'));
    let begins = several.filter_map(|(begin, line)| {
        let (before, name) = line.split_once("fn ")?;
        let is_definition = before
            .split_whitespace()
            .all(|word| word.starts_with("pub") || ["const", "async", "unsafe"].contains(&word));
        let indent = &line[..line.len() - line.trim_start().len()];
        is_definition.then_some((begin, name.split(['(', '<']).next()?, indent))
    });
    begins
        .filter_map(|(begin, name, indent)| {
            let end = format!("{indent}}}");
            let length = lines[begin..].iter().position(|line| **line == end)?;
            Some((name, length + 1))
        })
        .collect()
}

#[test]
fn a_function_fits_on_one_page() {
    let mut found = Vec::new();
    for (path, text) in rust_sources() {
        let path = path.strip_prefix(root()).unwrap().display().to_string();
        let mut parts = path.split('/').skip(1);
        let (room, name, folder) = (parts.next(), parts.next(), parts.next());
        let is_list_of_cases = name.is_some_and(|name| name.ends_with("-conformance"));
        if folder != Some("src") || path.ends_with("tests.rs") || path.contains("/tests/") {
            continue;
        }
        let most = if room == Some("core") { 70 } else { 90 };
        let long = functions(&text)
            .into_iter()
            .filter(|(_, lines)| *lines > most && !is_list_of_cases);
        found.extend(long.map(|(name, lines)| format!("{path}: {name} has {lines} lines")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
