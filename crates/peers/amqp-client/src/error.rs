//! Why there is no connection, and what to do about it.

use std::io;

use load::plan::Invalid;
use load::redact;
use nix::errno::Errno;
use tls_client::{describe, tls_error};

use crate::broker::Broker;
use crate::session::REPLY_TIMEOUT;

/// The reason why there is no connection, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// An error of the socket.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The broker closed the socket without a close frame. Holds the step as a part of the message, which may be empty.
    #[error("the broker closed the connection{0} without a close frame")]
    Silent(&'static str),
    /// The broker sent connection.close.
    #[error("the broker answered {code} {text}")]
    Closed {
        /// The reply code.
        code: u16,
        /// The reply text.
        text: String,
    },
    /// The broker sent channel.close.
    #[error("the broker answered {code} {text} to {what}")]
    Channel {
        /// The reply code.
        code: u16,
        /// The reply text.
        text: String,
        /// The method that it answered.
        what: String,
    },
    /// The connection has no channel left: the broker, or `channel_max` of the address, grants fewer.
    #[error("one connection is granted fewer channels")]
    ChannelLimit,
    /// The broker violated the protocol.
    #[error("{0}")]
    Protocol(String),
}

impl SessionError {
    /// Returns the kernel's error, if it is one.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Io(error) => error.raw_os_error().map(Errno::from_raw),
            _ => None,
        }
    }

    /// Returns the reply code, if the broker gave one (AMQP 0-9-1, 1.1, and RabbitMQ's own).
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Closed { code, .. } | Self::Channel { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl Broker {
    /// Adds the remedy to an error of a connection or call.
    #[must_use]
    pub fn explain(&self, error: &SessionError) -> Invalid {
        let remedy = match (error, error.code()) {
            (SessionError::Io(io), _) if io.kind() == io::ErrorKind::ConnectionRefused => {
                "no process listens there: start the broker, or leave --uri out to have one launched"
            }
            (SessionError::Io(io), _) if is_of_ca(io) => {
                "name its file with --tls-ca and use --engine wire, because lapin takes none of a CA as a server's own; or give the server one that the CA signed"
            }
            (SessionError::Io(io), _) if tls_error(io).is_some() => tls_client::remedy(
                io,
                "check that the port uses TLS (often 5671), or write amqp:// for a connection without TLS",
            ),
            (SessionError::Io(io), _) if io.to_string().contains("failed to lookup address") => {
                "correct the name of the host, or write an address such as 127.0.0.1"
            }
            (SessionError::Io(io), _) if is_timeout(io) => {
                "check that this is an AMQP broker, that it is not stuck, and that the port uses no TLS (amqps:// otherwise)"
            }
            (SessionError::ChannelLimit, _) => {
                "lower --channels, or raise channel_max in the address or at the broker"
            }
            (SessionError::Silent(""), _) => {
                "check the broker's log: it may be shutting down, or have too many connections"
            }
            (SessionError::Silent(_), _) | (_, Some(403)) => {
                "check user, password and the user's permissions"
            }
            (_, Some(530)) => "check that the vhost exists and that the user may access it",
            (_, Some(404)) => "declare it first, or leave predeclared out to have it declared",
            // For an existing object it says "inequivalent arg"; for one that it cannot create, "invalid arg" or
            // similar.
            (error, Some(406)) if !error.to_string().contains("inequivalent") => {
                "the broker does not support this declaration: check --queue-args, --type and the type of the queue"
            }
            (_, Some(406)) => {
                "it exists with other properties: name another queue (--queue), delete it, or use it as it is with predeclared"
            }
            (_, Some(405)) => "it is exclusive to another connection: name another queue (--queue)",
            (_, Some(503)) => "the broker does not know the exchange type: check --type",
            (_, Some(_)) => "check the broker's log",
            _ => "check that this is an AMQP 0-9-1 broker, and write amqps:// if its port uses TLS",
        };
        let field = format!("--uri {}", redact::uri(&self.text));
        let problem = match error {
            SessionError::Io(io) if is_timeout(io) => {
                format!("no answer within {} s", REPLY_TIMEOUT.as_secs())
            }
            SessionError::Io(io) => describe(io),
            other => other.to_string(),
        };
        Invalid::new(field, format!("{problem}: {remedy}"))
    }
}

/// Returns true if a server showed a certificate that may sign others.
fn is_of_ca(error: &io::Error) -> bool {
    use rustls::{CertificateError::Other, Error::InvalidCertificate};
    matches!(tls_error(error), Some(InvalidCertificate(Other(_))))
}

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}
