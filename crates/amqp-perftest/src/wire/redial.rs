//! Reopens lost connections on a thread of its own: a handshake takes many loop iterations with a broker that has just
//! started.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use crate::connect::{Opened, connect};
use crate::layout::Layout;
use crate::nodes::Nodes;
use crate::run::Run;
use crate::settings::Settings;
use crate::topology::{self, Leftovers};
use amqp_client::{Broker, Session, SessionError};

/// A reopened connection, or the reason of the failure.
type RedialResult = Result<Opened, SessionError>;

/// The thread and its channels. It ends when its handle is dropped.
#[derive(Debug)]
pub(super) struct Redial {
    wanted: Sender<u64>,
    opened: Receiver<RedialResult>,
}

impl Redial {
    pub(super) fn start(run: &Run) -> Self {
        let (wanted, numbers) = channel();
        let (sender, opened) = channel();
        let (nodes, layout) = (run.nodes.clone(), run.layout);
        let settings = run.plan.driver.clone();
        std::thread::spawn(move || serve(&nodes, &settings, layout, &numbers, &sender));
        Self { wanted, opened }
    }

    /// Requests a connection by its number.
    pub(super) fn ask(&self, number: u64) {
        // The thread ends after its handle.
        let _ = self.wanted.send(number);
    }

    /// Returns a reopened connection, or the reason of a failure; failed ones are retried.
    pub(super) fn opened(&self) -> Option<RedialResult> {
        self.opened.try_recv().ok()
    }
}

fn serve(
    nodes: &Nodes,
    settings: &Settings,
    layout: Layout,
    numbers: &Receiver<u64>,
    sender: &Sender<RedialResult>,
) {
    let mut wanted: Vec<u64> = Vec::new();
    let mut failed = 0;
    loop {
        if wanted.is_empty() {
            match numbers.recv() {
                Ok(number) => wanted.push(number),
                Err(_) => return,
            }
        }
        std::thread::sleep(settings.reconnect_after.max(Duration::from_millis(1)));
        wanted.extend(numbers.try_iter());
        let node = |number| nodes.node(number, failed);
        if let Err(error) = open_wanted(node, settings, layout, &mut wanted, sender) {
            failed += 1;
            if sender.send(Err(error)).is_err() {
                return;
            }
        }
        match numbers.try_recv() {
            Ok(number) => wanted.push(number),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

/// Opens the wanted connections until one fails. A restarted broker may have kept neither queues nor exchange, so they
/// are declared first.
fn open_wanted<'a>(
    node: impl Fn(u64) -> &'a Broker,
    settings: &Settings,
    layout: Layout,
    wanted: &mut Vec<u64>,
    sender: &Sender<RedialResult>,
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
        if sender.send(Ok(connection)).is_err() {
            break;
        }
    }
    Ok(())
}
