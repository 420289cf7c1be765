//! A Socket.IO 5 client on any transport.

use std::collections::VecDeque;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::expect::text;
use crate::packet::{Kind, Packet};
use crate::transport::Transport;
use crate::websocket::Received;

/// A connection that may be connected to namespaces.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) transport: Box<dyn Transport>,
    /// The id of the connection to `/`. Empty until then.
    pub(crate) id: String,
    /// Events that arrived while an acknowledgement was awaited.
    events: VecDeque<Packet>,
    next_ack: u64,
}

impl Socket {
    /// Wraps a session that is connected to no namespace.
    pub(crate) fn over(transport: impl Transport + 'static) -> Self {
        Self {
            transport: Box::new(transport),
            id: String::new(),
            events: VecDeque::new(),
            next_ack: 0,
        }
    }

    /// Connects the session to `/`.
    pub(crate) fn connect(&mut self) -> anyhow::Result<()> {
        self.send("0")?;
        let answer = self.packet()?;
        ensure!(
            answer.kind == Kind::Connect,
            "the answer to CONNECT is {answer:?}"
        );
        self.id = text(&answer.data, "/sid")?.to_owned();
        Ok(())
    }

    /// Sends the text of a packet, to which this adds the `4` of Engine.IO.
    pub(crate) fn send(&mut self, packet: &str) -> anyhow::Result<()> {
        self.transport.send(&format!("4{packet}"))
    }

    /// Returns the next packet of any type with its attachments, or `None` at the end of the connection.
    pub(crate) fn try_packet(&mut self) -> anyhow::Result<Option<Packet>> {
        let text = match self.transport.packet()? {
            Received::Text(text) => text,
            Received::Closed(_) => return Ok(None),
            other => bail!("expected a packet, got {other:?}"),
        };
        let packet = text.strip_prefix('4');
        let packet = packet.with_context(|| format!("{text:?} is no message packet"))?;
        let mut packet = Packet::parse(packet)?;
        while packet.attachments.len() < packet.attachment_count {
            match self.transport.packet()? {
                Received::Binary(bytes) => packet.attachments.push(bytes),
                other => bail!("expected an attachment, got {other:?}"),
            }
        }
        Ok(Some(packet))
    }

    /// Returns the next packet of any type.
    pub(crate) fn packet(&mut self) -> anyhow::Result<Packet> {
        self.try_packet()?
            .context("the server ended the connection")
    }

    /// Sends an event with an acknowledgement id and returns the acknowledged arguments. Events before it are kept.
    pub(crate) fn call(&mut self, event: &str, arguments: &[Value]) -> anyhow::Result<Vec<Value>> {
        let id = self.emit(event, arguments)?;
        self.acknowledged(id)
    }

    /// Sends an event with an acknowledgement id, and returns the id.
    pub(crate) fn emit(&mut self, event: &str, arguments: &[Value]) -> anyhow::Result<u64> {
        let id = self.next_ack;
        self.next_ack += 1;
        let mut data = vec![json!(event)];
        data.extend_from_slice(arguments);
        self.send(&format!("2{id}{}", Value::from(data)))?;
        Ok(id)
    }

    /// Waits for an acknowledgement and returns its arguments. Events before it are kept. Acknowledgements of other
    /// requests are skipped.
    pub(crate) fn acknowledged(&mut self, id: u64) -> anyhow::Result<Vec<Value>> {
        loop {
            let packet = self.packet()?;
            match packet.kind {
                Kind::Event | Kind::BinaryEvent => self.events.push_back(packet),
                Kind::Ack if packet.id == Some(id) => return Ok(packet.arguments()?.to_vec()),
                Kind::Ack if packet.id < Some(self.next_ack) => {}
                _ => bail!("expected the acknowledgement {id}, got {packet:?}"),
            }
        }
    }

    /// Returns the next event.
    pub(crate) fn event(&mut self) -> anyhow::Result<Packet> {
        if let Some(event) = self.events.pop_front() {
            return Ok(event);
        }
        let packet = self.packet()?;
        ensure!(
            packet.event_name().is_some(),
            "expected an event, got {packet:?}"
        );
        Ok(packet)
    }

    /// Returns the events that have arrived and that no call has returned.
    pub(crate) fn take_events(&mut self) -> Vec<Packet> {
        self.events.drain(..).collect()
    }

    /// Keeps an event that arrived while another packet was awaited.
    pub(crate) fn keep(&mut self, event: Packet) {
        self.events.push_back(event);
    }

    /// Asserts that the server ends the connection. Packets before its end are skipped.
    pub(crate) fn ends(&mut self) -> anyhow::Result<()> {
        self.transport.ends()
    }

    /// Asserts that the connection ends, or that the server still answers a request on it.
    pub(crate) fn ends_or_answers(&mut self) -> anyhow::Result<()> {
        // An id that no other request of the case has.
        let sent = self.send("2999[\"presence:leave\",null]");
        if sent.is_err() {
            return Ok(());
        }
        while let Some(packet) = self.try_packet()? {
            if packet.id == Some(999) {
                return Ok(());
            }
        }
        Ok(())
    }
}
