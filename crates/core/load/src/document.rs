//! Reads TOML, and explains what is wrong in it: the line, the field, and what to write instead.

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use measure::similar::suggest;

/// The reason why a document can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", position(*.line, .field))]
pub struct Misread {
    /// The number of the line; unknown for values that come from no text.
    pub line: Option<usize>,
    /// The field, as a path such as `groups[0].rate`; empty at the top.
    pub field: String,
    /// The problem, and the remedy.
    pub problem: String,
    /// The path to the value, or to the key that is unknown.
    path: Vec<Step>,
}

/// A step of the path from a document to one of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Misread {
    /// Adds the line, which values no longer know when they are converted.
    fn located_in(mut self, text: &str) -> Self {
        self.line = DeTable::parse(text).ok().map(|document| {
            let span = document.span();
            let document = Spanned::new(span, DeValue::Table(document.into_inner()));
            line(text, start_of(&document, &self.path))
        });
        self
    }
}

/// Returns the position of the value at a path, or of the innermost one around it that is in the document.
fn start_of(document: &Spanned<DeValue<'_>>, path: &[Step]) -> usize {
    let mut value = document;
    for step in path {
        let next = match step {
            Step::Key(name) => {
                let table = value.get_ref().as_table();
                table.and_then(|table| table.get(name.as_str()))
            }
            Step::Index(index) => {
                let list = value.get_ref().as_array();
                list.and_then(|list| list.get(*index))
            }
        };
        let Some(next) = next else { break };
        value = next;
    }
    value.span().start
}

/// Returns the number of the line that a position is in.
fn line(text: &str, position: usize) -> usize {
    let before = text.get(..position).unwrap_or(text);
    before.matches('\n').count() + 1
}

fn position(line: Option<usize>, field: &str) -> String {
    let line = line.map_or_else(String::new, |line| format!("line {line}: "));
    match field {
        "" => line,
        field => format!("{line}{field}: "),
    }
}

/// Parses a whole document.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Misread> {
    from_table(parse_table(text)?).map_err(|problem| problem.located_in(text))
}

/// Parses a whole document, and takes the keys that it leaves out from `defaults`.
///
/// # Errors
/// See [`parse`].
pub fn parse_with<T: DeserializeOwned>(
    text: &str,
    mut defaults: toml::Table,
) -> Result<T, Misread> {
    defaults.extend(parse_table(text)?);
    from_table(defaults).map_err(|problem| problem.located_in(text))
}

fn parse_table(text: &str) -> Result<toml::Table, Misread> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let part = error.span().and_then(|span| text.get(span));
        let problem = match (error.message(), part) {
            ("duplicate key", Some(key)) => format!("`{key}` is set twice: keep one of the two"),
            (message, _) => format!("{message}: write TOML, such as name = \"value\""),
        };
        Misread {
            line: error.span().map(|span| line(text, span.start)),
            field: String::new(),
            problem,
            path: Vec::new(),
        }
    })
}

/// Converts a table. All documents are read through tables, so that a type is compiled for one deserializer only.
///
/// # Errors
/// The first thing that is wrong.
pub fn from_table<T: DeserializeOwned>(table: toml::Table) -> Result<T, Misread> {
    serde_path_to_error::deserialize(table).map_err(
        |error: serde_path_to_error::Error<toml::de::Error>| {
            explain(error.path(), error.inner().message())
        },
    )
}

/// Says in plain words what serde found.
fn explain(path: &Path, message: &str) -> Misread {
    let message = message.trim_end();
    let field = path.to_string();
    let problem = mistyped(message)
        .or_else(|| unknown(message))
        .or_else(|| missing(message))
        .unwrap_or_else(|| message.to_owned());
    // The path of an unknown field ends with a name that the problem repeats.
    let field = match field.as_str() {
        "." | "?" => String::new(),
        path => path.trim_end_matches(".?").to_owned(),
    };
    let repeated = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split('`').next());
    let field = match repeated.and_then(|name| field.strip_suffix(name)) {
        Some(parent) => parent.trim_end_matches('.').to_owned(),
        None => field,
    };
    let steps = path.iter().map_while(|segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    let mut path: Vec<Step> = steps.collect();
    let unknown_key = repeated.map(|name| Step::Key(name.to_owned()));
    if unknown_key.is_some() && path.last() != unknown_key.as_ref() {
        path.extend(unknown_key);
    }
    Misread {
        line: None,
        field,
        problem,
        path,
    }
}

/// Translates `invalid type: integer `10`, expected a string` and `invalid value: …`.
fn mistyped(message: &str) -> Option<String> {
    let (_, rest) = message
        .split_once("invalid type: ")
        .or_else(|| message.split_once("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let is_text = found.starts_with("string");
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" if is_text => "a whole number, without quotes",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "f32" | "f64" if is_text => "a number, without quotes",
        "f32" | "f64" => "a number",
        "a string" => "a text in quotes",
        "a boolean" if is_text => "true or false, without quotes",
        "a boolean" => "true or false",
        "a sequence" => "a list in [ ]",
        "a map" => "a table: { key = value }",
        other if other.starts_with("struct ") => "a table: { key = value }",
        other => other,
    };
    let found = match found.split_once(' ') {
        Some(("integer" | "floating", value)) => {
            format!(
                "the number {}",
                value.trim_start_matches("point ").trim_matches('`')
            )
        }
        Some(("string", value)) => format!("the text {value}"),
        Some(("boolean", value)) => value.trim_matches('`').to_owned(),
        _ => match found {
            "sequence" => "a list".to_owned(),
            "map" => "a table".to_owned(),
            other => other.to_owned(),
        },
    };
    Some(format!("must be {expected}, not {found}"))
}

/// Translates `unknown field …, expected one of …` and `unknown variant …`.
fn unknown(message: &str) -> Option<String> {
    let (what, rest) = match message.strip_prefix("unknown field `") {
        Some(rest) => ("unknown field ", rest),
        None => ("", message.strip_prefix("unknown variant `")?),
    };
    let (name, expected) = rest.split_once('`')?;
    let known = expected.split('`').skip(1).step_by(2);
    let end = if what.is_empty() {
        " is none of its values"
    } else {
        ""
    };
    Some(format!("{what}`{name}`{end}: {}", suggest(name, known)))
}

/// Translates `missing field …`.
fn missing(message: &str) -> Option<String> {
    let name = message.strip_prefix("missing field `")?.strip_suffix('`')?;
    Some(format!("`{name}` is missing: add {name} = …"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde::Deserialize;
    use test_kit::rows;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are read")]
    struct Outer {
        #[serde(default)]
        name: String,
        #[serde(default)]
        list: Vec<Inner>,
        #[serde(default)]
        map: BTreeMap<String, u16>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are read")]
    struct Inner {
        clients: u64,
        #[serde(default)]
        rate: Option<f64>,
        #[serde(default)]
        fast: bool,
        #[serde(default)]
        kind: Kind,
        #[serde(default, with = "crate::duration::optional")]
        time: Option<Duration>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        #[default]
        Constant,
        Poisson,
    }

    #[test]
    fn errors_are_named_with_line_field_and_remedy() {
        let table = r#"
            name = 5 => line 1: name: must be a text in quotes, not the number 5
            \nname = [1] => line 2: name: must be a text in quotes, not a list
            nmae = 'x' => line 1: unknown field `nmae`: did you mean `name`?
            list = 5 => line 1: list: must be a list in [ ], not the number 5
            map = { a = 70000 } => line 1: map.a: must be a whole number, 0 or more, not the number 70000
            [[list]]\nclients = '3' => line 2: list[0].clients: must be a whole number, without quotes, not the text "3"
            [[list]]\nclients = -1 => line 2: list[0].clients: must be a whole number, 0 or more, not the number -1
            [[list]]\nclients = 1.5 => line 2: list[0].clients: must be a whole number, 0 or more, not the number 1.5
            [[list]]\nrate = 3 => line 1: list[0]: `clients` is missing: add clients = …
            [[list]]\nclients = 3\nrate = true => line 3: list[0].rate: must be a number, not true
            [[list]]\nclients = 3\nfast = 'yes' => line 3: list[0].fast: must be true or false, without quotes, not the text "yes"
            [[list]]\nclients = 3\nclient = 3 => line 3: list[0]: unknown field `client`: did you mean `clients`?
            [[list]]\nclients = 3\nzzz = 3 => line 3: list[0]: unknown field `zzz`: use one of clients, rate, fast, kind, time
            [[list]]\nclients = 3\nkind = 'poison' => line 3: list[0].kind: `poison` is none of its values: did you mean `poisson`?
            [[list]]\nclients = 3\ntime = 10 => line 3: list[0].time: must be a time with its unit: write "10s" for 10 seconds
            [[list]]\nclients = 3\ntime = true => line 3: list[0].time: must be a time such as "10s", not true
        "#;
        for (text, expected) in rows(table) {
            let (text, expected) = (&text.replace(r"\n", "\n"), expected[0]);
            let error = parse::<Outer>(text).unwrap_err();
            assert_eq!(error.to_string(), expected);
            let table: toml::Table = toml::from_str(text).unwrap();
            let error = from_table::<Outer>(table).unwrap_err();
            let (_, without_line) = expected.split_once(": ").unwrap();
            assert_eq!(error.to_string(), without_line);
        }
    }

    #[test]
    fn text_that_is_no_toml_is_named_with_its_line() {
        let error = parse::<Outer>("name = 'a'\nlist = [").unwrap_err();
        assert_eq!(error.line, Some(2));
        assert!(error.problem.contains("write TOML"), "{error}");
    }
}
