//! Opens the connections of the engine `wire`.

use load::clock;

use crate::layout::{Client, Layout};
use crate::nodes::Nodes;
use crate::settings::Settings;
use crate::topology;
use amqp_client::{Broker, Session, SessionError};

/// A connection with a channel for each of its clients.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) number: u64,
    pub(crate) session: Session,
}

/// Opens all connections of a run, by number.
///
/// # Errors
/// The first connection that cannot be opened.
pub(crate) fn open_all(
    nodes: &Nodes,
    settings: &Settings,
    layout: Layout,
) -> anyhow::Result<Vec<Option<Opened>>> {
    let mut connections = Vec::new();
    let mut beaten = clock::now();
    for number in 0..layout.connections() {
        let node = nodes.node(number, 0);
        let opened =
            connect(node, settings, layout, number).map_err(|error| node.explain(&error))?;
        connections.push(Some(opened));
        beaten = beat(&mut connections, beaten);
    }
    Ok(connections)
}

/// Sends heartbeats on the open connections if the last ones are half an interval old: opening all of them may take
/// longer than a broker waits on the first. Returns when heartbeats were last sent.
fn beat(connections: &mut [Option<Opened>], beaten: u64) -> u64 {
    let now = clock::now();
    let mut sessions = connections
        .iter_mut()
        .flatten()
        .map(|opened| &mut opened.session);
    let due = |session: &Session| {
        let half_ns = u64::from(session.heartbeat) * 500_000_000;
        half_ns > 0 && now - beaten >= half_ns
    };
    if !sessions.next().is_some_and(|first| due(first)) {
        return beaten;
    }
    for connection in connections.iter_mut().flatten() {
        // A lost connection is detected when the load begins, and reopened.
        let _ = connection.session.beat();
    }
    now
}

/// Opens a connection with a channel for each of its clients.
pub(crate) fn connect(
    broker: &Broker,
    settings: &Settings,
    layout: Layout,
    number: u64,
) -> Result<Opened, SessionError> {
    let mut session = Session::open(broker, settings.heartbeat)?;
    let clients = layout.clients(number);
    if session.channel_max > 0 && clients.len() > usize::from(session.channel_max) {
        return Err(SessionError::Protocol(format!(
            "{} channels exceed the {} that the broker grants per connection: lower --channels",
            clients.len(),
            session.channel_max
        )));
    }
    for (client, channel) in clients.iter().zip(1..) {
        match client {
            Client::Producer(_) => topology::open_producer(&mut session, settings, channel)?,
            Client::Consumer(index) => {
                topology::open_consumer(&mut session, settings, channel)?;
                if settings.exclusive {
                    topology::declare_own(&mut session, settings, *index)?;
                }
            }
        }
    }
    Ok(Opened { number, session })
}
