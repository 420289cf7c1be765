//! Reads the packets of Socket.IO 5.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Attachments that a packet may announce.
const MAX_ATTACHMENTS: usize = 64;

/// Names that no event may have: client libraries use them for local events.
const RESERVED_NAMES: [&str; 6] = [
    "connect",
    "connect_error",
    "disconnect",
    "disconnecting",
    "newListener",
    "removeListener",
];

/// The kinds of packets that a client may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Connect,
    Disconnect,
    Event,
    Ack,
}

/// A packet, before its attachments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) kind: Kind,
    pub(crate) attachments: usize,
    pub(crate) namespace: &'a str,
    pub(crate) id: Option<u64>,
    /// The JSON; empty if there is none.
    pub(crate) data: &'a str,
}

impl<'a> Packet<'a> {
    /// Parses a packet: `<kind>[<attachments>-][/<namespace>,][<id>][<JSON>]`. `None` if it is malformed.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (&kind, _) = text.as_bytes().split_first()?;
        let (kind, is_binary) = match kind {
            b'0' => (Kind::Connect, false),
            b'1' => (Kind::Disconnect, false),
            b'2' => (Kind::Event, false),
            b'3' => (Kind::Ack, false),
            b'5' => (Kind::Event, true),
            b'6' => (Kind::Ack, true),
            _ => return None,
        };
        let mut rest = &text[1..];
        let mut attachments = 0;
        if is_binary {
            let (count, after) = rest.split_once('-')?;
            attachments = parse_number(count)?.try_into().ok()?;
            if attachments > MAX_ATTACHMENTS {
                return None;
            }
            rest = after;
        }
        let mut namespace = "/";
        if rest.starts_with('/') {
            (namespace, rest) = rest.split_once(',').unwrap_or((rest, ""));
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (id, data) = rest.split_at(digits);
        let id = match id {
            "" => None,
            id => Some(parse_number(id)?),
        };
        Some(Self {
            kind,
            attachments,
            namespace,
            id,
            data,
        })
    }
}

/// Parses a number of digits alone, which Rust's own parser does not insist on.
fn parse_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Splits the data of an event into its name and its arguments, after checking that it is JSON. `None` if it is
/// malformed, or if the name is reserved.
pub(crate) fn split_event(data: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut json = serde_json::Deserializer::from_str(data);
    let name = json.deserialize_seq(EventVisitor).ok()?;
    json.end().ok()?;
    // The name is the first value of the array, so only white space and the bracket precede it.
    let start = data.find('"')?;
    let rest = data[start + name.len()..].trim_end();
    let rest = rest.strip_suffix(']')?.trim();
    let arguments = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    let name = if name.contains('\\') {
        Cow::Owned(serde_json::from_str(name).ok()?)
    } else {
        Cow::Borrowed(&name[1..name.len() - 1])
    };
    (!RESERVED_NAMES.contains(&name.as_ref())).then_some((name, arguments))
}

/// Returns true if the data belongs to an event whose name is a number, which Socket.IO allows.
pub(crate) fn has_numeric_name(data: &str) -> bool {
    let first = data.trim_start().strip_prefix('[').unwrap_or_default();
    let begins_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    first
        .trim_start()
        .as_bytes()
        .first()
        .is_some_and(begins_number)
        && serde_json::from_str::<&RawValue>(data).is_ok()
}

/// Returns true if the data is an array, as an acknowledgement's.
pub(crate) fn is_array(data: &str) -> bool {
    data.starts_with('[') && serde_json::from_str::<&RawValue>(data).is_ok()
}

/// Reads an array, and returns its first value, a string.
struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = &'de str;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array that begins with the name of an event")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let name: Option<&RawValue> = values.next_element()?;
        let name = name.map(RawValue::get).filter(|name| name.starts_with('"'));
        let name = name.ok_or_else(|| serde::de::Error::custom("the name is missing"))?;
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_part_of_a_packet_may_be_absent() {
        let packet = |kind, attachments, namespace, id, data| Packet {
            kind,
            attachments,
            namespace,
            id,
            data,
        };
        for (text, expected) in [
            ("0", packet(Kind::Connect, 0, "/", None, "")),
            ("0{}", packet(Kind::Connect, 0, "/", None, "{}")),
            ("0/a", packet(Kind::Connect, 0, "/a", None, "")),
            ("0/a,{}", packet(Kind::Connect, 0, "/a", None, "{}")),
            ("1/a,", packet(Kind::Disconnect, 0, "/a", None, "")),
            (r#"2["a"]"#, packet(Kind::Event, 0, "/", None, r#"["a"]"#)),
            (
                r#"2/b,12["a"]"#,
                packet(Kind::Event, 0, "/b", Some(12), r#"["a"]"#),
            ),
            ("61-7[{}]", packet(Kind::Ack, 1, "/", Some(7), "[{}]")),
        ] {
            assert_eq!(Packet::parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn malformed_packets_are_refused() {
        for text in [
            "",
            "4",
            "7",
            "a",
            "5",
            "5-[]",
            "5+1-[]",
            "599-[]",
            "299999999999999999999[]",
            "é",
        ] {
            assert_eq!(Packet::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_event_is_split_at_its_name() {
        for (data, name, arguments) in [
            (r#"["a"]"#, "a", ""),
            (r#"["a",1,"2",{"3":[true]}]"#, "a", r#"1,"2",{"3":[true]}"#),
            (" [ \"a\" , {} ] ", "a", "{}"),
            (r#"["a\n\"",[]]"#, "a\n\"", "[]"),
            (r#"["é","é"]"#, "é", r#""é""#),
        ] {
            let (found, rest) = split_event(data).unwrap();
            assert_eq!((&*found, rest), (name, arguments), "{data}");
        }
    }

    #[test]
    fn events_without_a_name_or_of_broken_json_are_refused() {
        for data in [
            "",
            "[]",
            "[1]",
            "[null]",
            "{}",
            r#""a""#,
            r#"["a""#,
            r#"["a",]"#,
            r#"["a"]]"#,
            r#"["a" 1]"#,
            r#"["disconnect",1]"#,
        ] {
            assert_eq!(split_event(data), None, "{data}");
            assert_eq!(has_numeric_name(data), data == "[1]", "{data}");
        }
        assert!(has_numeric_name(" [ -1.5 , {} ]"));
        assert!(!has_numeric_name("[1,]"));
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!(r#"["a",{}{}]"#, "[".repeat(400_000), "]".repeat(400_000));
        let (_, arguments) = split_event(&deep).unwrap();
        assert_eq!(arguments.len(), 800_000);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(
            head in "[0-6]?[0-9]{0,3}-?(/[a-z,]*)?[0-9]{0,2}",
            data in "[\\[\\]\"{},a-z 0-9\\\\é]{0,20}",
        ) {
            let text = head + &data;
            if let Some(packet) = Packet::parse(&text) {
                let _ = split_event(packet.data);
            }
        }
    }
}
