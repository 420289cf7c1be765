//! The header blocks of requests, encoded before a run except for the numbers in them.

use load::net::url::ServerUrl;
use load::plan::Invalid;
use traffic::{Encoding, Names, Template, Values};

use super::hpack::{self, INDEXED, INSERTED, LITERAL, RESIZED, Representation};
use crate::requests::{HEAD, bodies, fields, path};
use crate::roles::redirect::{RedirectTarget, is_of_content};
use crate::settings::Settings;

/// Fields of a connection, which HTTP/2 does not have (RFC 9113 §8.2.2).
pub(super) const OF_CONNECTION: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// The fields of requests that the server's decoder has in its dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// None yet: the next request adds them.
    Empty,
    /// All fields without a number.
    Filled,
    /// The server has made its table smaller: the next block says that it is no longer used (RFC 7541 §4.2).
    Reduced,
    Unused,
}

/// The requests to one server, in rotation.
#[derive(Debug)]
pub(crate) struct RequestBlocks {
    method: String,
    scheme: &'static str,
    authority: Template,
    /// Regular fields, with names in lower case.
    fields: Vec<(String, Template)>,
    /// The block that adds fields to the table of the server, the one after it, and one without a table.
    inserting: Block,
    indexed: Block,
    plain: Block,
    bodies: Vec<Template>,
}

/// An encoded block: bytes, and values with numbers, which follow their length.
#[derive(Debug, Default)]
struct Block(Vec<Part>);

#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    Value(Template),
}

impl RequestBlocks {
    /// Encodes the requests to one server.
    ///
    /// # Errors
    /// As for requests of HTTP/1.1.
    pub(crate) fn new(settings: &Settings, server: &ServerUrl) -> Result<Self, Invalid> {
        let names = Names::default();
        let text = |text: &str| Template::parse(HEAD, text.as_bytes(), &names, Encoding::Field);
        let mut authority = text(&server.authority)?;
        let mut regular = Vec::new();
        for (name, value) in fields(settings, server)? {
            let name = name.to_ascii_lowercase();
            if name == "host" {
                authority = text(value)?;
            } else if !OF_CONNECTION.contains(&name.as_str()) {
                regular.push((name, text(value)?));
            }
        }
        let scheme = if server.tls { "https" } else { "http" };
        let method = settings.method.clone();
        let pseudo = [
            (":method", text(&method)?),
            (":scheme", text(scheme)?),
            (":path", text(path(settings, server)?)?),
            (":authority", authority.clone()),
        ];
        let named = regular.iter();
        let named = named.map(|(name, value)| (name.as_str(), value));
        let all: Vec<(&str, &Template)> = pseudo
            .iter()
            .map(|(name, value)| (*name, value))
            .chain(named)
            .collect();
        let [inserting, indexed] = with_table(&all);
        Ok(Self {
            plain: Block::new(&all, |_, _| (LITERAL, None)),
            inserting,
            indexed,
            method,
            scheme,
            authority,
            fields: regular,
            bodies: bodies(settings, &names)?,
        })
    }

    /// Appends the block of the request of the operation with this number: the first one, or `hop`'s.
    pub(super) fn render(
        &self,
        number: u64,
        hop: Option<&RedirectTarget>,
        table: &mut Table,
        out: &mut Vec<u8>,
    ) {
        if *table == Table::Reduced {
            hpack::put_integer(out, RESIZED, 0);
            *table = Table::Unused;
        }
        match (hop, *table) {
            (Some(hop), _) => self.render_hop(number, hop, out),
            (None, Table::Empty) => {
                self.inserting.render(number, out);
                *table = Table::Filled;
            }
            (None, Table::Filled) => self.indexed.render(number, out),
            (None, _) => self.plain.render(number, out),
        }
        if let Some(body) = self.body(number, hop) {
            let length = body.bytes(Values::from_number(number)).len();
            hpack::put_name(out, LITERAL, "content-length");
            hpack::put_length(out, length.checked_ilog10().unwrap_or(0) as usize + 1);
            push_number(out, length);
        }
    }

    fn render_hop(&self, number: u64, hop: &RedirectTarget, out: &mut Vec<u8>) {
        let mut put = |name: &str, value: &[u8]| {
            hpack::put_name(out, LITERAL, name);
            hpack::put_length(out, value.len());
            out.extend_from_slice(value);
        };
        put(":method", hop.method(&self.method).as_bytes());
        put(":scheme", self.scheme.as_bytes());
        put(":path", hop.target().as_bytes());
        put(
            ":authority",
            &self.authority.bytes(Values::from_number(number)),
        );
        for (name, value) in &self.fields {
            if !(hop.bare && is_of_content(name)) {
                put(name, &value.bytes(Values::from_number(number)));
            }
        }
    }

    /// Returns the body of a request; `None` if it has none.
    pub(crate) fn body(&self, number: u64, hop: Option<&RedirectTarget>) -> Option<&Template> {
        let index = (number % self.bodies.len().max(1) as u64) as usize;
        let body = self.bodies.get(index);
        body.filter(|_| !hop.is_some_and(|hop| hop.bare))
    }
}

/// Encodes the block that adds all fields without a number to the table of the server, and the block after it. If the
/// fields do not fit there together, neither uses the table.
fn with_table(all: &[(&str, &Template)]) -> [Block; 2] {
    let is_inserted = |name: &str, value: &Template| {
        value.is_fixed()
            && hpack::static_index(name, &value.bytes(Values::from_number(0))).is_none()
    };
    let inserted: Vec<&str> = all
        .iter()
        .filter(|(name, value)| is_inserted(name, value))
        .map(|(name, _)| *name)
        .collect();
    let sizes = all
        .iter()
        .filter(|(name, value)| is_inserted(name, value))
        .map(|(name, value)| hpack::size(name.as_bytes(), &value.bytes(Values::from_number(0))));
    if sizes.sum::<usize>() > hpack::TABLE_SIZE {
        return [(); 2].map(|()| Block::new(all, |_, _| (LITERAL, None)));
    }
    let inserting = Block::new(all, |name, value| {
        if is_inserted(name, value) {
            (INSERTED, None)
        } else {
            (LITERAL, None)
        }
    });
    let mut left = inserted.len();
    let indexed = Block::new(all, |name, value| {
        let index = is_inserted(name, value).then(|| {
            left -= 1;
            hpack::NEWEST + left
        });
        (LITERAL, index)
    });
    [inserting, indexed]
}

impl Block {
    /// Encodes fields: by their index in the static table, by the index that a function returns, or as literals of the
    /// kind that it returns.
    fn new(
        all: &[(&str, &Template)],
        mut choose: impl FnMut(&str, &Template) -> (Representation, Option<usize>),
    ) -> Self {
        let (mut parts, mut bytes) = (Vec::new(), Vec::new());
        for &(name, value) in all {
            let (literal, index) = choose(name, value);
            if !value.is_fixed() {
                hpack::put_name(&mut bytes, LITERAL, name);
                parts.push(Part::Bytes(std::mem::take(&mut bytes)));
                parts.push(Part::Value(value.clone()));
                continue;
            }
            let value = value.bytes(Values::from_number(0));
            if let Some(index) = hpack::static_index(name, &value).or(index) {
                hpack::put_integer(&mut bytes, INDEXED, index);
            } else {
                hpack::put_name(&mut bytes, literal, name);
                hpack::put_length(&mut bytes, value.len());
                bytes.extend_from_slice(&value);
            }
        }
        parts.push(Part::Bytes(bytes));
        Self(parts)
    }

    fn render(&self, number: u64, out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::Value(value) => {
                    // Its length is known once it is written, and stands before it.
                    let begin = out.len();
                    value.render(Values::from_number(number), out);
                    let end = out.len();
                    hpack::put_length(out, end - begin);
                    let length = out.len() - end;
                    out[begin..].rotate_right(length);
                }
            }
        }
    }
}

fn push_number(out: &mut Vec<u8>, number: usize) {
    use std::io::Write as _;
    // A Vec takes all that is written.
    let _ = write!(out, "{number}");
}
