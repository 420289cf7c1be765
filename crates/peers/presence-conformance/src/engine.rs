//! Sessions of Engine.IO 4 over a WebSocket.

use anyhow::{Context as _, bail, ensure};

use crate::handshake::{Handshake, WEBSOCKET};
use crate::polling::Polling;
use crate::server::Server;
use crate::transport::Transport;
use crate::websocket::{Received, WebSocket};

/// A session over a WebSocket.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) socket: WebSocket,
    pub(crate) handshake: Handshake,
}

impl Engine {
    /// Opens a session without polling first.
    pub(crate) fn open(server: &Server) -> anyhow::Result<Self> {
        let mut socket = WebSocket::open(server, &server.target(WEBSOCKET))?;
        let Received::Text(packet) = socket.receive()? else {
            bail!("the first message is no open packet");
        };
        let handshake = Handshake::parse(&packet)?;
        Ok(Self { socket, handshake })
    }

    /// Upgrades a session from polling while a poll is open, as clients do. The poll must end with a noop after the
    /// probe.
    pub(crate) fn upgrade(polling: Polling) -> anyhow::Result<Self> {
        let mut socket = polling.probe()?;
        let poll = polling.poll()?;
        socket.send_text("2probe")?;
        let answer = socket.receive()?;
        ensure!(
            answer == Received::Text("3probe".to_owned()),
            "the answer to the probe is {answer:?}"
        );
        let ended = poll
            .response()
            .context("the poll that is open during an upgrade")?;
        let ended = ended.ok()?;
        ensure!(
            ended == "6",
            "the poll ended with {ended:?}, expected a noop"
        );
        socket.send_text("5")?;
        // The answer shows that the server has completed the upgrade.
        socket.is_alive()?;
        Ok(Self {
            socket,
            handshake: polling.handshake,
        })
    }

    /// Returns the session as a transport.
    pub(crate) fn transport(&mut self) -> &mut dyn Transport {
        &mut self.socket
    }
}
