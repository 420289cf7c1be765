//! Sender-selected distribution: routing keys in the headers `CC` and `BCC` of a message, in addition to its own key
//! (as RabbitMQ).

use amq_protocol::types::parsing::{parse_short_string, parse_value};
use amq_protocol::types::{AMQPValue, FieldTable};
use memchr::memmem;

use crate::failure::{Result, frame_error, precondition_failed};
use crate::frame::is_too_deep;

/// An additional routing key.
pub(crate) type Key = Box<[u8]>;

/// The routing keys in the headers of a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CarbonCopies {
    /// The keys of `CC`, then of `BCC`.
    pub(crate) keys: Vec<Key>,
    /// The position of `BCC` among the headers: consumers must not see it.
    pub(crate) hidden: Option<std::ops::Range<usize>>,
}

impl CarbonCopies {
    /// Parses a table of headers as received, including its length.
    ///
    /// # Errors
    /// 406 if one of the two is not an array; 501 for unreadable headers.
    pub(crate) fn read(headers: &[u8]) -> Result<Self> {
        // This also matches inside values, which only costs a walk over the headers.
        if memmem::find(headers, b"CC").is_none() {
            return Ok(Self::default());
        }
        if is_too_deep(headers) {
            return Err(frame_error("tables within tables within tables"));
        }
        let malformed = || frame_error("malformed headers");
        let (mut open, mut blind) = (Vec::new(), Vec::new());
        let mut hidden = None;
        let mut rest = headers.get(4..).ok_or_else(malformed)?;
        while !rest.is_empty() {
            let start = headers.len() - rest.len();
            let (after, name) = parse_short_string(rest).map_err(|_| malformed())?;
            let (after, value) = parse_value(after).map_err(|_| malformed())?;
            rest = after;
            match name.as_str() {
                "CC" => open = keys("CC", &value)?,
                "BCC" => {
                    blind = keys("BCC", &value)?;
                    hidden = Some(start..headers.len() - rest.len());
                }
                _ => {}
            }
        }
        open.append(&mut blind);
        Ok(Self { keys: open, hidden })
    }
}

/// Returns the keys in the header `CC` of a queued message; none if it is not an array.
pub(crate) fn open_keys(headers: &FieldTable) -> Vec<Key> {
    let found = headers.inner().get("CC");
    found
        .and_then(|value| keys("CC", value).ok())
        .unwrap_or_default()
}

/// Returns the strings of an array. Other values are ignored, and so are strings that are not valid routing keys.
fn keys(name: &str, value: &AMQPValue) -> Result<Vec<Key>> {
    let AMQPValue::FieldArray(array) = value else {
        return Err(precondition_failed(format_args!(
            "invalid message: {{unacceptable_type_in_header,\"{name}\"}}"
        )));
    };
    let texts = array.as_slice().iter().filter_map(|value| match value {
        AMQPValue::LongString(key) if key.as_bytes().len() <= 255 => Some(key.as_bytes().into()),
        _ => None,
    });
    Ok(texts.collect())
}

#[cfg(test)]
mod tests {
    use amq_protocol::types::generation::gen_field_table;
    use proptest::prelude::*;

    use super::*;

    fn array(keys: &[&str]) -> AMQPValue {
        let keys = keys.iter().map(|key| AMQPValue::LongString((*key).into()));
        AMQPValue::FieldArray(keys.collect::<Vec<_>>().into())
    }

    fn encode(entries: &[(&str, AMQPValue)]) -> Vec<u8> {
        let mut table = FieldTable::default();
        for (name, value) in entries {
            table.insert((*name).into(), value.clone());
        }
        let written = gen_field_table(&table)(Vec::new().into()).unwrap();
        written.into_inner().0
    }

    #[test]
    fn both_are_read_and_the_blind_one_is_to_be_hidden() {
        let all = [
            ("A", AMQPValue::LongInt(1)),
            ("BCC", array(&["c"])),
            ("CC", array(&["a", "b"])),
        ];
        let headers = encode(&all);
        let found = CarbonCopies::read(&headers).unwrap();
        let keys: Vec<&[u8]> = found.keys.iter().map(|key| &**key).collect();
        assert_eq!(keys, [b"a", b"b", b"c"]);
        let mut open = headers.clone();
        open.drain(found.hidden.unwrap());
        let rest = encode(&[all[0].clone(), all[2].clone()]);
        assert_eq!(open[4..], rest[4..]);
    }

    #[test]
    fn copies_that_are_not_an_array_are_refused() {
        for name in ["CC", "BCC"] {
            let headers = encode(&[(name, AMQPValue::LongInt(1))]);
            assert_eq!(CarbonCopies::read(&headers).unwrap_err().code, 406);
        }
        let headers = encode(&[("x", AMQPValue::LongString("CC".into()))]);
        let none = CarbonCopies::default();
        assert_eq!(CarbonCopies::read(&headers).unwrap(), none);
    }

    proptest! {
        #[test]
        fn any_bytes_have_copies_or_an_error(mut headers: Vec<u8>, at: usize) {
            let at = at % (headers.len() + 1);
            headers.splice(at..at, *b"\x02CCA");
            let _ = CarbonCopies::read(&headers);
        }
    }
}
