//! Engine.IO 4 over HTTP long-polling.

use std::collections::{BTreeMap, VecDeque};

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
const SEPARATOR: char = '\u{1e}';

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
        let target = server.target(POLLING);
        let response = http::request(server, "GET", &target, &BTreeMap::new(), b"")?.response()?;
        let mut packets = response.ok()?.split(SEPARATOR).map(str::to_owned);
        let first = packets.next().context("an empty payload")?;
        Ok(Self {
            server: server.clone(),
            handshake: handshake::parse(&first)?,
            inbox: packets.collect(),
        })
    }

    /// Returns the id of the session.
    pub(crate) fn sid(&self) -> &str {
        self.handshake["sid"].as_str().unwrap_or_default()
    }

    /// Begins a poll.
    pub(crate) fn poll(&self) -> anyhow::Result<Pending> {
        self.request("GET", b"")
    }

    /// Sends a payload and returns the response.
    pub(crate) fn post(&self, payload: &[u8]) -> anyhow::Result<Response> {
        self.request("POST", payload)?.response()
    }

    /// Sends a request of the session.
    pub(crate) fn request(&self, method: &str, body: &[u8]) -> anyhow::Result<Pending> {
        let target = self.server.target(&format!("{POLLING}&sid={}", self.sid()));
        http::request(&self.server, method, &target, &BTreeMap::new(), body)
    }

    /// Opens a WebSocket for the session.
    pub(crate) fn probe(&self) -> anyhow::Result<WebSocket> {
        let query = format!("{WEBSOCKET}&sid={}", self.sid());
        WebSocket::open(&self.server, &self.server.target(&query))
    }

    /// Upgrades the session while a poll is open, as clients do. The poll must end with a noop after the probe.
    pub(crate) fn upgrade(self) -> anyhow::Result<WebSocket> {
        let mut socket = self.probe()?;
        let poll = self.poll()?;
        socket.send("2probe")?;
        let answer = socket.receive()?.to_string();
        expect_eq("the answer to the probe", answer, "3probe")?;
        let poll = poll.response();
        let poll = poll.context("the poll that is open during an upgrade")?;
        expect_eq("the end of the poll", poll.ok()?, "6")?;
        socket.send("5")?;
        // The answer shows that the server has completed the upgrade.
        socket.is_alive()?;
        Ok(socket)
    }
}

impl Transport for Polling {
    fn handshake(&self) -> &Value {
        &self.handshake
    }

    fn polling(&mut self) -> anyhow::Result<&mut Polling> {
        Ok(self)
    }

    /// The server must accept the packets.
    fn send(&mut self, packets: &str) -> anyhow::Result<()> {
        let response = self.post(packets.as_bytes())?;
        let answer = response.ok()?;
        // python-engineio sends OK; clients read the status alone.
        let is_ok = answer.eq_ignore_ascii_case("ok");
        ensure!(is_ok, "the answer to a POST is {answer:?}, expected ok");
        Ok(())
    }

    fn send_binary(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.send(&format!("b{}", STANDARD.encode(bytes)))
    }

    fn receive(&mut self) -> anyhow::Result<Received> {
        if self.inbox.is_empty() {
            let response = self.poll()?.response()?;
            if response.status == 400 {
                return Ok(Received::Closed(None));
            }
            let payload = response.ok()?;
            let most = self.handshake["maxPayload"].as_u64();
            ensure!(
                Some(payload.len() as u64) <= most,
                "a payload of {} bytes",
                payload.len()
            );
            self.inbox
                .extend(payload.split(SEPARATOR).map(str::to_owned));
        }
        let packet = self.inbox.pop_front().unwrap_or_default();
        let Some(encoded) = packet.strip_prefix('b') else {
            return Ok(Received::Text(packet));
        };
        let bytes = STANDARD.decode(encoded);
        let bytes = bytes.context("a binary packet that is not base64")?;
        Ok(Received::Binary(bytes))
    }
}
