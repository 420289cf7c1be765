//! A connection in the loop: written without waiting, lost, and reopened.

use std::io::{self, Write as _};

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, channel, connection};
use harness::output;
use load::clock;
use load::slots::Id;

use super::read::Reader;
use super::{Loop, Redial};
use crate::outcome::{self, count};
use amqp_client::Socket;
use amqp_client::frame::{encode, whole_frame};

/// The user of a channel, by its index in the list of producers or consumers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Producer(usize),
    Consumer(usize),
}

/// The reason why a connection is unusable, and the outcome of its unconfirmed messages.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) kind: &'static str,
    pub(super) why: String,
}

impl From<String> for Lost {
    fn from(why: String) -> Self {
        Self {
            kind: outcome::CONNECTION_LOST,
            why,
        }
    }
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        error.to_string().into()
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    number: u64,
    pub(super) stream: Socket,
    pub(super) reader: Reader,
    /// The beginning of a frame.
    pub(super) unread: Vec<u8>,
    /// Output that the kernel did not take, and how much of it was taken since.
    unwritten: Vec<u8>,
    written: usize,
    /// Users by channel, from 1 on.
    pub(super) roles: Vec<Role>,
    /// Time of the last read.
    pub(super) last_read: u64,
    /// Time of the last write.
    last_write: u64,
    heartbeat_ns: u64,
    /// Time since which the broker asks to publish nothing.
    pub(super) blocked: Option<u64>,
}

impl Link {
    /// Wraps a negotiated connection; `unread` was read already.
    pub(super) fn new(
        number: u64,
        stream: Socket,
        roles: Vec<Role>,
        (heartbeat_s, frame_max): (u16, u32),
        unread: Vec<u8>,
    ) -> Self {
        let now = clock::now();
        Self {
            number,
            stream,
            reader: Reader::new(frame_max),
            unread,
            unwritten: Vec::new(),
            written: 0,
            roles,
            last_read: now,
            last_write: now,
            heartbeat_ns: u64::from(heartbeat_s) * 1_000_000_000,
            blocked: None,
        }
    }

    /// Returns true if the kernel has not taken all output.
    pub(super) fn has_pending_writes(&self) -> bool {
        !self.unwritten.is_empty() || self.stream.is_pending()
    }

    /// Writes as much as the kernel takes now. Returns the number of octets.
    fn push(stream: &mut Socket, octets: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < octets.len() {
            match stream.write(&octets[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }
}

impl Loop<'_> {
    /// Writes all octets, now or as the kernel takes them.
    pub(super) fn write(&mut self, id: Id, octets: &[u8]) -> io::Result<()> {
        let Some(link) = self.links.get_mut(id) else {
            return Ok(());
        };
        if link.has_pending_writes() {
            link.unwritten.extend_from_slice(octets);
            return Ok(());
        }
        let written = Link::push(&mut link.stream, octets)?;
        link.last_write = clock::now();
        if written < octets.len() || link.stream.is_pending() {
            link.unwritten.extend_from_slice(&octets[written..]);
            self.reactor.rewatch(&link.stream, id.token(0), true)?;
        }
        Ok(())
    }

    /// Writes pending output now that there is room.
    pub(super) fn flush(&mut self, id: Id) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        // Output buffered in TLS goes first.
        let pushed = match link.stream.push() {
            Ok(()) => Link::push(&mut link.stream, &link.unwritten[link.written..]),
            Err(error) => Err(error),
        };
        link.last_write = clock::now();
        match pushed {
            Err(error) => return self.lose(id, &error.to_string()),
            Ok(octets) => link.written += octets,
        }
        if link.written < link.unwritten.len() || link.stream.is_pending() {
            return;
        }
        link.unwritten.clear();
        link.written = 0;
        let rewatched = self.reactor.rewatch(&link.stream, id.token(0), false);
        let roles = link.roles.clone();
        if let Err(error) = rewatched {
            return self.lose(id, &error.to_string());
        }
        for role in roles {
            if let Role::Producer(index) = role {
                self.sent(index);
                self.make_ready(index);
            }
        }
    }

    /// Handles a method that does not come with every message.
    pub(super) fn method(
        &mut self,
        id: Id,
        roles: &[Role],
        (channel, frame): (u16, &[u8]),
        now: u64,
        answer: &mut Vec<u8>,
    ) -> Result<(), Lost> {
        let Some((_, AMQPFrame::Method(_, method))) = whole_frame(frame)? else {
            return Ok(());
        };
        match method {
            AMQPClass::Connection(connection::AMQPMethod::Close(close)) => Err(format!(
                "the broker closed it: {} {}",
                close.reply_code, close.reply_text
            )
            .into()),
            // Some brokers leave closing the socket to the client.
            AMQPClass::Connection(connection::AMQPMethod::CloseOk(_)) => {
                Err("it was closed as requested".to_owned().into())
            }
            AMQPClass::Connection(connection::AMQPMethod::Blocked(_)) => {
                self.worker.record.count(count::BLOCKED, 1);
                if let Some(link) = self.links.get_mut(id) {
                    link.blocked.get_or_insert(now);
                }
                Ok(())
            }
            AMQPClass::Connection(connection::AMQPMethod::Unblocked(_)) => {
                self.unblock(id, now);
                (0..self.producers.len()).for_each(|index| self.make_ready(index));
                Ok(())
            }
            // The channel is unusable after that; its connection is reopened with all of its channels.
            AMQPClass::Channel(channel::AMQPMethod::Close(close)) => Err(Lost {
                kind: outcome::CHANNEL_CLOSED,
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
            AMQPClass::Basic(basic::AMQPMethod::Cancel(_)) => {
                self.worker.record.count(count::CANCELLED, 1);
                self.cancelled(roles, channel);
                Ok(())
            }
            AMQPClass::Basic(basic::AMQPMethod::CancelOk(_)) => {
                self.cancelled(roles, channel);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn cancelled(&mut self, roles: &[Role], channel: u16) {
        let role = roles.get(usize::from(channel).wrapping_sub(1));
        if let Some(Role::Consumer(index)) = role {
            self.consumers[*index].consumes = false;
        }
    }

    pub(super) fn unblock(&mut self, id: Id, now: u64) {
        let since = self.links.get_mut(id).and_then(|link| link.blocked.take());
        if let Some(since) = since {
            let ms = now.saturating_sub(since) / 1_000_000;
            self.worker.record.count(count::BLOCKED_MS, ms);
        }
    }

    /// Handles a lost connection: its unconfirmed messages fail, and it is reopened.
    pub(super) fn lose(&mut self, id: Id, why: &str) {
        self.lose_for(id, why, outcome::CONNECTION_LOST);
    }

    pub(super) fn lose_for(&mut self, id: Id, why: &str, kind: &'static str) {
        let now = clock::now();
        self.unblock(id, now);
        let Some(link) = self.links.remove(id) else {
            return;
        };
        for role in &link.roles {
            if let Role::Consumer(index) = role {
                let given_back = self.consumers[*index].leave();
                self.driver.ledger.given_back(given_back);
            }
        }
        if self.closing {
            return;
        }
        if self.worker.phases.origin <= now && self.gone.is_empty() {
            output::remark(&outcome::remark(link.number, kind, why));
        }
        why.clone_into(&mut self.why);
        self.worker.record.count(outcome::end_of(kind), 1);
        // Arrived messages must not be counted as lost with their confirm.
        self.hand_in();
        for role in link.roles {
            if let Role::Producer(index) = role {
                self.fail_unconfirmed(index, Some(kind));
            }
        }
        self.gone.insert(link.number, now);
        let redial = self
            .redial
            .get_or_insert_with(|| Redial::start(self.driver));
        redial.ask(link.number);
    }

    /// Takes reopened connections.
    pub(super) fn adopt_reconnected(&mut self, now: u64) -> anyhow::Result<()> {
        while let Some(made) = self.redial.as_ref().and_then(Redial::made) {
            let connection = match made {
                Ok(connection) => connection,
                Err(error) => {
                    if let Some(kind) = outcome::exhausted(&error) {
                        self.worker.record.count(kind, 1);
                    }
                    self.why = error.to_string();
                    continue;
                }
            };
            if let Some(since) = self.gone.remove(&connection.number) {
                let record = &self.worker.record;
                record.count(count::RECONNECTS, 1);
                record.count(count::GAP_MS, now.saturating_sub(since) / 1_000_000);
            }
            self.attach(connection)?;
        }
        Ok(())
    }

    /// Checks once a second for due heartbeats, silent brokers and late confirms.
    pub(super) fn check_timeouts(&mut self, now: u64) {
        let ids: Vec<Id> = self.links.iter().map(|(id, _)| id).collect();
        let patience = self.driver.plan.driver.confirm_timeout.as_nanos() as u64;
        for id in ids {
            let Some(link) = self.links.get_mut(id) else {
                continue;
            };
            // AMQP 0-9-1, 4.2.7: a peer that is silent for two intervals is gone.
            let beats = link.heartbeat_ns > 0;
            if beats && now.saturating_sub(link.last_read) > 2 * link.heartbeat_ns {
                self.lose(id, "no heartbeat came");
                continue;
            }
            let speaks = beats && now.saturating_sub(link.last_write) > link.heartbeat_ns / 2;
            let late = link.roles.iter().any(|role| match role {
                Role::Producer(index) => self.producers[*index]
                    .oldest()
                    .is_some_and(|start| now.saturating_sub(start) > patience),
                Role::Consumer(_) => false,
            });
            if late {
                self.lose_for(
                    id,
                    "messages were not confirmed in time",
                    outcome::CONFIRM_TIMEOUT,
                );
            } else if speaks && let Err(error) = self.write(id, &encode(&AMQPFrame::Heartbeat)) {
                self.lose(id, &error.to_string());
            }
        }
    }
}
