//! The words of a script: names, texts, values of tables, and what a case expects of them.

use std::collections::VecDeque;

use amq_protocol::protocol::BasicProperties;
use amq_protocol::types::{AMQPValue, FieldTable};
use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::case::Scope;
use super::connection::Event;
use super::method::fields;

/// Words that set a bit of a method; every other word is a field.
const FLAGS: &str = "active auto-delete durable exclusive global if-empty if-unused immediate \
                     internal mandatory multiple no-ack no-local nowait passive requeue";

/// Splits a step into words. A word keeps its quotes, which may contain spaces.
pub(super) fn split(step: &str) -> Vec<&str> {
    let mut is_quoted = false;
    let is_end = |letter: char| {
        is_quoted ^= letter == '"';
        letter == ' ' && !is_quoted
    };
    step.split(is_end).filter(|word| !word.is_empty()).collect()
}

/// Splits `key=value`.
pub(super) fn entry(word: &str) -> Option<(&str, &str)> {
    let is_entry = !word.starts_with('"');
    is_entry.then(|| word.split_once('=')).flatten()
}

fn within(word: &str, start: char, end: char) -> Option<&str> {
    word.strip_prefix(start)?.strip_suffix(end)
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|letter| letter.is_ascii_uppercase())
}

impl Scope<'_> {
    /// Returns the text of a word: the meaning of a name, a text of 300 letters for `x*300`, or the content of quotes, in
    /// which `{Q}` is a name, and `\r` and `\n` are line breaks.
    pub(super) fn text(&self, word: &str) -> String {
        if let Some(text) = within(word, '"', '"') {
            let text = text.replace("\\r", "\r").replace("\\n", "\n");
            if let Some((before, rest)) = text.split_once('{')
                && let Some((name, after)) = rest.split_once('}')
            {
                return format!("{before}{}{after}", self.name(name));
            }
            return text;
        }
        if let Some((text, count)) = word.split_once('*')
            && let Ok(count) = count.parse()
        {
            return text.repeat(count);
        }
        if is_name(word) {
            self.name(word)
        } else {
            word.to_owned()
        }
    }

    /// Returns the value of a word in a table: a boolean, a signed 32-bit integer, a long string, an array for `[1,a]`,
    /// or any other type in JSON, by its name in `amq-protocol`.
    pub(super) fn value(&self, word: &str) -> anyhow::Result<AMQPValue> {
        if word.starts_with('{') {
            return serde_json::from_str(word).with_context(|| word.to_owned());
        }
        if let Some(items) = within(word, '[', ']') {
            let items = items.split(',').map(|item| self.value(item));
            let items: Vec<AMQPValue> = items.collect::<anyhow::Result<_>>()?;
            return Ok(AMQPValue::FieldArray(items.into()));
        }
        Ok(match (word.parse(), word.parse()) {
            (Ok(flag), _) => AMQPValue::Boolean(flag),
            (_, Ok(number)) => AMQPValue::LongInt(number),
            _ => AMQPValue::LongString(self.text(word).into()),
        })
    }

    /// Asserts a text that the broker sent. A name without a meaning gets this one; `a*` is any text that begins with
    /// `a`.
    pub(super) fn expect(&self, what: &str, seen: &str, word: &str) -> anyhow::Result<()> {
        if is_name(word) && !self.is_known(word) {
            self.define(word, seen);
        }
        match word.strip_suffix('*') {
            Some(start) if seen.starts_with(start) => Ok(()),
            _ => expect_text(what, seen, &self.text(word)),
        }
    }

    /// Asserts what the broker sent: `name=value` is a field, a property, the body, or a header, whose parts are named
    /// as in `x-death.0.queue`; a value of `none` is its absence. Other words are the fields in their order.
    pub(super) fn expect_all(&self, event: &Event, words: &[&str]) -> anyhow::Result<()> {
        let (_, fields) = fields(&event.method);
        let mut in_order = fields.iter();
        for word in words {
            if let Some((name, word)) = entry(word) {
                self.expect_one(event, name, word)?;
            } else {
                let (name, seen) = in_order.next().context("it has fewer fields")?;
                self.expect(&name.replace('_', "-"), seen, word)?;
            }
        }
        Ok(())
    }

    fn expect_one(&self, event: &Event, name: &str, word: &str) -> anyhow::Result<()> {
        let key = name.replace('-', "_");
        let (_, fields) = fields(&event.method);
        if let Some((_, seen)) = fields.iter().find(|(field, _)| *field == key) {
            return self.expect(name, seen, word);
        }
        let content = event.content.as_ref().context("it has no content")?;
        if name == "body" {
            return self.expect(name, &event.body(), word);
        }
        match serde_json::to_value(&content.properties)?.get(&key) {
            Some(Value::Null) => self.expect(name, "none", word),
            Some(Value::String(seen)) => self.expect(name, seen, word),
            Some(seen) => self.expect(name, &seen.to_string(), word),
            None => {
                let seen = header(&content.properties, name);
                let expected = (word != "none").then(|| self.value(word)).transpose()?;
                ensure!(seen == expected, "{name}: {seen:?}, expected {expected:?}");
                Ok(())
            }
        }
    }
}

pub(super) fn header(properties: &BasicProperties, path: &str) -> Option<AMQPValue> {
    let headers = AMQPValue::FieldTable(properties.headers().clone()?);
    path.split('.').try_fold(headers, |value, key| match value {
        AMQPValue::FieldTable(table) => table.inner().get(key).cloned(),
        AMQPValue::FieldArray(array) => array.as_slice().get(key.parse::<usize>().ok()?).cloned(),
        _ => None,
    })
}

/// Asserts that two texts are equal; the error shows the beginning of both.
pub(super) fn expect_text(what: &str, seen: &str, expected: &str) -> anyhow::Result<()> {
    ensure!(
        seen == expected,
        "{what}: {}, expected {}",
        shortened(seen),
        shortened(expected)
    );
    Ok(())
}

fn shortened(text: &str) -> String {
    match text.get(..40) {
        Some(start) if text.len() > 200 => format!("{start}… of {} bytes", text.len()),
        _ => text.to_owned(),
    }
}

/// Words of a step that become a method, and its content.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    scope: &'a Scope<'a>,
    pub(super) words: VecDeque<String>,
    flags: Vec<&'a str>,
    entries: Vec<(&'a str, &'a str)>,
}

impl<'a> Arguments<'a> {
    /// Sorts words. `0..3` stands for the words 0, 1 and 2.
    pub(super) fn new(scope: &'a Scope<'a>, words: &[&'a str]) -> Self {
        let mut arguments = Self {
            scope,
            words: VecDeque::new(),
            flags: Vec::new(),
            entries: Vec::new(),
        };
        for word in words {
            if FLAGS.split(' ').any(|flag| flag == *word) {
                arguments.flags.push(word);
            } else if let Some(entry) = entry(word) {
                arguments.entries.push(entry);
            } else {
                arguments.words.extend(texts(scope, word));
            }
        }
        arguments
    }

    pub(super) fn take_flag(&mut self, name: &str) -> bool {
        let count = self.flags.len();
        self.flags.retain(|flag| *flag != name);
        self.flags.len() < count
    }

    pub(super) fn take_table(&mut self) -> anyhow::Result<FieldTable> {
        let mut table = FieldTable::default();
        for (key, word) in std::mem::take(&mut self.entries) {
            table.insert(key.into(), self.scope.value(word)?);
        }
        Ok(table)
    }

    /// Returns the properties; entries whose keys are not the name of a property are headers.
    pub(super) fn take_properties(&mut self) -> anyhow::Result<BasicProperties> {
        let mut properties = serde_json::to_value(BasicProperties::default())?;
        let entries = std::mem::take(&mut self.entries);
        for (key, word) in entries {
            let name = if key == "type" {
                "kind".to_owned()
            } else {
                key.replace('-', "_")
            };
            match properties.get_mut(&name) {
                None => self.entries.push((key, word)),
                Some(property) => {
                    *property = match key {
                        "headers" => serde_json::from_str(word)?,
                        "delivery-mode" | "priority" | "timestamp" => word.parse::<u64>()?.into(),
                        _ => self.scope.text(word).into(),
                    }
                }
            }
        }
        let properties: BasicProperties = serde_json::from_value(properties)?;
        let headers = self.take_table()?;
        Ok(if headers.inner().is_empty() {
            properties
        } else {
            properties.with_headers(headers)
        })
    }

    /// Asserts that every word was used.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let is_empty = self.words.is_empty() && self.flags.is_empty() && self.entries.is_empty();
        ensure!(
            is_empty,
            "the step has words that it does not use: {self:?}"
        );
        Ok(())
    }
}

/// Returns the text of a word, or the texts of a range.
pub(super) fn texts(scope: &Scope<'_>, word: &str) -> Vec<String> {
    if let Some((first, end)) = word.split_once("..")
        && let (Ok(first), Ok(end)) = (first.parse::<u32>(), end.parse::<u32>())
    {
        return (first..end).map(|number| number.to_string()).collect();
    }
    vec![scope.text(word)]
}
