//! Packets of Engine.IO 4 and Socket.IO 5, as far as a client of one namespace needs them.

/// A packet from the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// The Engine.IO handshake, a JSON object.
    Open(&'a str),
    /// Engine.IO asks for a pong with the same content.
    Ping(&'a str),
    /// Engine.IO or Socket.IO ends the connection.
    Close,
    /// Socket.IO accepted the connection; a JSON object.
    Connected(&'a str),
    /// Socket.IO refused the connection; a JSON object.
    Refused(&'a str),
    /// An event; a JSON array.
    Event(&'a str),
    /// An acknowledgement with its id; a JSON array.
    Ack(u64, &'a str),
    /// A packet that a client need not understand: a pong, a noop, a binary event, another namespace.
    Ignored,
}

/// A packet that breaks the protocol.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("an empty packet")]
    Empty,
    #[error("a packet of the unknown type `{0}`")]
    Type(char),
    #[error("an acknowledgement without an id")]
    AckId,
}

impl<'a> Packet<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, Malformed> {
        let mut letters = text.chars();
        let kind = letters.next().ok_or(Malformed::Empty)?;
        let rest = letters.as_str();
        match kind {
            '0' => Ok(Self::Open(rest)),
            '1' => Ok(Self::Close),
            '2' => Ok(Self::Ping(rest)),
            '3' | '5' | '6' => Ok(Self::Ignored),
            '4' => Self::parse_message(rest),
            other => Err(Malformed::Type(other)),
        }
    }

    fn parse_message(text: &'a str) -> Result<Self, Malformed> {
        let mut letters = text.chars();
        let kind = letters.next().ok_or(Malformed::Empty)?;
        let Some(rest) = in_main_namespace(letters.as_str()) else {
            return Ok(Self::Ignored);
        };
        match kind {
            '0' => Ok(Self::Connected(rest)),
            '1' => Ok(Self::Close),
            // The server may ask for an acknowledgement of its event; no event of the protocol does.
            '2' => Ok(Self::Event(split_id(rest).1)),
            '3' => {
                let (id, payload) = split_id(rest);
                let id = id.parse().map_err(|_| Malformed::AckId)?;
                Ok(Self::Ack(id, payload))
            }
            '4' => Ok(Self::Refused(rest)),
            '5' | '6' => Ok(Self::Ignored),
            other => Err(Malformed::Type(other)),
        }
    }
}

/// Returns the text behind the namespace, or `None` if it is not `/`.
fn in_main_namespace(text: &str) -> Option<&str> {
    if !text.starts_with('/') {
        return Some(text);
    }
    let (namespace, rest) = text.split_once(',').unwrap_or((text, ""));
    (namespace == "/").then_some(rest)
}

fn split_id(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_the_protocol_is_read() {
        for (text, packet) in [
            (r#"0{"sid":"a"}"#, Packet::Open(r#"{"sid":"a"}"#)),
            ("2", Packet::Ping("")),
            ("2probe", Packet::Ping("probe")),
            ("1", Packet::Close),
            ("41", Packet::Close),
            (r#"40{"sid":"b"}"#, Packet::Connected(r#"{"sid":"b"}"#)),
            (
                r#"44{"message":"no"}"#,
                Packet::Refused(r#"{"message":"no"}"#),
            ),
            (r#"42["e",1]"#, Packet::Event(r#"["e",1]"#)),
            (r#"4217["e",1]"#, Packet::Event(r#"["e",1]"#)),
            (r#"42/,["e",1]"#, Packet::Event(r#"["e",1]"#)),
            (
                r#"43120[{"ok":true}]"#,
                Packet::Ack(120, r#"[{"ok":true}]"#),
            ),
            ("6", Packet::Ignored),
            (r#"42/admin,["e"]"#, Packet::Ignored),
            (r#"451-["e",{}]"#, Packet::Ignored),
        ] {
            assert_eq!(Packet::parse(text), Ok(packet), "{text}");
        }
    }

    #[test]
    fn a_malformed_packet_is_an_error() {
        for text in ["", "4", "x", "9", "43[]", "47", "é"] {
            assert!(Packet::parse(text).is_err(), "{text}");
        }
    }
}
