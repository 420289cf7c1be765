//! Reopens lost connections on a thread of its own: a handshake takes many loop iterations with a broker that has just
//! started.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use crate::driver::{Connection, Perftest, connect};
use crate::layout::Layout;
use crate::nodes::Nodes;
use crate::settings::Settings;
use crate::topology::{self, Leftovers};
use amqp_client::{Broker, Session, SessionError};

/// A reopened connection, or the reason of the failure.
type RedialResult = Result<Connection, SessionError>;

/// The thread and its channels. It ends when its handle is dropped.
#[derive(Debug)]
pub(super) struct Redial {
    asked: Sender<u64>,
    made: Receiver<RedialResult>,
}

impl Redial {
    pub(super) fn start(driver: &Perftest) -> Self {
        let (asked, asks) = channel();
        let (makes, made) = channel();
        let (nodes, layout) = (driver.nodes.clone(), driver.layout);
        let settings = driver.plan.driver.clone();
        std::thread::spawn(move || serve(&nodes, &settings, layout, &asks, &makes));
        Self { asked, made }
    }

    /// Requests a connection by its number.
    pub(super) fn ask(&self, number: u64) {
        // The thread ends after its handle.
        let _ = self.asked.send(number);
    }

    /// Returns a reopened connection, or the reason of a failure; failed ones are retried.
    pub(super) fn made(&self) -> Option<RedialResult> {
        self.made.try_recv().ok()
    }
}

fn serve(
    nodes: &Nodes,
    settings: &Settings,
    layout: Layout,
    asks: &Receiver<u64>,
    makes: &Sender<RedialResult>,
) {
    let mut wanted: Vec<u64> = Vec::new();
    let mut failed = 0;
    loop {
        if wanted.is_empty() {
            match asks.recv() {
                Ok(number) => wanted.push(number),
                Err(_) => return,
            }
        }
        std::thread::sleep(settings.reconnect_after.max(Duration::from_millis(1)));
        wanted.extend(asks.try_iter());
        let node = |number| nodes.node(number, failed);
        if let Err(error) = make(node, settings, layout, &mut wanted, makes) {
            failed += 1;
            if makes.send(Err(error)).is_err() {
                return;
            }
        }
        match asks.try_recv() {
            Ok(number) => wanted.push(number),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

/// Opens the wanted connections until one fails. A restarted broker may have kept neither queues nor exchange, so they
/// are declared first.
fn make<'a>(
    node: impl Fn(u64) -> &'a Broker,
    settings: &Settings,
    layout: Layout,
    wanted: &mut Vec<u64>,
    makes: &Sender<RedialResult>,
) -> Result<(), SessionError> {
    let Some(&first) = wanted.last() else {
        return Ok(());
    };
    let mut session = Session::open(node(first), settings.heartbeat)?;
    topology::declare(&mut session, settings, Leftovers::Keep)?;
    session.close();
    while let Some(&number) = wanted.last() {
        let connection = connect(node(number), settings, layout, number)?;
        wanted.pop();
        if makes.send(Ok(connection)).is_err() {
            break;
        }
    }
    Ok(())
}
