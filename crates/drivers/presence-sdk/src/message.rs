//! Requests, answers and events of the presence protocol on the wire.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The name of the join request.
pub(crate) const JOIN: &str = "presence:join";
/// The name of the heartbeat request.
pub(crate) const HEARTBEAT: &str = "presence:heartbeat";
/// The name of the leave request.
pub(crate) const LEAVE: &str = "presence:leave";

/// The argument of a join.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JoinRequest<'a> {
    pub(crate) room_id: &'a str,
    pub(crate) user_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resume: Option<&'a str>,
}

pub(crate) fn join_frame(id: u64, request: &JoinRequest<'_>) -> String {
    let argument = serde_json::to_string(request).expect("text and JSON serialize");
    format!("42{id}[\"{JOIN}\",{argument}]")
}

pub(crate) fn heartbeat_frame(id: u64, patch: Option<&str>, epoch: u64) -> String {
    match patch {
        Some(patch) => {
            format!("42{id}[\"{HEARTBEAT}\",{{\"patchState\":{patch},\"epoch\":{epoch}}}]")
        }
        None => format!("42{id}[\"{HEARTBEAT}\",{{\"epoch\":{epoch}}}]"),
    }
}

pub(crate) fn leave_frame(id: u64) -> String {
    format!("42{id}[\"{LEAVE}\",null]")
}

/// The answer to any request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer<'a> {
    pub(crate) ok: bool,
    #[serde(default)]
    pub(crate) changed: bool,
    #[serde(default)]
    pub(crate) epoch: u64,
    #[serde(default)]
    pub(crate) degraded: bool,
    #[serde(default)]
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) code: Option<String>,
    #[serde(default, borrow)]
    pub(crate) snapshot: Option<Vec<WireMember<'a>>>,
    #[serde(default, borrow, rename = "self")]
    pub(crate) own: Option<Own<'a>>,
    #[serde(default)]
    pub(crate) seq: Option<u64>,
    #[serde(default)]
    pub(crate) resume: Option<Box<str>>,
    #[serde(default)]
    pub(crate) resumed: bool,
}

/// The member that the server made of this client.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Own<'a> {
    #[serde(borrow)]
    pub(crate) conn_id: Cow<'a, str>,
    pub(crate) epoch: u64,
}

/// A member in a snapshot.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireMember<'a> {
    #[serde(borrow)]
    pub(crate) conn_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) user_id: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) state: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) last_seen_ms: u64,
    #[serde(default)]
    pub(crate) epoch: u64,
}

/// A `presence:event`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) room_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) user_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) conn_id: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) state: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) ts: u64,
    #[serde(default)]
    pub(crate) epoch: u64,
    #[serde(default)]
    pub(crate) seq: Option<u64>,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) degraded: bool,
}

/// Parses the arguments of an acknowledgement: the first is the answer.
pub(crate) fn parse_answer(payload: &str) -> Result<Answer<'_>, serde_json::Error> {
    serde_json::from_str::<Acknowledged<'_>>(payload).map(|acknowledged| acknowledged.0)
}

/// Parses an event. Returns `None` if it is not of the presence protocol.
pub(crate) fn parse_event(payload: &str) -> Result<Option<WireEvent<'_>>, serde_json::Error> {
    serde_json::from_str::<Emitted<'_>>(payload).map(|emitted| emitted.0)
}

struct Acknowledged<'a>(Answer<'a>);

impl<'de> Deserialize<'de> for Acknowledged<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Arguments;
        impl<'de> Visitor<'de> for Arguments {
            type Value = Acknowledged<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array that begins with the answer")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let answer = items.next_element()?;
                let answer = answer.ok_or_else(|| serde::de::Error::invalid_length(0, &self))?;
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Acknowledged(answer))
            }
        }
        deserializer.deserialize_seq(Arguments)
    }
}

struct Emitted<'a>(Option<WireEvent<'a>>);

/// Returns true if the name of an event is the protocol's. A number is a name, too.
fn is_presence(name: &RawValue) -> Result<bool, serde_json::Error> {
    let text = name.get();
    if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return Ok(false);
    }
    // A name may have escapes.
    Ok(text == r#""presence:event""# || serde_json::from_str::<String>(text)? == "presence:event")
}

impl<'de> Deserialize<'de> for Emitted<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Arguments;
        impl<'de> Visitor<'de> for Arguments {
            type Value = Emitted<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array of a name and arguments")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let too_short = |length| serde::de::Error::invalid_length(length, &Arguments);
                let name: &RawValue = items.next_element()?.ok_or_else(|| too_short(0))?;
                let event = if is_presence(name).map_err(serde::de::Error::custom)? {
                    Some(items.next_element()?.ok_or_else(|| too_short(1))?)
                } else {
                    None
                };
                while items.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Emitted(event))
            }
        }
        deserializer.deserialize_seq(Arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_with_its_state_as_text() {
        let text = r#"["presence:event",{"type":"update","roomId":"r","userId":"u","connId":"c","state":{"n": 1},"ts":5,"epoch":6,"seq":7,"new":[]},9]"#;
        let event = parse_event(text).unwrap().unwrap();
        assert_eq!(event.kind, "update");
        assert_eq!(event.state.unwrap().get(), r#"{"n": 1}"#);
        assert_eq!((event.ts, event.epoch, event.seq), (5, 6, Some(7)));
        assert!(matches!(event.conn_id, Cow::Borrowed("c")));
    }

    #[test]
    fn another_event_is_none() {
        for text in [r#"["metadata:event",{"type":[[]]}]"#, "[7,{}]", "[-1.5]"] {
            assert!(parse_event(text).unwrap().is_none(), "{text}");
        }
        let escaped = r#"["presence\u003aevent",3]"#;
        assert!(parse_event(escaped).is_err());
    }

    #[test]
    fn malformed_arguments_are_errors() {
        for text in [
            "",
            "{}",
            "[]",
            "[null]",
            r#"["presence:event"]"#,
            r#"["presence:event",3]"#,
        ] {
            assert!(parse_event(text).is_err(), "{text}");
        }
        for text in ["", "[]", "[null]", r#"[{"ok":1}]"#, r#"[{"ok":true}"#] {
            assert!(parse_answer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn frames_are_as_the_protocol_has_them() {
        assert_eq!(
            heartbeat_frame(3, Some(r#"{"n":1}"#), 9),
            r#"423["presence:heartbeat",{"patchState":{"n":1},"epoch":9}]"#
        );
        assert_eq!(
            heartbeat_frame(4, None, 9),
            r#"424["presence:heartbeat",{"epoch":9}]"#
        );
        assert_eq!(leave_frame(5), r#"425["presence:leave",null]"#);
        let request = JoinRequest {
            room_id: "a\"b",
            user_id: "u",
            state: None,
            resume: Some("t"),
        };
        assert_eq!(
            join_frame(0, &request),
            r#"420["presence:join",{"roomId":"a\"b","userId":"u","resume":"t"}]"#
        );
    }
}
