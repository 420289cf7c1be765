//! How a client reaches the server, and over which connections.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way in which clients reach the server.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Transport")]
#[value(rename_all = "lower")]
pub enum Kind {
    /// WebSocket from the start.
    #[default]
    WebSocket,
    /// HTTP long-polling.
    Polling,
    /// HTTP long-polling first, then WebSocket.
    Upgrade,
}

impl Kind {
    /// Returns the most connections of TCP that a client has open at once.
    pub(crate) fn sockets(self) -> u64 {
        match self {
            Self::WebSocket => 1,
            Self::Polling => 2,
            Self::Upgrade => 3,
        }
    }
}

/// A TCP connection of a client. As a number it is the side of a token of [`load::slots::Id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// The WebSocket, or the polls (`GET`).
    Main = 0,
    /// The messages of a polling client (`POST`).
    Post = 1,
    /// The WebSocket of an upgrade; after the upgrade the only connection.
    Probe = 2,
}

impl Side {
    /// All sides.
    pub const ALL: [Self; 3] = [Self::Main, Self::Post, Self::Probe];

    /// Returns the side of a token.
    #[must_use]
    pub fn from_token_side(side: u8) -> Self {
        match side {
            0 => Self::Main,
            1 => Self::Post,
            _ => Self::Probe,
        }
    }
}
