//! Engine.IO 4 over HTTP long-polling.

use std::collections::VecDeque;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::expect::expect_eq;
use crate::handshake::{self, POLLING, WEBSOCKET};
use crate::http::{self, Pending, Response};
use crate::server::Server;
use crate::transport::Transport;
use crate::websocket::{Received, WebSocket};

/// The character between the packets of a payload.
pub(crate) const SEPARATOR: char = '\u{1e}';

/// A session over polling.
#[derive(Debug, Clone)]
pub(crate) struct Polling {
    server: Server,
    handshake: Value,
    /// Packets of the last response that have not been returned yet.
    inbox: VecDeque<String>,
}

impl Polling {
    /// Opens a session.
    pub(crate) fn open(server: &Server) -> anyhow::Result<Self> {
        let response = http::get(server, &server.target(POLLING))?.response()?;
        let mut packets = response.ok()?.split(SEPARATOR).map(str::to_owned);
        let first = packets.next().context("an empty payload")?;
        Ok(Self {
            server: server.clone(),
            handshake: handshake::parse(&first)?,
            inbox: packets.collect(),
        })
    }

    /// Returns the target of the session's requests.
    pub(crate) fn target(&self) -> String {
        self.server.target(&format!("{POLLING}&sid={}", self.sid()))
    }

    /// Returns the id of the session.
    pub(crate) fn sid(&self) -> &str {
        self.handshake["sid"].as_str().unwrap_or_default()
    }

    /// Begins a poll.
    pub(crate) fn poll(&self) -> anyhow::Result<Pending> {
        http::get(&self.server, &self.target())
    }

    /// Sends a payload and returns the response.
    pub(crate) fn post(&self, payload: &[u8]) -> anyhow::Result<Response> {
        http::request(&self.server, "POST", &self.target(), payload)?.response()
    }

    /// Opens a WebSocket for the session.
    pub(crate) fn probe(&self) -> anyhow::Result<WebSocket> {
        let target = self
            .server
            .target(&format!("{WEBSOCKET}&sid={}", self.sid()));
        WebSocket::open(&self.server, &target)
    }

    /// Upgrades the session while a poll is open, as clients do. The poll must end with a noop after the probe.
    pub(crate) fn upgrade(self) -> anyhow::Result<WebSocket> {
        let mut socket = self.probe()?;
        let poll = self.poll()?;
        socket.send("2probe")?;
        expect_eq(
            "the answer to the probe",
            socket.receive()?.to_string(),
            "3probe",
        )?;
        let poll = poll.response();
        let poll = poll.context("the poll that is open during an upgrade")?;
        expect_eq("the end of the poll", poll.ok()?, "6")?;
        socket.send("5")?;
        // The answer shows that the server has completed the upgrade.
        socket.is_alive()?;
        Ok(socket)
    }

    /// Sends packets that the server must accept.
    pub(crate) fn send_all(&self, packets: &[&str]) -> anyhow::Result<()> {
        let payload = packets.join(&SEPARATOR.to_string());
        let response = self.post(payload.as_bytes())?;
        let answer = response.ok()?;
        // python-engineio sends OK; clients read the status alone.
        let is_ok = answer.eq_ignore_ascii_case("ok");
        ensure!(is_ok, "the answer to a POST is {answer:?}, expected ok");
        Ok(())
    }

    /// Asserts that the session has ended: the server no longer knows its id.
    pub(crate) fn is_unknown(&self) -> anyhow::Result<()> {
        let response = self.poll()?.response()?;
        response
            .has_status(&[400])
            .context("a poll after the end of the session")
    }
}

impl Transport for Polling {
    fn handshake(&self) -> &Value {
        &self.handshake
    }

    fn polling(&mut self) -> anyhow::Result<&mut Polling> {
        Ok(self)
    }

    fn send(&mut self, packet: &str) -> anyhow::Result<()> {
        self.send_all(&[packet])
    }

    fn send_binary(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.send_all(&[&format!("b{}", STANDARD.encode(bytes))])
    }

    fn receive(&mut self) -> anyhow::Result<Received> {
        if self.inbox.is_empty() {
            let response = self.poll()?.response()?;
            if response.status == 400 {
                return Ok(Received::Closed(None));
            }
            self.inbox
                .extend(response.ok()?.split(SEPARATOR).map(str::to_owned));
        }
        let packet = self.inbox.pop_front().unwrap_or_default();
        match packet.strip_prefix('b') {
            Some(encoded) => {
                let bytes = STANDARD.decode(encoded);
                Ok(Received::Binary(
                    bytes.context("a binary packet that is not base64")?,
                ))
            }
            None => Ok(Received::Text(packet)),
        }
    }
}
