//! JSON pointers (RFC 6901), found in one pass over a text.

use std::borrow::Cow;

use load::plan::Invalid;

use crate::protocol::ProtocolError;
use crate::protocol::json::Scanner;

/// A JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    key: String,
    /// The same as an index of an array.
    index: Option<usize>,
}

impl Pointer {
    /// Parses a pointer such as `/0/user`; `field` is where it stands.
    ///
    /// # Errors
    /// It does not begin with `/`.
    pub(crate) fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let segments = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(|key| {
                let key = key.replace("~1", "/").replace("~0", "~");
                // RFC 6901 has no index with a sign or leading zeros.
                let index = key.parse().ok();
                let index = index.filter(|index: &usize| index.to_string() == key);
                Segment { key, index }
            }),
            None => {
                let problem =
                    format!("`{text}` is not a JSON pointer: begin it with /, such as /0/ok");
                return Err(Invalid::new(field, problem));
            }
        };
        Ok(Self(segments.collect()))
    }

    /// Returns the same pointer for an array in which the name of an event comes before the arguments.
    pub(crate) fn behind_name(mut self) -> Self {
        for segment in self.0.iter_mut().take(1) {
            segment.index = segment.index.and_then(|index| index.checked_add(1));
        }
        self
    }
}

/// The number of pointers that are found at once.
const MOST: usize = 2;

/// Finds the values of pointers in one JSON value: their texts, or `None` for those that point to nothing.
///
/// # Errors
/// It is not JSON.
pub(crate) fn find<'a, const N: usize>(
    json: &'a str,
    pointers: [&Pointer; N],
) -> Result<[Option<&'a str>; N], ProtocolError> {
    const { assert!(N <= MOST) };
    let mut found = [None; N];
    walk(
        &mut Scanner::new(json),
        &pointers,
        (1 << N) - 1,
        0,
        &mut found,
    )?;
    Ok(found)
}

/// Reads the next value. The bits of `live` are the pointers that lead into it, with `depth` segments behind them.
fn walk<'a>(
    value: &mut Scanner<'a>,
    pointers: &[&Pointer],
    live: u8,
    depth: usize,
    found: &mut [Option<&'a str>],
) -> Result<(), ProtocolError> {
    let select = |is_it: &dyn Fn(&Pointer) -> bool| {
        let bits = pointers.iter().enumerate();
        let bits = bits.filter(|(bit, pointer)| live & 1 << bit != 0 && is_it(pointer));
        bits.fold(0, |bits, (bit, _)| bits | 1 << bit)
    };
    let ends = select(&|pointer| pointer.0.len() == depth);
    if ends != 0 {
        let text = value.skip()?;
        let all = found.iter_mut().enumerate();
        all.filter(|(bit, _)| ends & 1 << bit != 0)
            .for_each(|(_, found)| *found = Some(text));
        return match live & !ends {
            0 => Ok(()),
            deeper => walk(&mut Scanner::new(text), pointers, deeper, depth, found),
        };
    }
    let mut enter = |value: &mut Scanner<'a>, live: u8| match live {
        0 => value.skip().map(drop),
        live => walk(value, pointers, live, depth + 1, found),
    };
    match value.peek() {
        b'{' => value.object(|key, value| {
            let live = select(&|pointer| pointer.0[depth].key == key);
            enter(value, live)
        }),
        b'[' => {
            let mut index = 0;
            value.array(|value| {
                let live = select(&|pointer| pointer.0[depth].index == Some(index));
                index += 1;
                enter(value, live)
            })
        }
        _ => value.skip().map(drop),
    }
}

/// Returns a JSON value as a text: a string without its quotes, everything else as it is.
pub(crate) fn text(json: &str) -> Cow<'_, str> {
    match Scanner::new(json).string() {
        Ok(text) => text,
        Err(_) => Cow::Borrowed(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_as_serde_json_finds_them() {
        let json = r#" ["chat", {"user" : "a\"b", "n": 7, "in": [{"x/y": null}, -1.5e3], "n2": {"~": []}}, true]"#;
        let parsed: serde_json::Value = serde_json::from_str(json).unwrap();
        let pointers = [
            "/0",
            "/1",
            "/1/user",
            "/1/n",
            "/1/in/0/x~1y",
            "/1/in/1",
            "/1/n2/~0",
            "/2",
            "/3",
            "/1/no",
            "/0/0",
            "/1/in/2",
            "/1/in",
            "/01",
            "/+1",
            "/1/in/-",
        ];
        for first in pointers {
            for second in pointers {
                let [a, b] = [first, second].map(|text| Pointer::parse("pointer", text).unwrap());
                let found = find(json, [&a, &b]).unwrap();
                for (text, found) in [first, second].into_iter().zip(found) {
                    let found = found.map(|text| serde_json::from_str(text).unwrap());
                    assert_eq!(found.as_ref(), parsed.pointer(text), "{first} {second}");
                }
            }
        }
        assert_eq!(text(r#""a\"b""#), "a\"b");
        assert_eq!(text("7"), "7");
        let n = Pointer::parse("pointer", "/n").unwrap();
        assert!(find("{\"n\":", [&n]).is_err());
        let error = Pointer::parse("driver.x", "n").unwrap_err().to_string();
        assert!(error.contains("driver.x") && error.contains("begin it with /"));
    }
}
