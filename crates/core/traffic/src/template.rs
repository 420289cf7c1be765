//! Texts with names in them, which a row or a value replaces.

use std::io::Write as _;

use bytes::Bytes;
use load::plan::Invalid;

use crate::rows::RowReader;

/// The placeholder of the operation's number: `{id}`, or `{id:N}` for the number modulo N.
const ID: &[u8] = b"{id";
const OPEN: &[u8] = b"{{";
const CLOSE: &[u8] = b"}}";

/// The names that a template may use.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The columns of the file with rows.
    pub columns: Vec<String>,
    /// The values that are taken from answers.
    pub values: Vec<String>,
}

/// The origin of a text that replaces a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A column of the rows, by its index.
    Column(usize),
    /// A value of an answer, by its index.
    Value(usize),
}

/// The way in which a text is inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Body,
    /// In a header field: control characters, which would end the field, become spaces.
    Field,
    /// In a path: bytes that no URI may have are percent-encoded (RFC 3986 §2); `/`, `?`, `&` and `%` stay.
    Path,
    /// In a JSON string: quotes, backslashes and control characters are escaped (RFC 8259 §7).
    JsonString,
}

/// The texts that replace the names of one operation.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The number of the operation.
    pub number: u64,
    /// The row of the operation; `None` if the plan has no rows.
    pub row: Option<&'a RowReader>,
    /// The client's own values by index, and the values of all clients; an own one comes first.
    pub own: &'a [Option<Box<[u8]>>],
    /// The values that all clients share.
    pub shared: &'a [Option<Box<[u8]>>],
}

impl<'a> Values<'a> {
    /// Returns values of which only the number is known.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self {
            number,
            row: None,
            own: &[],
            shared: &[],
        }
    }

    /// Returns the text of a source; empty if there is none.
    #[must_use]
    pub fn get(&self, source: Source) -> &'a [u8] {
        match source {
            Source::Column(index) => self.row.map_or(&[], |row| row.field(index)),
            Source::Value(index) => {
                let of = |all: &'a [Option<Box<[u8]>>]| all.get(index)?.as_deref();
                of(self.own).or_else(|| of(self.shared)).unwrap_or_default()
            }
        }
    }
}

impl Names {
    /// Returns the source of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Source> {
        let index = |names: &[String]| names.iter().position(|known| known == name);
        let column = index(&self.columns).map(Source::Column);
        column.or_else(|| index(&self.values).map(Source::Value))
    }

    fn remedy(&self) -> String {
        let mut known: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        // A driver's own names have a colon, which no name in a text has.
        let values = self.values.iter().map(String::as_str);
        known.extend(values.filter(|name| !name.contains(':')));
        match known.as_slice() {
            [] => {
                "give the file with that column (--rows), or a request that captures it".to_owned()
            }
            known => format!("use one of {}", known.join(", ")),
        }
    }
}

/// Bytes with placeholders.
#[derive(Debug, Clone, Default)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Bytes(Bytes),
    /// The number of the operation, modulo this.
    Id(u64),
    Text(Source, Encoding),
}

impl Template {
    /// Creates a text without placeholders.
    #[must_use]
    pub fn fixed(text: &str) -> Self {
        Self(vec![Part::Bytes(Bytes::copy_from_slice(text.as_bytes()))])
    }

    /// Parses a text: `{{name}}` is a column or a value, `{id}` and `{id:N}` are the number of the operation.
    ///
    /// # Errors
    /// A name that is not known; `field` is where the text stands.
    pub fn parse(
        field: &str,
        mut rest: &[u8],
        names: &Names,
        encoding: Encoding,
    ) -> Result<Self, Invalid> {
        let mut template = Self::default();
        let mut before = Vec::new();
        while let Some(index) = rest.iter().position(|byte| *byte == b'{') {
            before.extend_from_slice(&rest[..index]);
            rest = &rest[index..];
            let (part, length) = match name(rest) {
                Some(name) => {
                    let source = names.find(name).ok_or_else(|| {
                        let remedy = names.remedy();
                        Invalid::new(field, format!("`{{{{{name}}}}}` names nothing: {remedy}"))
                    })?;
                    (
                        Part::Text(source, encoding),
                        OPEN.len() + name.len() + CLOSE.len(),
                    )
                }
                None => match id(rest) {
                    Some((0, _)) => {
                        let problem = "{id:0}: there is no remainder by 0: use {id:1} or more";
                        return Err(Invalid::new(field, problem));
                    }
                    Some((modulus, length)) => (Part::Id(modulus), length),
                    // These braces are JSON.
                    None => {
                        before.push(b'{');
                        rest = &rest[1..];
                        continue;
                    }
                },
            };
            template.push(std::mem::take(&mut before));
            template.0.push(part);
            rest = &rest[length..];
        }
        before.extend_from_slice(rest);
        template.push(before);
        Ok(template)
    }

    fn push(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.0.push(Part::Bytes(bytes.into()));
        }
    }

    /// Appends a template.
    pub fn append(&mut self, other: Self) {
        for part in other.0 {
            match (self.0.last_mut(), part) {
                (Some(Part::Bytes(last)), Part::Bytes(more)) => {
                    *last = [last.as_ref(), more.as_ref()].concat().into();
                }
                (_, part) => self.0.push(part),
            }
        }
    }

    /// Returns true if it is the same text for every operation.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        matches!(self.0.as_slice(), [] | [Part::Bytes(_)])
    }

    /// Returns true if it has the number of the operation.
    #[must_use]
    pub fn uses_number(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Id(_)))
    }

    /// Returns the sources that it uses.
    pub fn sources(&self) -> impl Iterator<Item = Source> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(source, _) => Some(*source),
            Part::Bytes(_) | Part::Id(_) => None,
        })
    }

    /// Appends the text of an operation to `out`.
    #[inline]
    pub fn render(&self, values: Values<'_>, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Id(modulus) => {
                    let _ = write!(out, "{}", values.number % modulus);
                }
                Part::Text(source, encoding) => encoding.insert(values.get(*source), out),
            }
        }
    }

    /// Returns the text of an operation, without a copy if it is fixed.
    #[must_use]
    pub fn bytes(&self, values: Values<'_>) -> Bytes {
        match self.0.as_slice() {
            [Part::Bytes(bytes)] => bytes.clone(),
            _ => {
                let mut bytes = Vec::new();
                self.render(values, &mut bytes);
                bytes.into()
            }
        }
    }
}

impl Encoding {
    fn insert(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Body => out.extend_from_slice(text),
            Self::Field => out.extend(text.iter().map(|byte| match byte {
                0..0x20 | 0x7f => b' ',
                byte => *byte,
            })),
            Self::JsonString => {
                for byte in text {
                    match byte {
                        b'"' | b'\\' => out.extend([b'\\', *byte]),
                        0..0x20 => drop(write!(out, "\\u{byte:04x}")),
                        byte => out.push(*byte),
                    }
                }
            }
            Self::Path => {
                for byte in text {
                    if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(byte) {
                        out.push(*byte);
                    } else {
                        let _ = write!(out, "%{byte:02X}");
                    }
                }
            }
        }
    }
}

/// Returns the name at the beginning of a text, if that is `{{name}}`. A name has letters, digits, `_`, `-` and `.`.
fn name(text: &[u8]) -> Option<&str> {
    let rest = text.strip_prefix(OPEN)?;
    let is_of_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_-. ".contains(byte) || *byte >= 0x80;
    let end = rest.iter().position(|byte| !is_of_name(byte))?;
    let is_name = end > 0 && rest[end..].starts_with(CLOSE);
    std::str::from_utf8(&rest[..end]).ok().filter(|_| is_name)
}

/// Returns the modulus of `{id}` or `{id:N}` at the beginning of a text, and its length.
fn id(text: &[u8]) -> Option<(u64, usize)> {
    let rest = text.strip_prefix(ID)?;
    if rest.starts_with(b"}") {
        return Some((u64::MAX, ID.len() + 1));
    }
    let digits = rest.strip_prefix(b":")?;
    let end = digits.iter().position(|byte| *byte == b'}')?;
    let modulus = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    Some((modulus, ID.len() + 1 + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, encoding: Encoding, value: &[u8]) -> String {
        let names = Names {
            columns: Vec::new(),
            values: vec!["user".to_owned()],
        };
        let template = Template::parse("body", text.as_bytes(), &names, encoding).unwrap();
        let values = Values {
            own: &[Some(value.into())],
            ..Values::from_number(112)
        };
        String::from_utf8(template.bytes(values).to_vec()).unwrap()
    }

    #[test]
    fn names_and_numbers_are_replaced_and_json_stays() {
        for (text, expected) in [
            (
                r#"{"id":{id}, "u": {"n": "{{user}}"}}"#,
                r#"{"id":112, "u": {"n": "a b"}}"#,
            ),
            ("{{user}}{{user}}", "a ba b"),
            ("{id:10}/{{user}}", "2/a b"),
            ("{{ \"a\": 1 }}", "{{ \"a\": 1 }}"),
            ("{id", "{id"),
            ("{{}}", "{{}}"),
            ("{", "{"),
            ("", ""),
        ] {
            assert_eq!(rendered(text, Encoding::Body, b"a b"), expected);
        }
    }

    #[test]
    fn a_text_is_inserted_as_its_surroundings_need_it() {
        let text = "é a/b?c&d%41\r\nX: y".as_bytes();
        let path = rendered("{{user}}", Encoding::Path, text);
        assert_eq!(path, "%C3%A9%20a/b?c&d%41%0D%0AX:%20y");
        let field = rendered("{{user}}", Encoding::Field, text);
        assert_eq!(field, "é a/b?c&d%41  X: y");
        let json = rendered("\"{{user}}\"", Encoding::JsonString, b"a\"\\\n");
        assert_eq!(json, r#""a\"\\\u000a""#);
    }

    #[test]
    fn bytes_that_no_path_may_have_are_encoded_and_all_others_stay() {
        let path = rendered("{{user}}", Encoding::Path, b"\"<>\\^`{|}\x7f");
        assert_eq!(path, "%22%3C%3E%5C%5E%60%7B%7C%7D%7F");
        let kept = "!#$%&'()*+,-./09:;=?@AZ[]_az~";
        assert_eq!(rendered("{{user}}", Encoding::Path, kept.as_bytes()), kept);
    }

    /// Columns come before values, and a client's own values before the shared ones.
    #[test]
    fn a_name_has_one_source() {
        let names = Names {
            columns: vec!["größe".to_owned()],
            values: vec!["token".to_owned(), "größe".to_owned()],
        };
        assert_eq!(names.find("größe"), Some(Source::Column(0)));
        let parse = |text: &str| Template::parse("body", text.as_bytes(), &names, Encoding::Body);
        let size = parse("a{{größe}}").unwrap();
        assert_eq!(size.sources().collect::<Vec<_>>(), [Source::Column(0)]);
        let token = parse("{{token}}").unwrap();
        let (own, shared) = ([Some(Box::from(*b"own"))], [Some(Box::from(*b"all"))]);
        for (own, text) in [(&own[..], "own"), (&[None], "all"), (&[], "all")] {
            let values = Values {
                own,
                shared: &shared,
                ..Values::from_number(0)
            };
            assert_eq!(token.bytes(values), text);
        }
        assert_eq!(token.bytes(Values::from_number(0)), "");
    }

    #[test]
    fn a_text_after_another_is_one_text_if_both_are_fixed() {
        let mut text = Template::fixed("a");
        text.append(Template::fixed("b"));
        assert!(text.is_fixed());
        let id = Template::parse("path", b"{id:5}", &Names::default(), Encoding::Path);
        let id = id.unwrap();
        assert!(!id.is_fixed());
        text.append(id);
        text.append(Template::fixed("c"));
        assert!(!text.is_fixed());
        assert_eq!(text.bytes(Values::from_number(12)), "ab2c");
        let zero = Template::parse("path", b"{id:0}", &Names::default(), Encoding::Path);
        let error = zero.unwrap_err().to_string();
        assert!(error.contains("use {id:1} or more"), "{error}");
    }

    #[test]
    fn an_unknown_name_lists_those_that_are_known() {
        let names = Names {
            columns: vec!["user".to_owned(), "item".to_owned()],
            // A driver's own name.
            values: vec!["sent:login".to_owned(), "token".to_owned()],
        };
        let error = Template::parse("driver.body", b"{{usr}}", &names, Encoding::Body).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("driver.body: `{{usr}}`"), "{error}");
        assert!(error.contains("use one of user, item, token"), "{error}");
    }
}
