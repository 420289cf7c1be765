//! Checks of answers: what is asked about each one, and counted. A check that fails does not fail the request.

use std::cmp::Ordering;

use harness::plan::Invalid;
use serde_json::Value;

use crate::answer::Sink;
use crate::judge::Complete;

mod parse;
#[cfg(test)]
mod tests;

/// The count of a check's passes begins like this, and goes on with its text.
pub(crate) const PASSED: &str = "check passed: ";
/// That of its failures.
pub(crate) const FAILED: &str = "check failed: ";

/// All checks of a run.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    all: Vec<Check>,
    /// The names of the counts of each: passes, failures.
    names: Vec<[&'static str; 2]>,
    /// Header fields that are asked for, in lower case.
    fields: Vec<String>,
    needs_body: bool,
    needs_json: bool,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Check {
    Status(Operator, u64),
    StatusIn(Vec<u64>),
    Length(Operator, u64),
    /// Nanoseconds from the first byte sent to the last one received.
    Service(Operator, u64),
    /// The name of the field, in lower case; what it must be, or that it is there.
    Header(String, Option<(Operator, String)>),
    Contains(Vec<u8>),
    /// Keys and places, from the outside in; what is there must be, or that it is there.
    Json(Vec<String>, Option<(Operator, Value)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Below,
    AtMost,
    Is,
    IsNot,
    AtLeast,
    Above,
}

impl Operator {
    /// Values that can't be compared are different, and nothing else.
    fn holds(self, ordering: Option<Ordering>) -> bool {
        match self {
            Self::Below => ordering == Some(Ordering::Less),
            Self::AtMost => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
            Self::Is => ordering == Some(Ordering::Equal),
            Self::IsNot => ordering != Some(Ordering::Equal),
            Self::AtLeast => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
            Self::Above => ordering == Some(Ordering::Greater),
        }
    }
}

impl Checks {
    /// Reads what the setting `checks` holds.
    ///
    /// # Errors
    /// The first that is none, with what can be written.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, Invalid> {
        let mut checks = Self::default();
        for (place, text) in texts.iter().enumerate() {
            let wrong = |problem| {
                let field = format!("driver.checks[{place}] (--check {text:?})");
                Invalid::new(field, problem)
            };
            let check = parse::parse(text).map_err(wrong)?;
            if texts[..place].contains(text) {
                return Err(wrong("is there twice: leave one out".to_owned()));
            }
            checks.add(text, check);
        }
        Ok(checks)
    }

    fn add(&mut self, text: &str, check: Check) {
        match &check {
            Check::Header(name, _) => self.keep(name),
            Check::Contains(_) => self.needs_body = true,
            Check::Json(..) => (self.needs_body, self.needs_json) = (true, true),
            _ => {}
        }
        // Counts have static names: those of a run's few checks live as long as the program.
        let name = |begin: &str| &*format!("{begin}{text}").leak();
        self.names.push([name(PASSED), name(FAILED)]);
        self.all.push(check);
    }

    /// Has a field kept that no check asks for, by its name in lower case.
    pub(crate) fn keep(&mut self, name: &str) {
        if !self.fields.iter().any(|field| field == name) {
            self.fields.push(name.to_owned());
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one looks at the content.
    pub(crate) fn need_body(&self) -> bool {
        self.needs_body
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The names of the counts of each: passes, failures.
    pub(crate) fn names(&self) -> impl Iterator<Item = [&'static str; 2]> {
        self.names.iter().copied()
    }

    /// Room for what has to be kept of an answer; `None` where its status, its length and its time are all. One for each
    /// connection.
    pub(crate) fn seen(&self) -> Option<Box<Seen>> {
        let kept = self.needs_body || !self.fields.is_empty();
        kept.then(|| {
            Box::new(Seen {
                fields: vec![None; self.fields.len()],
                body: Vec::new(),
            })
        })
    }

    /// Holds all against an answer; `each` gets the place of one and whether it passed.
    pub(crate) fn hold(&self, answer: Complete<'_>, mut each: impl FnMut(usize, bool)) {
        let body = answer.seen.map_or(&[][..], |seen| &seen.body);
        let json: Option<Value> = match self.needs_json {
            true => serde_json::from_slice(body).ok(),
            false => None,
        };
        for (place, check) in self.all.iter().enumerate() {
            let passed = match check {
                Check::Status(operator, bound) => {
                    operator.holds(Some(u64::from(answer.status).cmp(bound)))
                }
                Check::StatusIn(list) => list.contains(&u64::from(answer.status)),
                Check::Length(operator, bound) => operator.holds(Some(answer.length.cmp(bound))),
                Check::Service(operator, bound) => {
                    operator.holds(Some(answer.service_ns.cmp(bound)))
                }
                Check::Header(name, bound) => match (self.field(answer.seen, name), bound) {
                    (Some(value), Some((operator, bound))) => {
                        operator.holds(Some(value.cmp(bound.as_bytes())))
                    }
                    (value, None) => value.is_some(),
                    // What is not there is different from anything.
                    (None, Some((operator, _))) => operator.holds(None),
                },
                Check::Contains(text) => contains(body, text),
                Check::Json(path, bound) => match (find(json.as_ref(), path), bound) {
                    (Some(value), Some((operator, bound))) => operator.holds(compare(value, bound)),
                    (value, None) => value.is_some(),
                    (None, Some((operator, _))) => json.is_some() && operator.holds(None),
                },
            };
            each(place, passed);
        }
    }

    /// What was kept of a field.
    pub(crate) fn field<'a>(&self, seen: Option<&'a Seen>, name: &str) -> Option<&'a [u8]> {
        let place = self.fields.iter().position(|field| field == name)?;
        seen?.fields[place].as_deref()
    }
}

/// What is kept of one answer while it comes; used again for the next one.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Values of the fields that are asked for.
    fields: Vec<Option<Vec<u8>>>,
    body: Vec<u8>,
}

impl Seen {
    /// Forgets the answer before, and keeps its room.
    pub(crate) fn clear(&mut self) {
        self.fields.fill(None);
        self.body.clear();
    }
}

/// Keeps what the checks ask for.
#[derive(Debug)]
pub(crate) struct Keeper<'a> {
    pub(crate) checks: &'a Checks,
    pub(crate) seen: &'a mut Seen,
}

impl Keeper<'_> {
    /// A field of the head; of several of one name the first is kept.
    pub(crate) fn field(&mut self, name: &str, value: &[u8]) {
        let mut fields = self.checks.fields.iter();
        if let Some(place) = fields.position(|field| field.eq_ignore_ascii_case(name)) {
            self.seen.fields[place].get_or_insert_with(|| value.trim_ascii().to_vec());
        }
    }

    /// A piece of the content.
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        if self.checks.needs_body {
            self.seen.body.extend_from_slice(piece);
        }
    }
}

impl Sink for Keeper<'_> {
    fn head(&mut self, _status: u16, headers: &[httparse::Header<'_>]) {
        self.seen.clear();
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

/// What lies at a path: keys of objects and places in lists.
fn find<'a>(json: Option<&'a Value>, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(json?, |value, step| match value {
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// Numbers by their value, text by its bytes, the rest by equality.
fn compare(value: &Value, bound: &Value) -> Option<Ordering> {
    match (value, bound) {
        (Value::Number(value), Value::Number(bound)) => {
            value.as_f64()?.partial_cmp(&bound.as_f64()?)
        }
        (Value::String(value), Value::String(bound)) => Some(value.cmp(bound)),
        (value, bound) => (value == bound).then_some(Ordering::Equal),
    }
}
