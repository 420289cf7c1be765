//! Socket.IO 5 packets: `<type>[<attachments>-][<namespace>,][<acknowledgement id>][<JSON>]`.

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// The type of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Connect,
    Disconnect,
    Event,
    Ack,
    ConnectError,
    BinaryEvent,
    BinaryAck,
}

/// A packet from the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packet {
    pub(crate) kind: Kind,
    /// The number of binary messages that follow.
    pub(crate) attachment_count: usize,
    /// The binary messages.
    pub(crate) attachments: Vec<Vec<u8>>,
    pub(crate) namespace: String,
    pub(crate) id: Option<u64>,
    /// `Null` if absent.
    pub(crate) data: Value,
}

impl Packet {
    /// Parses the text of a packet, without the `4` of Engine.IO.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        Self::parse_inner(text).with_context(|| format!("the packet {text:?}"))
    }

    fn parse_inner(text: &str) -> anyhow::Result<Self> {
        let mut rest = text;
        let kind = Kind::parse(rest.as_bytes().first().copied())?;
        rest = &rest[1..];
        let mut attachment_count = 0;
        if matches!(kind, Kind::BinaryEvent | Kind::BinaryAck) {
            let (count, after) = rest.split_once('-').context("no number of attachments")?;
            attachment_count = count.parse().context("the number of attachments")?;
            rest = after;
        }
        let mut namespace = "/".to_owned();
        if rest.starts_with('/') {
            let (name, after) = rest.split_once(',').unwrap_or((rest, ""));
            namespace = name.to_owned();
            rest = after;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (id, json) = rest.split_at(digits);
        let id = (!id.is_empty()).then(|| id.parse()).transpose()?;
        let data = match json {
            "" => Value::Null,
            json => serde_json::from_str(json).context("its JSON")?,
        };
        Ok(Self {
            kind,
            attachment_count,
            attachments: Vec::new(),
            namespace,
            id,
            data,
        })
    }

    /// Returns the arguments of an event or an acknowledgement.
    pub(crate) fn arguments(&self) -> anyhow::Result<&[Value]> {
        let array = self.data.as_array();
        let array = array.with_context(|| format!("{} is no array", self.data))?;
        match self.kind {
            Kind::Event | Kind::BinaryEvent => {
                ensure!(
                    array.first().is_some_and(Value::is_string),
                    "an event without a name"
                );
                Ok(&array[1..])
            }
            _ => Ok(array),
        }
    }

    /// Returns the name of an event.
    pub(crate) fn event_name(&self) -> Option<&str> {
        let is_event = matches!(self.kind, Kind::Event | Kind::BinaryEvent);
        self.data.get(0)?.as_str().filter(|_| is_event)
    }
}

impl Kind {
    fn parse(digit: Option<u8>) -> anyhow::Result<Self> {
        Ok(match digit {
            Some(b'0') => Self::Connect,
            Some(b'1') => Self::Disconnect,
            Some(b'2') => Self::Event,
            Some(b'3') => Self::Ack,
            Some(b'4') => Self::ConnectError,
            Some(b'5') => Self::BinaryEvent,
            Some(b'6') => Self::BinaryAck,
            _ => bail!("an unknown type"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_part_of_a_packet_is_optional_but_its_type() {
        let packet = Packet::parse(r#"52-/custom,13["a",{"_placeholder":true,"num":0}]"#).unwrap();
        assert_eq!(packet.kind, Kind::BinaryEvent);
        assert_eq!((packet.attachment_count, packet.id), (2, Some(13)));
        assert_eq!(
            (&*packet.namespace, packet.event_name()),
            ("/custom", Some("a"))
        );
        assert_eq!(packet.arguments().unwrap().len(), 1);
        let packet = Packet::parse("30[1]").unwrap();
        assert_eq!((packet.kind, packet.id), (Kind::Ack, Some(0)));
        assert_eq!(packet.arguments().unwrap(), [json!(1)]);
        let packet = Packet::parse("1/custom,").unwrap();
        assert_eq!(
            (packet.kind, &*packet.namespace),
            (Kind::Disconnect, "/custom")
        );
        assert_eq!(packet.data, Value::Null);
        for wrong in ["", "7", "5[]", "2[", "2nonsense"] {
            assert!(Packet::parse(wrong).is_err(), "{wrong}");
        }
    }
}
