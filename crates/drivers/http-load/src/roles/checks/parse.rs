//! Parser of checks as they are typed.

use std::cmp::Ordering;

use load::duration;

use super::{Check, Operator};

/// The valid forms, for messages.
const FORMS: &str = "write status==200, status in 200,204, body.length==1024, body contains \"text\", header.content-type==text/plain, header.etag exists, json.a.b==1, json.a.0 exists or duration<500ms";
/// Longer operators first: `<=` begins with `<`.
const OPERATORS: [(&str, Operator); 7] = [
    ("===", |ordering| ordering == Some(Ordering::Equal)),
    ("==", |ordering| ordering == Some(Ordering::Equal)),
    ("!=", |ordering| ordering != Some(Ordering::Equal)),
    ("<=", |ordering| ordering.is_some_and(Ordering::is_le)),
    (">=", |ordering| ordering.is_some_and(Ordering::is_ge)),
    ("<", |ordering| ordering == Some(Ordering::Less)),
    (">", |ordering| ordering == Some(Ordering::Greater)),
];

/// The part of a check after the subject.
enum Test<'a> {
    Compare(Operator, &'a str),
    In(&'a str),
    Contains(&'a str),
    Exists,
}

/// Parses a check. The error says what is wrong and lists the valid forms.
pub(super) fn parse(text: &str) -> Result<Check, String> {
    let (subject, test) = split(text.trim()).ok_or_else(|| format!("is not a check: {FORMS}"))?;
    if let Some(name) = subject.strip_prefix("header.") {
        return header(name, &test);
    }
    if let Some(path) = subject.strip_prefix("json.") {
        return json(path, &test);
    }
    match (subject, test) {
        ("status", Test::Compare(operator, bound)) => Ok(Check::Status(operator, status(bound)?)),
        ("status", Test::In(list)) => {
            let list = list.split(',').map(|one| status(one.trim()));
            list.collect::<Result<_, _>>().map(Check::StatusIn)
        }
        ("body.length", Test::Compare(operator, bound)) => bound
            .parse()
            .map(|length| Check::Length(operator, length))
            .map_err(|_| format!("`{bound}` is not a number of bytes: write one such as 1024")),
        ("duration", Test::Compare(operator, bound)) => duration::parse_with_unit(bound)
            .map(|time| Check::Service(operator, time.as_nanos() as u64))
            .map_err(|error| format!("`{bound}`: {error}")),
        ("body", Test::Contains(text)) => match unquoted(text) {
            "" => Err("has no text to look for: write body contains \"text\"".to_owned()),
            text => Ok(Check::Contains(text.as_bytes().to_vec())),
        },
        ("status" | "body" | "body.length" | "duration", _) => Err(format!(
            "`{subject}` does not support this comparison: {FORMS}"
        )),
        _ => Err(format!("unknown subject `{subject}`: {FORMS}")),
    }
}

/// Splits a check into the subject, which has no space in it, and the test.
fn split(text: &str) -> Option<(&str, Test<'_>)> {
    let end = text.find([' ', '=', '!', '<', '>'])?;
    let (subject, rest) = (&text[..end], text[end..].trim_start());
    for (sign, operator) in OPERATORS {
        if let Some(bound) = rest.strip_prefix(sign) {
            return Some((subject, Test::Compare(operator, bound.trim())));
        }
    }
    let test = match rest.split_once(' ').unwrap_or((rest, "")) {
        ("in", list) => Test::In(list.trim()),
        ("contains", text) => Test::Contains(text.trim()),
        ("exists", "") => Test::Exists,
        _ => return None,
    };
    Some((subject, test))
}

fn header(name: &str, test: &Test<'_>) -> Result<Check, String> {
    let name = name.parse::<http::HeaderName>();
    let name = name.map_err(|_| format!("does not name a header field: {FORMS}"))?;
    let name = name.as_str().to_owned();
    let bound = bound_of(test, "a header field", |bound| unquoted(bound).to_owned());
    Ok(Check::Header(name, bound?))
}

fn json(path: &str, test: &Test<'_>) -> Result<Check, String> {
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(format!("a key between two dots is empty: {FORMS}"));
    }
    // A word that is not JSON is taken as text.
    let value = |bound: &str| serde_json::from_str(bound).unwrap_or_else(|_| bound.into());
    Ok(Check::Json(path, bound_of(test, "a JSON value", value)?))
}

/// Returns the operator and the bound of a test; `None` if it only tests existence.
fn bound_of<T>(
    test: &Test<'_>,
    subject: &str,
    parse: impl FnOnce(&str) -> T,
) -> Result<Option<(Operator, T)>, String> {
    match test {
        Test::Exists => Ok(None),
        Test::Compare(operator, bound) => Ok(Some((*operator, parse(bound)))),
        Test::In(_) | Test::Contains(_) => Err(format!(
            "{subject} can only be compared or tested with `exists`: {FORMS}"
        )),
    }
}

fn status(text: &str) -> Result<u64, String> {
    let status = text
        .parse()
        .ok()
        .filter(|status| (100..600).contains(status));
    status
        .ok_or_else(|| format!("`{text}` is not an HTTP status: use a number between 100 and 599"))
}

fn unquoted(text: &str) -> &str {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or(text)
}
