//! Errors of the server against the protocols, by the names that are counted.

use std::fmt;

use load::net::http1::ResponseError;

macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $name:ident = $kind:literal, $text:literal;)+) => {
        /// An error of the server against a protocol. Nothing after it can be read from the connection.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProtocolError {
            $($(#[doc = $doc])+ $name,)+
        }

        impl ProtocolError {
            /// All errors.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the name that the error is counted by.
            #[must_use]
            pub const fn kind(self) -> &'static str {
                match self {
                    $(Self::$name => $kind,)+
                }
            }

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

errors! {
    /// The head of an HTTP response can't be parsed, or is too large.
    Head = "protocol_http_head", "the head of an HTTP response is malformed or too large";
    /// The body of an HTTP response has a wrong length, coding or chunk.
    Body = "protocol_http_body", "the body of an HTTP response has an invalid length, coding or chunk";
    /// Data came that no request asked for.
    Unrequested = "protocol_http_unrequested", "an HTTP response came without a request";
    /// A WebSocket handshake has no valid `Upgrade` and `Connection`, or an extension or subprotocol not offered.
    Handshake = "protocol_ws_handshake", "the WebSocket handshake has wrong fields";
    /// `Sec-WebSocket-Accept` does not fit the key.
    Accept = "protocol_ws_accept", "Sec-WebSocket-Accept does not fit the key";
    /// A frame has a reserved bit.
    ReservedBits = "protocol_ws_reserved_bits", "a WebSocket frame has a reserved bit set";
    /// A frame has a reserved opcode.
    Opcode = "protocol_ws_opcode", "a WebSocket frame has a reserved opcode";
    /// The server masked a frame.
    Masked = "protocol_ws_masked", "a WebSocket frame of the server is masked";
    /// A control frame is fragmented or longer than 125 bytes.
    Control = "protocol_ws_control", "a WebSocket control frame is fragmented or longer than 125 bytes";
    /// A length is not encoded in the shortest form, or has its highest bit set.
    Length = "protocol_ws_length", "the length of a WebSocket frame is encoded wrongly";
    /// A continuation without a beginning, or a beginning inside a fragmented message.
    Continuation = "protocol_ws_continuation", "a WebSocket fragment is out of sequence";
    /// A text message or a close reason is not UTF-8.
    Utf8 = "protocol_utf8", "a text message is not UTF-8";
    /// A close frame has a payload of one byte, or a code that must not be sent.
    CloseCode = "protocol_ws_close_code", "a WebSocket close frame has an invalid code";
    /// A message exceeds the limit.
    TooLarge = "protocol_too_large", "a message exceeds the limit of its size";
    /// An Engine.IO packet has an unknown type, or is one that a server must not send now.
    EnginePacket = "protocol_engine_packet", "an Engine.IO packet is malformed or unexpected";
    /// The first packet is not a valid `open` packet.
    Open = "protocol_open", "the Engine.IO handshake is malformed";
    /// A probe of an upgrade was not answered with `3probe`.
    Probe = "protocol_probe", "the probe of the upgrade was answered wrongly";
    /// A Socket.IO packet is malformed.
    SocketPacket = "protocol_socket_packet", "a Socket.IO packet is malformed";
    /// The argument of an event or an acknowledgement is not JSON, or a field has the wrong type.
    Json = "protocol_json", "an argument is not JSON, or a field has a wrong type";
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl std::error::Error for ProtocolError {}

impl From<ResponseError> for ProtocolError {
    fn from(fault: ResponseError) -> Self {
        match fault {
            ResponseError::Length
            | ResponseError::Chunk
            | ResponseError::Trailer
            | ResponseError::Coding => Self::Body,
            _ => Self::Head,
        }
    }
}
