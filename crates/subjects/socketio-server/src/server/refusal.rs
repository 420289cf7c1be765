//! Requests that are refused, with the codes of Engine.IO.

use hyper::StatusCode;

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    UnknownTransport,
    UnknownSession,
    BadMethod,
    BadRequest,
    UnsupportedVersion,
    /// The page that asks is of an origin that may not use the server.
    ForeignOrigin,
    /// The server has all the sessions that it may have.
    Full,
    /// The server stops.
    Stopping,
    TooLarge,
}

impl Refusal {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Full | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ForeignOrigin => StatusCode::FORBIDDEN,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    /// Returns the body: the code and the message that clients of Engine.IO know.
    pub(crate) fn body(self) -> String {
        let (code, message) = match self {
            Self::UnknownTransport => (0, "Transport unknown"),
            Self::UnknownSession => (1, "Session ID unknown"),
            Self::BadMethod => (2, "Bad handshake method"),
            Self::BadRequest => (3, "Bad request"),
            Self::Full => (4, "Too many connections"),
            Self::Stopping => (4, "The server is shutting down"),
            Self::TooLarge => (3, "Payload too large"),
            Self::ForeignOrigin => (4, "Origin not allowed: see cors_origin"),
            Self::UnsupportedVersion => (5, "Unsupported protocol version"),
        };
        serde_json::json!({ "code": code, "message": message }).to_string()
    }
}
