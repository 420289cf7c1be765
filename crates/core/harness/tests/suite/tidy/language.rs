//! The language of identifiers and of help texts.

use crate::tidy::members::members;
use crate::tidy::tree::rust_sources;

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

/// First words of help texts: imperatives. A new one is added when no word of the list fits.
const VERBS: [&str; 77] = [
    "Accept",
    "Acknowledge",
    "Add",
    "Allow",
    "Answer",
    "Apply",
    "Begin",
    "Block",
    "Build",
    "Check",
    "Choose",
    "Churn",
    "Close",
    "Compare",
    "Connect",
    "Consume",
    "Create",
    "Cut",
    "Cycle",
    "Declare",
    "Disconnect",
    "Drive",
    "End",
    "Expect",
    "Fail",
    "Fetch",
    "Follow",
    "Hand",
    "Hide",
    "Hold",
    "Import",
    "Keep",
    "Launch",
    "Let",
    "Limit",
    "Listen",
    "Log",
    "Make",
    "Match",
    "Measure",
    "Name",
    "Offer",
    "Open",
    "Override",
    "Pass",
    "Ping",
    "Print",
    "Process",
    "Publish",
    "Raise",
    "Read",
    "Refuse",
    "Reject",
    "Remove",
    "Repeat",
    "Request",
    "Requeue",
    "Require",
    "Retry",
    "Run",
    "Select",
    "Send",
    "Serve",
    "Set",
    "Share",
    "Stamp",
    "Start",
    "Stop",
    "Store",
    "Test",
    "Treat",
    "Trust",
    "Use",
    "Vary",
    "Wait",
    "Warm",
    "Write",
];

/// Returns the line and the help text of each option that a source defines.
fn option_helps(text: &str) -> Vec<(usize, Option<String>)> {
    let mut helps = Vec::new();
    let (mut doc, mut is_known, mut was_doc) = (None, false, false);
    let plain = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut lines = plain.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start();
        if let Some(comment) = line.strip_prefix("///") {
            if !was_doc {
                doc = Some(comment.trim().to_owned());
            }
            was_doc = true;
            continue;
        }
        was_doc = false;
        if line.starts_with("#[arg(") {
            let mut attribute = line.to_owned();
            while !attribute.ends_with(")]")
                && let Some((_, more)) = lines.next()
            {
                attribute.push_str(more.trim());
            }
            let literal = attribute
                .split_once("help = ")
                .and_then(|(_, help)| help.split('"').nth(1))
                .map(str::to_owned);
            // A skipped field is a plan's setting without an option.
            if !is_known && !attribute.starts_with("#[arg(skip") {
                helps.push((number + 1, literal.or_else(|| doc.take())));
            }
            is_known = true;
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            (doc, is_known) = (None, false);
        }
    }
    helps
}

#[test]
fn the_help_of_every_option_begins_with_a_verb() {
    let folders: Vec<_> = members()
        .into_iter()
        .map(|member| member.folder.join("src"))
        .collect();
    let (mut found, mut count) = (Vec::new(), 0);
    for (path, text) in rust_sources() {
        if !folders.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for (line, help) in option_helps(&text) {
            count += 1;
            let help = help.unwrap_or_default();
            let first = help
                .trim_start_matches("Also ")
                .split(' ')
                .next()
                .unwrap_or_default();
            if !VERBS.iter().any(|verb| verb.eq_ignore_ascii_case(first)) {
                found.push(format!("{}:{line}: `{help}`", path.display()));
            }
        }
    }
    assert!(count > 150, "only {count} options were found");
    assert!(
        found.is_empty(),
        "begin with an imperative, such as `Set the number of …`:\n{}",
        found.join("\n")
    );
}
