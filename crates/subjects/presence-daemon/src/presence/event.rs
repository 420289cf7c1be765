//! Events: what they tell, and their frames.

use socketio_server::Frame;

use super::json::push_number;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Join,
    Update,
    Leave(Reason),
}

/// The reason of a leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Leave,
    Disconnect,
    Expired,
    NodeDown,
}

impl Reason {
    pub(crate) const ALL: [Self; 4] =
        [Self::Leave, Self::Disconnect, Self::Expired, Self::NodeDown];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::Disconnect => "disconnect",
            Self::Expired => "expired",
            Self::NodeDown => "node_down",
        }
    }
}

/// An event of a room. Texts that are named JSON have their quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) kind: Kind,
    pub(crate) room_json: &'a str,
    pub(crate) user_json: &'a str,
    /// The id of the connection. It needs no escapes.
    pub(crate) conn: &'a str,
    /// The whole state; a leave does not show it.
    pub(crate) state: &'a str,
    pub(crate) ts: u64,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) is_degraded: bool,
}

impl Event<'_> {
    /// Encodes the event for the clients, once for all of them.
    pub(crate) fn to_frame(self, is_compatible: bool) -> Frame {
        Frame::with_event("/", |out| self.write(is_compatible, out))
    }

    fn write(&self, is_compatible: bool, out: &mut Vec<u8>) {
        let (kind, reason) = match self.kind {
            Kind::Join => ("join", None),
            Kind::Update => ("update", None),
            Kind::Leave(reason) => ("leave", Some(reason)),
        };
        push(out, "\"presence:event\",{\"type\":\"");
        push(out, kind);
        push(out, "\",\"roomId\":");
        push(out, self.room_json);
        push(out, ",\"userId\":");
        push(out, self.user_json);
        push(out, ",\"connId\":\"");
        push(out, self.conn);
        push(out, "\",\"state\":");
        push(out, if reason.is_some() { "null" } else { self.state });
        push(out, ",\"ts\":");
        push_number(self.ts, out);
        push(out, ",\"epoch\":");
        push_number(self.epoch, out);
        if !is_compatible {
            push(out, ",\"seq\":");
            push_number(self.seq, out);
            if let Some(reason) = reason {
                push(out, ",\"reason\":\"");
                push(out, reason.as_str());
                push(out, "\"");
            }
            if self.is_degraded {
                push(out, ",\"degraded\":true");
            }
        }
        push(out, "}");
    }
}

/// Appends a text.
pub(crate) fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}
