//! Makes lost connections again, on a thread of its own: a handshake takes many turns of a broker that has just started.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use crate::driver::{Connection, Perftest, connect};
use crate::layout::Layout;
use crate::nodes::Nodes;
use crate::session::{Broker, Session, SessionError};
use crate::settings::Settings;
use crate::topology::{self, Left};

/// A connection that was made again, or why it could not be.
type Made = Result<Connection, SessionError>;

/// The thread, and what is said to it and by it. It ends when nobody asks any more.
#[derive(Debug)]
pub(super) struct Redial {
    asked: Sender<u64>,
    made: Receiver<Made>,
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

    /// Asks for a connection, by its number.
    pub(super) fn ask(&self, number: u64) {
        // The thread ends after us.
        let _ = self.asked.send(number);
    }

    /// A connection that was made, or why none could be; it is tried again.
    pub(super) fn made(&self) -> Option<Made> {
        self.made.try_recv().ok()
    }
}

fn serve(
    nodes: &Nodes,
    settings: &Settings,
    layout: Layout,
    asks: &Receiver<u64>,
    makes: &Sender<Made>,
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
        let node = |number| nodes.of(number, failed);
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

/// Makes the connections that are wanted, until one can't be. A broker that has started again may have kept neither
/// queues nor exchange: they are declared first.
fn make<'a>(
    node: impl Fn(u64) -> &'a Broker,
    settings: &Settings,
    layout: Layout,
    wanted: &mut Vec<u64>,
    makes: &Sender<Made>,
) -> Result<(), SessionError> {
    let Some(&first) = wanted.last() else {
        return Ok(());
    };
    let mut session = Session::open(node(first), settings.heartbeat)?;
    topology::declare(&mut session, settings, Left::Keep)?;
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
