//! The header blocks of requests, encoded before a run except for what differs between operations.

use bytes::Bytes;
use load::net::url::ServerUrl;
use load::plan::Invalid;
use traffic::{Encoding, Names, Template, Values};

use super::hpack::{self, INDEXED, INSERTED, LITERAL, RESIZED, Representation};
use crate::requests::{HEAD, bodies, fields, path};
use crate::roles::cookies::Cookies;
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
///
/// A block has three parts: the fields that are the same for every operation before and after those that are not. Only the
/// former use the table of the server, so that a request's own part is the same over any connection.
#[derive(Debug)]
pub(crate) struct RequestBlocks {
    method: String,
    scheme: &'static str,
    path: Template,
    authority: Template,
    /// Regular fields, with names in lower case.
    fields: Vec<(String, Template)>,
    /// The block that adds fields to the table of the server, the one after it, and one without a table.
    inserting: Block,
    indexed: Block,
    plain: Block,
    /// The fields that differ between operations: their encoded names, and values.
    own: Vec<(Vec<u8>, Template)>,
    bodies: Vec<Template>,
    /// True if responses have no body.
    pub(super) is_head: bool,
}

/// The encoded fields before a request's own ones, which are pseudo-header fields, and after them.
type Block = [Vec<u8>; 2];

/// The part of a request that is its own.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnPart {
    /// Encoded fields, which use no table.
    fields: Vec<u8>,
    pub(super) body: Option<Bytes>,
    /// True if it has all fields of the request: after a redirect.
    is_whole: bool,
}

impl RequestBlocks {
    /// Encodes the requests to one server.
    ///
    /// # Errors
    /// As for requests of HTTP/1.1.
    pub(crate) fn new(
        settings: &Settings,
        server: &ServerUrl,
        names: &Names,
    ) -> Result<Self, Invalid> {
        let text = |text: &str| Template::parse(HEAD, text.as_bytes(), names, Encoding::Field);
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
        let path = Template::parse(
            HEAD,
            path(settings, server)?.as_bytes(),
            names,
            Encoding::Path,
        )?;
        let all = [
            (":method", Template::fixed(&method)),
            (":scheme", Template::fixed(scheme)),
            (":path", path.clone()),
            (":authority", authority.clone()),
        ];
        let all = all.map(|(name, value)| (name.to_owned(), value));
        let all = all.into_iter().chain(regular.iter().cloned());
        let (fixed, own): (Vec<_>, Vec<_>) = all.partition(|(_, value)| value.is_fixed());
        let (fixed, own) = (fixed.into_iter(), own.into_iter());
        let with_name = |(name, value): (String, Template)| {
            let mut encoded = Vec::new();
            hpack::put_name(&mut encoded, LITERAL, &name);
            (encoded, value)
        };
        let fixed: Vec<Field> = fixed
            .map(|(name, value)| (name, value.bytes(Values::from_number(0))))
            .collect();
        let [inserting, indexed] = with_table(&fixed);
        Ok(Self {
            plain: block(&fixed, |_| (LITERAL, None)),
            inserting,
            indexed,
            own: own.map(with_name).collect(),
            is_head: method == "HEAD",
            method,
            scheme,
            path,
            authority,
            fields: regular,
            bodies: bodies(settings, names)?,
        })
    }

    /// Writes the own part of an operation's next request: the first one, or `hop`'s, with the cookies of its path.
    pub(crate) fn write(
        &self,
        values: Values<'_>,
        cookies: &Cookies,
        hop: Option<&RedirectTarget>,
        own: &mut OwnPart,
    ) {
        let out = &mut own.fields;
        out.clear();
        own.is_whole = hop.is_some();
        match hop {
            Some(hop) => self.write_hop(values, hop, out),
            None => {
                for (name, value) in &self.own {
                    out.extend_from_slice(name);
                    put_value(out, value, values);
                }
            }
        }
        let cookie = if cookies.is_empty() {
            String::new()
        } else {
            match hop {
                Some(hop) => cookies.of_path(hop.target().as_bytes()),
                None => cookies.of_path(&self.path.bytes(values)),
            }
        };
        if !cookie.is_empty() {
            put(out, "cookie", cookie.as_bytes());
        }
        let index = (values.number % self.bodies.len().max(1) as u64) as usize;
        let body = self.bodies.get(index);
        let body = body.filter(|_| !hop.is_some_and(|hop| hop.bare));
        own.body = body.map(|body| body.bytes(values));
        if let Some(body) = &own.body {
            hpack::put_name(out, LITERAL, "content-length");
            hpack::put_length(out, body.len().checked_ilog10().unwrap_or(0) as usize + 1);
            push_number(out, body.len());
        }
    }

    fn write_hop(&self, values: Values<'_>, hop: &RedirectTarget, out: &mut Vec<u8>) {
        put(out, ":method", hop.method(&self.method).as_bytes());
        put(out, ":scheme", self.scheme.as_bytes());
        put(out, ":path", hop.target().as_bytes());
        hpack::put_name(out, LITERAL, ":authority");
        put_value(out, &self.authority, values);
        for (name, value) in &self.fields {
            if !(hop.bare && is_of_content(name)) {
                hpack::put_name(out, LITERAL, name);
                put_value(out, value, values);
            }
        }
    }

    /// Appends the block of a request.
    pub(super) fn render(&self, own: &OwnPart, table: &mut Table, out: &mut Vec<u8>) {
        if *table == Table::Reduced {
            hpack::put_integer(out, RESIZED, 0);
            *table = Table::Unused;
        }
        if own.is_whole {
            return out.extend_from_slice(&own.fields);
        }
        let [begin, end] = match *table {
            Table::Empty => {
                *table = Table::Filled;
                &self.inserting
            }
            Table::Filled => &self.indexed,
            _ => &self.plain,
        };
        out.extend_from_slice(begin);
        out.extend_from_slice(&own.fields);
        out.extend_from_slice(end);
    }
}

/// The name and the value of a field that is the same for every operation.
type Field = (String, Bytes);

/// Encodes the block that adds all fields to the table of the server, and the block after it. If the fields do not fit there
/// together, neither uses the table.
fn with_table(fixed: &[Field]) -> [Block; 2] {
    let is_inserted = |field: &&Field| hpack::static_index(&field.0, &field.1).is_none();
    let inserted = fixed.iter().filter(is_inserted);
    let mut left = inserted.clone().count();
    let sizes = inserted.map(|(name, value)| hpack::size(name.as_bytes(), value));
    if sizes.sum::<usize>() > hpack::TABLE_SIZE {
        return [(); 2].map(|()| block(fixed, |_| (LITERAL, None)));
    }
    let indexed = block(fixed, |field| {
        let index = is_inserted(&field).then(|| {
            left -= 1;
            hpack::NEWEST + left
        });
        (LITERAL, index)
    });
    [block(fixed, |_| (INSERTED, None)), indexed]
}

/// Encodes fields: by their index in the static table, by the index that a function returns, or as literals of the kind
/// that it returns.
fn block(
    fixed: &[Field],
    mut choose: impl FnMut(&Field) -> (Representation, Option<usize>),
) -> Block {
    let mut block = Block::default();
    for field in fixed {
        let (name, value) = field;
        let out = &mut block[usize::from(!name.starts_with(':'))];
        let (literal, index) = choose(field);
        if let Some(index) = hpack::static_index(name, value).or(index) {
            hpack::put_integer(out, INDEXED, index);
        } else {
            hpack::put_name(out, literal, name);
            hpack::put_length(out, value.len());
            out.extend_from_slice(value);
        }
    }
    block
}

/// Appends a literal field.
fn put(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    hpack::put_name(out, LITERAL, name);
    hpack::put_length(out, value.len());
    out.extend_from_slice(value);
}

/// Appends the value of a literal field, whose name is there.
fn put_value(out: &mut Vec<u8>, value: &Template, values: Values<'_>) {
    // Its length is known once it is written, and stands before it.
    let begin = out.len();
    value.render(values, out);
    let end = out.len();
    hpack::put_length(out, end - begin);
    let length = out.len() - end;
    out[begin..].rotate_right(length);
}

fn push_number(out: &mut Vec<u8>, number: usize) {
    use std::io::Write as _;
    // A Vec takes all that is written.
    let _ = write!(out, "{number}");
}
