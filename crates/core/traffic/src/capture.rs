//! Values that are taken from an answer.

use load::plan::Invalid;
use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;
use serde_json::Value;

/// The forms, for messages.
const FORMS: &str = "write json:/a/b as NAME (a JSON pointer), header:Location as NAME, or regex:id=([0-9]+) as NAME";

/// A value to take from an answer, and the name under which later requests use it.
#[derive(Debug, Clone)]
pub struct Capture {
    /// The name.
    pub name: String,
    /// The origin of the value.
    pub origin: Origin,
}

/// The part of an answer that a value is taken from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// The value at a JSON pointer of the body (RFC 6901).
    Json(String),
    /// The value of a header field; its name in lower case.
    Header(String),
    /// The first group of the first match in the body, or all of it without a group.
    Regex(Box<Regex>),
}

impl Capture {
    /// Parses `json:/a/b as NAME`, `header:FIELD as NAME` or `regex:PATTERN as NAME`.
    ///
    /// # Errors
    /// The text has another form, or the pattern is not a regular expression; `field` is where the text stands.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let wrong = |problem: &str| Invalid::new(field, format!("`{text}` {problem}"));
        let unknown = || wrong(&format!("is not a capture: {FORMS}"));
        let (origin, name) = text.rsplit_once(" as ").ok_or_else(unknown)?;
        let name = name.trim();
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_of_name) {
            return Err(wrong("needs a name of letters, digits, _ and - after `as`"));
        }
        let origin = match origin.trim().split_once(':').ok_or_else(unknown)? {
            ("json", pointer) if pointer.is_empty() || pointer.starts_with('/') => {
                Origin::Json(pointer.to_owned())
            }
            ("json", _) => {
                return Err(wrong(
                    "has no JSON pointer: it begins with /, such as json:/user/id",
                ));
            }
            ("header", name) if !name.is_empty() => Origin::Header(name.to_ascii_lowercase()),
            ("regex", pattern) => {
                let regex = Regex::builder()
                    .syntax(regex_automata::util::syntax::Config::new().utf8(false))
                    .build(pattern);
                let regex = regex.map_err(|error| {
                    let why = error
                        .syntax_error()
                        .map_or_else(|| error.to_string(), ToString::to_string);
                    wrong(&format!("has no regular expression ({why}): correct it"))
                })?;
                Origin::Regex(Box::new(regex))
            }
            _ => return Err(unknown()),
        };
        Ok(Self {
            name: name.to_owned(),
            origin,
        })
    }

    /// Returns true if the value is in the body.
    #[must_use]
    pub fn needs_body(&self) -> bool {
        !matches!(self.origin, Origin::Header(_))
    }

    /// Takes the value from an answer: `field` returns the value of a header field, `json` is the parsed body. Returns
    /// `None` if the answer has none.
    pub fn take<'a>(
        &self,
        body: &[u8],
        json: &mut Option<Value>,
        field: impl FnOnce(&str) -> Option<&'a [u8]>,
    ) -> Option<Box<[u8]>> {
        match &self.origin {
            Origin::Header(name) => field(name).map(Into::into),
            Origin::Json(pointer) => {
                if json.is_none() {
                    *json = serde_json::from_slice(body).ok();
                }
                Some(text(json.as_ref()?.pointer(pointer)?))
            }
            Origin::Regex(regex) => {
                let mut captures: Captures = regex.create_captures();
                regex.captures(body, &mut captures);
                let group = captures
                    .get_group(1)
                    .or_else(|| captures.get_match().map(|found| found.span()))?;
                Some(body[group].into())
            }
        }
    }
}

/// Returns a JSON value as a text to insert: a string without its quotes, everything else as JSON.
pub(crate) fn text(value: &Value) -> Box<[u8]> {
    match value {
        Value::String(text) => text.as_bytes().into(),
        value => value.to_string().into_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(capture: &str, body: &str) -> Option<String> {
        let capture = Capture::parse("capture", capture).unwrap();
        let field = |name: &str| (name == "x-session").then_some(&b"s1"[..]);
        let value = capture.take(body.as_bytes(), &mut None, field)?;
        Some(String::from_utf8(value.to_vec()).unwrap())
    }

    #[test]
    fn a_value_is_taken_from_json_a_field_or_a_pattern() {
        let body = r#"{"a": {"b": ["x", 7, {"c": null}]}, "token": "t as t"}"#;
        for (capture, value) in [
            ("json:/token as token", Some("t as t")),
            ("json:/a/b/1 as n", Some("7")),
            ("json:/a/b/2 as n", Some(r#"{"c":null}"#)),
            ("json:/a/c as n", None),
            ("json:/a/b/9 as n", None),
            ("header:X-Session as s", Some("s1")),
            ("header:X-Other as s", None),
            (r#"regex:"b": \["(\w)" as b"#, Some("x")),
            (r"regex:[0-9]+ as n", Some("7")),
            ("regex:(nothing) as n", None),
            // The name is after the last `as`.
            (r#"regex:"(\w) as t" as n"#, Some("t")),
        ] {
            assert_eq!(taken(capture, body).as_deref(), value, "{capture}");
        }
        assert_eq!(taken("json:/token as token", "<html>"), None);
    }

    /// A body need not be text. JSON is parsed once for all captures of an answer.
    #[test]
    fn any_bytes_have_patterns_and_a_parsed_body_is_used_again() {
        let parse = |text: &str| Capture::parse("capture", text).unwrap();
        let none = |_: &str| None;
        let bytes = parse(r"regex:(?-u:\xff) id=([0-9]+) as n");
        let taken = bytes.take(b"\x00\xff id=7", &mut None, none);
        assert_eq!(taken.as_deref(), Some(&b"7"[..]));
        let (token, mut json) = (parse("json:/token as token"), None);
        assert_eq!(
            token.take(br#"{"token": 1}"#, &mut json, none).as_deref(),
            Some(&b"1"[..])
        );
        assert_eq!(token.take(b"", &mut json, none).as_deref(), Some(&b"1"[..]));
        assert!(bytes.needs_body() && token.needs_body());
        assert!(!parse("header:Location as next").needs_body());
    }

    #[test]
    fn a_capture_that_is_none_says_how_to_write_one() {
        for (text, problem) in [
            ("json:/token", "is not a capture"),
            ("json:token as t", "begins with /"),
            ("cookie:a as t", "is not a capture"),
            ("header: as t", "is not a capture"),
            ("regex:( as t", "has no regular expression"),
            ("json:/a as my token", "needs a name"),
        ] {
            let error = Capture::parse("capture", text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
