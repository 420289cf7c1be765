//! The transports of Engine.IO 4.

use anyhow::{bail, ensure};
use serde_json::Value;

use crate::polling::Polling;
use crate::server::{LIMIT, Stopwatch};
use crate::websocket::{Received, WebSocket};

/// A session over a transport.
pub(crate) trait Transport: std::fmt::Debug {
    /// Returns the data of the open packet.
    fn handshake(&self) -> &Value;
    /// Sends a packet, such as `4text`.
    fn send(&mut self, packet: &str) -> anyhow::Result<()>;
    /// Sends a binary message.
    fn send_binary(&mut self, bytes: &[u8]) -> anyhow::Result<()>;
    /// Returns the next packet, pings included.
    fn receive(&mut self) -> anyhow::Result<Received>;

    /// Returns the WebSocket of the session.
    fn websocket(&mut self) -> anyhow::Result<&mut WebSocket> {
        bail!("{self:?} is no WebSocket")
    }

    /// Returns the session over polling.
    fn polling(&mut self) -> anyhow::Result<&mut Polling> {
        bail!("{self:?} is not polling")
    }

    /// Returns the next packet that is neither a ping nor a noop. Pings are answered.
    fn packet(&mut self) -> anyhow::Result<Received> {
        let began = Stopwatch::new();
        loop {
            ensure!(began.elapsed() < LIMIT, "no packet within {LIMIT:?}");
            match self.receive()? {
                Received::Text(text) if text == "2" => self.send("3")?,
                Received::Text(text) if text == "6" => {}
                // A close packet ends the session.
                Received::Text(text) if text == "1" => return Ok(Received::Closed(None)),
                other => return Ok(other),
            }
        }
    }

    /// Asserts that the session ends, with one of these close codes if any are given and the server sends one. Packets
    /// before its end are skipped.
    fn ends(&mut self, codes: &[u16]) -> anyhow::Result<()> {
        loop {
            if let Received::Closed(code) = self.packet()? {
                let is_right = code.is_none_or(|code| codes.is_empty() || codes.contains(&code));
                ensure!(is_right, "close code {code:?}, expected one of {codes:?}");
                return Ok(());
            }
        }
    }
}
