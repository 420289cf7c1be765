//! The transports of Engine.IO 4.

use anyhow::{bail, ensure};

use crate::server::{LIMIT, Stopwatch};
use crate::websocket::{Received, WebSocket};

/// A transport of Engine.IO packets.
pub(crate) trait Transport: std::fmt::Debug {
    /// Sends a packet, such as `4text`.
    fn send(&mut self, packet: &str) -> anyhow::Result<()>;
    /// Sends a binary message.
    fn send_binary(&mut self, bytes: &[u8]) -> anyhow::Result<()>;
    /// Returns the next packet, pings included.
    fn receive(&mut self) -> anyhow::Result<Received>;
}

impl Transport for WebSocket {
    fn send(&mut self, packet: &str) -> anyhow::Result<()> {
        self.send_text(packet)
    }

    fn send_binary(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Self::send_binary(self, bytes)
    }

    fn receive(&mut self) -> anyhow::Result<Received> {
        Self::receive(self)
    }
}

/// Operations of a session over any transport.
impl dyn Transport + '_ {
    /// Returns the next packet that is neither a ping nor a noop. Pings are answered.
    pub(crate) fn packet(&mut self) -> anyhow::Result<Received> {
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

    /// Returns the next packet, which must be text.
    pub(crate) fn text(&mut self) -> anyhow::Result<String> {
        match self.packet()? {
            Received::Text(text) => Ok(text),
            other => bail!("expected a text packet, got {other:?}"),
        }
    }

    /// Asserts that the session ends. Packets before its end are skipped.
    pub(crate) fn ends(&mut self) -> anyhow::Result<()> {
        while !matches!(self.packet()?, Received::Closed(_)) {}
        Ok(())
    }
}
