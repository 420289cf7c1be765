//! Checks of responses, which are counted. A failed check does not fail the request.

use std::cmp::Ordering;

use load::net::http1::Sink;
use load::plan::Invalid;
use serde_json::Value;

use crate::roles::session::SET_COOKIE;

pub(crate) mod counters;
mod parse;
#[cfg(test)]
mod tests;

/// Prefix of the counter of a check's passes; the check's text follows.
pub(crate) const PASSED: &str = "check passed: ";
/// Prefix of the counter of a check's failures.
pub(crate) const FAILED: &str = "check failed: ";

#[derive(Debug, Default)]
pub(crate) struct Checks {
    all: Vec<Check>,
    /// The names of each check's counters: passes, failures.
    names: Vec<[String; 2]>,
    /// Header fields that are needed, in lower case.
    fields: Vec<String>,
    needs_body: bool,
    needs_json: bool,
}

#[derive(Debug)]
enum Check {
    Status(Operator, u64),
    StatusIn(Vec<u64>),
    Length(Operator, u64),
    /// Nanoseconds from the first byte sent to the last byte received.
    Service(Operator, u64),
    /// The name of the field, in lower case, and its bound; `None` if it only has to exist.
    Header(String, Option<(Operator, String)>),
    Contains(Vec<u8>),
    /// Keys and indices, from the outside in, and the bound; `None` if the value only has to exist.
    Json(Vec<String>, Option<(Operator, Value)>),
}

/// An operator, given how a value compares to the bound; values that can't be compared only satisfy `!=`.
type Operator = fn(Option<Ordering>) -> bool;

impl Checks {
    /// Parses the setting `checks`.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, Invalid> {
        let mut checks = Self::default();
        for (index, text) in texts.iter().enumerate() {
            let wrong = |problem| {
                let field = format!("driver.checks[{index}] (--check {text:?})");
                Invalid::new(field, problem)
            };
            let check = parse::parse(text).map_err(wrong)?;
            if texts[..index].contains(text) {
                return Err(wrong("is given twice: leave one out".to_owned()));
            }
            checks.add(text, check);
        }
        Ok(checks)
    }

    fn add(&mut self, text: &str, check: Check) {
        match &check {
            Check::Header(name, _) => self.capture_field(name),
            Check::Contains(_) => self.needs_body = true,
            Check::Json(..) => (self.needs_body, self.needs_json) = (true, true),
            _ => {}
        }
        let names = [PASSED, FAILED].map(|begin| format!("{begin}{text}"));
        self.names.push(names);
        self.all.push(check);
    }

    /// Keeps a field that no check needs, by its name in lower case.
    pub(crate) fn capture_field(&mut self, name: &str) {
        if !self.fields.iter().any(|field| field == name) {
            self.fields.push(name.to_owned());
        }
    }

    /// Returns true if the value of a field is kept; its name is in lower case.
    pub(crate) fn needs(&self, name: &[u8]) -> bool {
        self.fields.iter().any(|field| field.as_bytes() == name)
    }

    /// Keeps bodies that no check needs.
    pub(crate) fn capture_body(&mut self) {
        self.needs_body = true;
    }

    pub(crate) fn need_body(&self) -> bool {
        self.needs_body
    }

    /// Allocates storage for the parts of a response that checks need, one for each connection; `None` if status,
    /// length and time suffice.
    pub(crate) fn new_capture(&self) -> Option<Box<Captured>> {
        let kept = self.needs_body || !self.fields.is_empty();
        kept.then(|| {
            Box::new(Captured {
                fields: vec![None; self.fields.len()],
                body: Vec::new(),
            })
        })
    }

    /// Evaluates all checks against a response; calls `each` with the index of a check and whether it passed.
    pub(crate) fn evaluate(&self, answer: ResponseView<'_>, mut each: impl FnMut(usize, bool)) {
        let body = answer.captured.map_or(&[][..], |captured| &captured.body);
        let json: Option<Value> = if self.needs_json {
            serde_json::from_slice(body).ok()
        } else {
            None
        };
        for (index, check) in self.all.iter().enumerate() {
            let passed = match check {
                Check::Status(operator, bound) => {
                    operator(Some(u64::from(answer.status).cmp(bound)))
                }
                Check::StatusIn(list) => list.contains(&u64::from(answer.status)),
                Check::Length(operator, bound) => operator(Some(answer.length.cmp(bound))),
                Check::Service(operator, bound) => operator(Some(answer.service_ns.cmp(bound))),
                Check::Header(name, bound) => match (self.field(answer.captured, name), bound) {
                    (Some(value), Some((operator, bound))) => {
                        operator(Some(value.cmp(bound.as_bytes())))
                    }
                    (value, None) => value.is_some(),
                    // A missing value differs from every bound.
                    (None, Some((operator, _))) => operator(None),
                },
                Check::Contains(text) => contains(body, text),
                Check::Json(path, bound) => match (find(json.as_ref(), path), bound) {
                    (Some(value), Some((operator, bound))) => operator(compare(value, bound)),
                    (value, None) => value.is_some(),
                    (None, Some((operator, _))) => json.is_some() && operator(None),
                },
            };
            each(index, passed);
        }
    }

    pub(crate) fn field<'a>(&self, captured: Option<&'a Captured>, name: &str) -> Option<&'a [u8]> {
        let index = self.fields.iter().position(|field| field == name)?;
        captured?.fields[index].as_deref()
    }
}

/// A complete response, as the checks see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseView<'a> {
    pub(crate) status: u16,
    /// Length of the body in bytes, whether or not the body was kept.
    pub(crate) length: u64,
    /// Service time: from the first byte sent to the last byte of the response.
    pub(crate) service_ns: u64,
    /// Its kept parts; `None` if no check needs them.
    pub(crate) captured: Option<&'a Captured>,
}

/// The kept parts of one response; reused for the next one.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Values of the needed fields.
    fields: Vec<Option<Vec<u8>>>,
    body: Vec<u8>,
}

impl Captured {
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Discards the previous response, but keeps the allocations.
    pub(crate) fn clear(&mut self) {
        self.fields.fill(None);
        self.body.clear();
    }
}

/// Keeps the parts of a response that the checks need.
#[derive(Debug)]
pub(crate) struct ResponseCapture<'a> {
    pub(crate) checks: &'a Checks,
    pub(crate) captured: &'a mut Captured,
}

impl ResponseCapture<'_> {
    /// Keeps a field of the head; if a name repeats, the first one counts. Cookies are kept all, one a line (RFC 6265 §3).
    pub(crate) fn field(&mut self, name: &str, value: &[u8]) {
        let mut fields = self.checks.fields.iter();
        if let Some(index) = fields.position(|field| field.eq_ignore_ascii_case(name)) {
            match &mut self.captured.fields[index] {
                Some(first) if name.eq_ignore_ascii_case(SET_COOKIE) => {
                    first.push(b'\n');
                    first.extend_from_slice(value.trim_ascii());
                }
                Some(_) => {}
                none => *none = Some(value.trim_ascii().to_vec()),
            }
        }
    }

    pub(crate) fn piece(&mut self, piece: &[u8]) {
        if self.checks.needs_body {
            self.captured.body.extend_from_slice(piece);
        }
    }
}

impl Sink for ResponseCapture<'_> {
    fn head(&mut self, _status: u16, headers: &[httparse::Header<'_>]) {
        self.captured.clear();
        for header in headers {
            self.field(header.name, header.value);
        }
    }

    fn body(&mut self, piece: &[u8]) {
        self.piece(piece);
    }
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|window| window == text)
}

/// Returns the value at a path of object keys and array indices.
fn find<'a>(json: Option<&'a Value>, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(json?, |value, step| match value {
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// Compares numbers by value, strings by bytes, the rest for equality.
fn compare(value: &Value, bound: &Value) -> Option<Ordering> {
    match (value, bound) {
        (Value::Number(value), Value::Number(bound)) => {
            value.as_f64()?.partial_cmp(&bound.as_f64()?)
        }
        (Value::String(value), Value::String(bound)) => Some(value.cmp(bound)),
        (value, bound) => (value == bound).then_some(Ordering::Equal),
    }
}
