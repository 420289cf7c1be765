//! Connections of the engine `wire`, and what both engines share about connections before the run.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use amq_protocol::protocol::basic;
use load::clock;

use crate::layout::Client;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::topology::{self, Leftovers};
use amqp_client::{Broker, Session, SessionError};

/// A connection with a channel for each of its clients.
#[derive(Debug)]
pub(crate) struct OpenedSession {
    pub(crate) number: u64,
    pub(crate) session: Session,
}

/// The address of a node that could not be connected to again, and the reason.
pub(crate) type FailedAttempt = (String, SessionError);

/// Connections by number, until their worker takes them.
#[derive(Debug)]
pub(crate) struct Reserved<T>(Mutex<HashMap<u64, T>>);

impl<T> Reserved<T> {
    pub(crate) fn new(connections: impl IntoIterator<Item = (u64, T)>) -> Self {
        Self(Mutex::new(connections.into_iter().collect()))
    }

    pub(crate) fn take(&self, number: u64) -> Option<T> {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connections.remove(&number)
    }
}

/// Opens the connections of the workers of this process.
pub(crate) fn open_all(run: &Shared) -> anyhow::Result<Reserved<OpenedSession>> {
    let mut connections = Vec::new();
    let mut last_sent = clock::now();
    for number in run.connections() {
        let node = run.nodes.node(number, 0);
        connections.push(connect(run, node, number).map_err(|error| node.explain(&error))?);
        last_sent = send_heartbeats(&mut connections, last_sent);
    }
    let by_number = connections.into_iter();
    Ok(Reserved::new(
        by_number.map(|opened| (opened.number, opened)),
    ))
}

/// Sends heartbeats on the open connections if the last ones are half an interval old: opening all of them may take
/// longer than a broker waits on the first. Returns when heartbeats were last sent.
fn send_heartbeats(connections: &mut [OpenedSession], last_sent: u64) -> u64 {
    let now = clock::now();
    let heartbeat = connections
        .first()
        .map_or(0, |first| first.session.heartbeat);
    let half_ns = u64::from(heartbeat) * 500_000_000;
    if half_ns == 0 || now - last_sent < half_ns {
        return last_sent;
    }
    for connection in connections {
        // A lost connection is detected when the load begins, and reopened.
        let _ = connection.session.send_heartbeat();
    }
    now
}

/// Opens a connection with a channel for each of its clients.
pub(crate) fn connect(
    run: &Shared,
    node: &Broker,
    number: u64,
) -> Result<OpenedSession, SessionError> {
    let settings = &run.plan.driver;
    let mut session = Session::open(node, settings.heartbeat)?;
    let clients = run.layout.clients(number);
    if session.channel_max > 0 && clients.len() > usize::from(session.channel_max) {
        return Err(SessionError::ChannelLimit);
    }
    for (client, channel) in clients.into_iter().zip(1..) {
        session.open_channel(channel)?;
        match client {
            Client::Producer(_) if settings.confirms.is_some() => {
                session.select_confirms(channel)?;
            }
            Client::Producer(_) => {}
            Client::Consumer(index) => prepare_consumer(&mut session, settings, channel, index)?,
        }
    }
    Ok(OpenedSession { number, session })
}

/// Declares the topology again, before a lost connection is reopened: a restarted broker may have kept neither queues
/// nor exchange.
pub(crate) fn declare_again(run: &Shared, node: &Broker) -> Result<(), SessionError> {
    let settings = &run.plan.driver;
    let mut session = Session::open(node, settings.heartbeat)?;
    topology::declare(&mut session, settings, Leftovers::Keep)?;
    session.close();
    Ok(())
}

/// Limits the deliveries to a consumer, and declares its exclusive queue, which is deleted with its connection.
/// Consumers that share a connection may share a queue.
fn prepare_consumer(
    session: &mut Session,
    settings: &Settings,
    channel: u16,
    index: u32,
) -> Result<(), SessionError> {
    if settings.prefetch > 0 && !settings.auto_ack {
        let qos = basic::Qos {
            prefetch_count: settings.prefetch,
            global: settings.global_qos,
        };
        session.limit_prefetch(channel, qos)?;
    }
    if settings.exclusive {
        let name = settings.queue_of(u64::from(index));
        topology::declare_queue(session, settings, &name, Leftovers::Keep)?;
    }
    Ok(())
}
