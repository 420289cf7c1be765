//! A connection in the loop: written without waiting, lost, and reopened.

use std::io::{self, Write as _};
use std::sync::Arc;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, channel, connection, queue};
use load::clock;
use load::net::write_buffer::WriteBuffer;
use load::slots::Id;

use super::read::Reader;
use super::{Cx, Redial, WireWorker};
use crate::layout::ClientIndex;
use crate::outcome;
use crate::roles::connection::{Blocked, CONNECTION_FORCED, Lost};
use crate::roles::worker::Stage;
use amqp_client::frame::{encode, whole_frame};
use amqp_client::{Session, Socket};

#[derive(Debug)]
pub(super) struct WireConnection {
    number: u64,
    pub(super) stream: Socket,
    pub(super) reader: Reader,
    /// The beginning of a frame.
    pub(super) unread: Vec<u8>,
    output: WriteBuffer,
    /// Its producers and consumers by channel, from 1 on.
    pub(super) clients: Vec<ClientIndex>,
    pub(super) last_read: u64,
    last_write: u64,
    heartbeat_ns: u64,
    pub(super) blocked: Blocked,
}

impl WireConnection {
    /// Wraps a negotiated connection.
    pub(super) fn new(number: u64, session: Session, clients: Vec<ClientIndex>) -> Self {
        let now = clock::now();
        Self {
            number,
            reader: Reader::new(session.frame_max),
            stream: session.stream,
            unread: session.input,
            output: WriteBuffer::default(),
            clients,
            last_read: now,
            last_write: now,
            heartbeat_ns: u64::from(session.heartbeat) * 1_000_000_000,
            blocked: Blocked::default(),
        }
    }

    /// Returns true if the kernel has not taken all output.
    pub(super) fn has_pending_writes(&self) -> bool {
        !self.output.is_empty() || self.stream.is_pending()
    }

    /// Writes pending output. Returns true if nothing is left.
    fn flush(&mut self) -> io::Result<bool> {
        // Output buffered in TLS goes first.
        self.stream.flush()?;
        let written = self.output.flush(&mut self.stream)?;
        self.last_write = clock::now();
        Ok(written && !self.stream.is_pending())
    }

    /// Returns true if the broker is gone: a peer that is silent for two intervals is (AMQP 0-9-1, 4.2.7).
    fn is_silent(&self, now: u64) -> bool {
        self.heartbeat_ns > 0 && now.saturating_sub(self.last_read) > 2 * self.heartbeat_ns
    }

    fn is_heartbeat_due(&self, now: u64) -> bool {
        self.heartbeat_ns > 0 && now.saturating_sub(self.last_write) > self.heartbeat_ns / 2
    }
}

impl<'a> WireWorker<'a> {
    /// Writes all octets, now or as the kernel takes them.
    pub(super) fn write(&self, id: Id, octets: &[u8], cx: &mut Cx<'a>) -> io::Result<()> {
        let Some(connection) = cx.connections.get_mut(id) else {
            return Ok(());
        };
        if connection.has_pending_writes() {
            connection.output.append(octets);
            return Ok(());
        }
        connection.output.write(&mut connection.stream, octets)?;
        connection.last_write = clock::now();
        if connection.has_pending_writes() {
            cx.reactor.rewatch(&connection.stream, id.token(0), true)?;
        }
        Ok(())
    }

    /// Writes pending output now that there is room.
    pub(super) fn flush(&mut self, id: Id, cx: &mut Cx<'a>) {
        let Some(connection) = cx.connections.get_mut(id) else {
            return;
        };
        match connection.flush() {
            Err(error) => return self.lose(id, &error.into(), cx),
            Ok(false) => return,
            Ok(true) => {}
        }
        let rewatched = cx.reactor.rewatch(&connection.stream, id.token(0), false);
        let clients = connection.clients.clone();
        if let Err(error) = rewatched {
            return self.lose(id, &error.into(), cx);
        }
        for client in clients {
            if let ClientIndex::Producer(index) = client {
                self.on_written(index);
                self.make_ready(index);
            }
        }
    }

    /// Handles a method that does not come with every message.
    pub(super) fn method(
        &mut self,
        id: Id,
        client: Option<ClientIndex>,
        (channel, frame): (u16, &[u8]),
        (now, answer): (u64, &mut Vec<u8>),
        cx: &mut Cx<'a>,
    ) -> Result<(), Lost> {
        let Some((_, AMQPFrame::Method(_, method))) = whole_frame(frame)? else {
            return Ok(());
        };
        match method {
            AMQPClass::Connection(connection::AMQPMethod::Close(close)) => Err(Lost {
                kind: outcome::CONNECTION_LOST,
                is_refusal: close.reply_code != CONNECTION_FORCED,
                why: format!(
                    "the broker closed it: {} {}",
                    close.reply_code, close.reply_text
                ),
            }),
            // Some brokers leave closing the socket to the client.
            AMQPClass::Connection(connection::AMQPMethod::CloseOk(_)) => {
                Err("it was closed as requested".into())
            }
            AMQPClass::Connection(connection::AMQPMethod::Blocked(_)) => {
                if let Some(connection) = cx.connections.get_mut(id) {
                    connection.blocked.block(now, &self.state.record);
                }
                Ok(())
            }
            AMQPClass::Connection(connection::AMQPMethod::Unblocked(_)) => {
                self.unblock(id, now, cx);
                (0..self.producers.len()).for_each(|index| self.make_ready(index));
                Ok(())
            }
            // The channel is unusable after that; its connection is reopened with all of its channels.
            AMQPClass::Channel(channel::AMQPMethod::Close(close)) => Err(Lost {
                kind: outcome::CHANNEL_CLOSED,
                is_refusal: true,
                why: format!(
                    "the broker closed channel {channel}: {} {}",
                    close.reply_code, close.reply_text
                ),
            }),
            AMQPClass::Channel(channel::AMQPMethod::Flow(flow)) => {
                let ok = channel::AMQPMethod::FlowOk(channel::FlowOk {
                    active: flow.active,
                });
                answer.extend(encode(&AMQPFrame::Method(channel, AMQPClass::Channel(ok))));
                Ok(())
            }
            AMQPClass::Basic(basic::AMQPMethod::Cancel(_) | basic::AMQPMethod::CancelOk(_)) => {
                if let Some(ClientIndex::Consumer(index)) = client {
                    self.consumers[index].role.on_cancelled(&self.state);
                }
                Ok(())
            }
            AMQPClass::Queue(queue::AMQPMethod::DeclareOk(declared)) => {
                if let Some(ClientIndex::Consumer(index)) = client {
                    let (role, mut frames) = self.consumers[index].split(self.state.run, answer);
                    role.on_depth(&self.state, declared.message_count, &mut frames);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn unblock(&self, id: Id, now: u64, cx: &mut Cx<'a>) {
        if let Some(connection) = cx.connections.get_mut(id) {
            connection.blocked.unblock(now, &self.state.record);
        }
    }

    /// Handles a lost connection: its unconfirmed messages fail, and it is reopened.
    pub(super) fn lose(&mut self, id: Id, lost: &Lost, cx: &mut Cx<'a>) {
        self.unblock(id, clock::now(), cx);
        let Some(connection) = cx.connections.remove(id) else {
            return;
        };
        for client in &connection.clients {
            if let ClientIndex::Consumer(index) = client {
                self.consumers[*index].leave(&self.state);
            }
        }
        if self.state.stage != Stage::Load {
            return;
        }
        self.state.on_lost(connection.number, lost);
        for client in connection.clients {
            if let ClientIndex::Producer(index) = client {
                self.give_up_messages(index, Some(lost));
            }
        }
        let redial = self
            .redial
            .get_or_insert_with(|| Redial::start(Arc::clone(self.run)));
        redial.ask(connection.number);
    }

    /// Takes reopened connections.
    pub(super) fn adopt_reconnected(&mut self, cx: &mut Cx<'a>) -> anyhow::Result<()> {
        while let Some(opened) = self.redial.as_ref().and_then(Redial::opened) {
            let lost = &mut self.state.lost;
            match opened {
                Ok(opened) => {
                    lost.on_reopened(opened.number, cx.state.now);
                    self.attach(opened, cx)?;
                }
                Err(error) => lost.on_failed_attempt(&error),
            }
        }
        Ok(())
    }

    /// Checks once a second for due heartbeats, silent brokers and late confirms, and counts the time of blocked
    /// connections.
    pub(super) fn check_timeouts(&mut self, cx: &mut Cx<'a>) {
        let now = cx.state.now;
        let ids: Vec<Id> = cx.connections.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(connection) = cx.connections.get_mut(id) else {
                continue;
            };
            connection.blocked.count(now, &self.state.record);
            let is_heartbeat_due = connection.is_heartbeat_due(now);
            let mut checked = if connection.is_silent(now) {
                Err("no heartbeat came".into())
            } else {
                self.check_confirms(&connection.clients)
            };
            if checked.is_ok() && is_heartbeat_due {
                let heartbeat = encode(&AMQPFrame::Heartbeat);
                checked = self.write(id, &heartbeat, cx).map_err(Lost::from);
            }
            if let Err(lost) = checked {
                self.lose(id, &lost, cx);
            }
        }
    }

    fn check_confirms(&self, clients: &[ClientIndex]) -> Result<(), Lost> {
        let now = clock::now();
        clients.iter().try_for_each(|client| match client {
            ClientIndex::Producer(index) => {
                let settings = &self.state.run.plan.driver;
                self.producers[*index].role.check_confirms(settings, now)
            }
            ClientIndex::Consumer(_) => Ok(()),
        })
    }
}
