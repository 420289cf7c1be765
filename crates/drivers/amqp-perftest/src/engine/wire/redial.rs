//! Reopens lost connections on a thread of its own: a handshake takes many loop iterations with a broker that has just
//! started.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::connect::{FailedAttempt, OpenedSession, connect, declare_again};
use crate::shared::Shared;

/// A reopened connection, or the reason of the failure.
type RedialResult = Result<OpenedSession, FailedAttempt>;

/// The thread and its channels. It ends when its handle is dropped.
#[derive(Debug)]
pub(super) struct Redial {
    wanted: Sender<u64>,
    opened: Receiver<RedialResult>,
}

impl Redial {
    pub(super) fn start(run: Arc<Shared>) -> Self {
        let (wanted, numbers) = channel();
        let (sender, opened) = channel();
        std::thread::spawn(move || serve(&run, &numbers, &sender));
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

fn serve(run: &Shared, numbers: &Receiver<u64>, sender: &Sender<RedialResult>) {
    let delay = run.plan.driver.reconnect_after;
    let mut failed = 0;
    while let Ok(number) = numbers.recv() {
        let mut wanted = vec![number];
        while !wanted.is_empty() {
            std::thread::sleep(delay.max(Duration::from_millis(1)));
            wanted.extend(numbers.try_iter());
            if let Err(error) = open_wanted(run, failed, &mut wanted, sender) {
                failed += 1;
                if sender.send(Err(error)).is_err() {
                    return;
                }
            }
        }
    }
}

/// Opens the wanted connections until one fails.
fn open_wanted(
    run: &Shared,
    failed: u64,
    wanted: &mut Vec<u64>,
    sender: &Sender<RedialResult>,
) -> Result<(), FailedAttempt> {
    let mut is_declared = false;
    while let Some(&number) = wanted.last() {
        let node = run.nodes.node(number, failed);
        let failure = |error| (node.address(), error);
        if !is_declared {
            declare_again(run, node).map_err(failure)?;
            is_declared = true;
        }
        let connection = connect(run, node, number).map_err(failure)?;
        wanted.pop();
        if sender.send(Ok(connection)).is_err() {
            // The worker has ended.
            wanted.clear();
        }
    }
    Ok(())
}
