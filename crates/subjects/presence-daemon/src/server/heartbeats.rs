//! The pings of a worker's sessions. All sessions have the same interval, so two queues in the order of time replace
//! their timers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::engine::disconnect_reason::DisconnectReason;
use crate::engine::frame::Frame;
use crate::engine::session::{Session, millis};
use crate::server::worker::{Slot, Worker};

/// The times at which sessions are to be pinged, or must have answered.
#[derive(Debug, Default)]
pub(crate) struct Heartbeats {
    queues: RefCell<Queues>,
    /// Notified when an entry precedes all others.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Queues {
    pings: VecDeque<Due>,
    answers: VecDeque<Due>,
    /// The times at which clients must have connected to a namespace.
    connects: VecDeque<Due>,
}

/// A ping, or an answer to one, that is due for a session at a time of the engine's clock.
#[derive(Debug, Clone, Copy)]
struct Due {
    at: u64,
    slot: Slot,
}

impl Heartbeats {
    /// Adds a session, whose next ping is due at a time.
    pub(crate) fn add(&self, at: u64, slot: Slot) {
        self.insert(at, slot, |queues| &mut queues.pings);
    }

    /// Adds the time at which a session must have connected to a namespace.
    pub(crate) fn add_connect(&self, at: u64, slot: Slot) {
        self.insert(at, slot, |queues| &mut queues.connects);
    }

    fn insert(&self, at: u64, slot: Slot, queue: impl Fn(&mut Queues) -> &mut VecDeque<Due>) {
        let mut queues = self.queues.borrow_mut();
        let queue = queue(&mut queues);
        // The index is the end of the queue, except for a session that was upgraded or whose answer is late.
        let index = queue.partition_point(|due| due.at <= at);
        queue.insert(index, Due { at, slot });
        if index == 0 {
            self.changed.notify_one();
        }
    }

    fn next(&self) -> Option<u64> {
        let queues = self.queues.borrow();
        let Queues {
            pings,
            answers,
            connects,
        } = &*queues;
        let fronts = [pings.front(), answers.front(), connects.front()];
        fronts.into_iter().flatten().map(|due| due.at).min()
    }

    fn take(&self, now: u64, queue: impl Fn(&mut Queues) -> &mut VecDeque<Due>) -> Option<Due> {
        let mut queues = self.queues.borrow_mut();
        let queue = queue(&mut queues);
        queue.front().filter(|due| due.at <= now)?;
        queue.pop_front()
    }
}

/// Pings the sessions of a worker, and ends those that do not answer.
pub(crate) async fn run(worker: Rc<Worker>) {
    let heartbeats = &worker.heartbeats;
    let ping = Frame::from_text("2");
    loop {
        let now = worker.engine.now();
        while let Some(due) = heartbeats.take(now, |queues| &mut queues.pings) {
            send_ping(&worker, due.slot, now, &ping);
        }
        while let Some(due) = heartbeats.take(now, |queues| &mut queues.answers) {
            check_answer(&worker, due.slot, now);
        }
        while let Some(due) = heartbeats.take(now, |queues| &mut queues.connects) {
            check_connect(&worker, due.slot);
        }
        let changed = heartbeats.changed.notified();
        match heartbeats.next() {
            None => changed.await,
            Some(at) => tokio::select! {
                () = sleep_until(worker.engine.instant(at)) => {}
                () = changed => {}
            },
        }
    }
}

fn send_ping(worker: &Worker, slot: Slot, now: u64, ping: &Frame) {
    let Some(session) = worker.session(slot) else {
        return;
    };
    let next = now + millis(worker.engine.config.ping_interval);
    if session.connection.begin_ping() {
        session.connection.send(ping.clone());
        session.next_ping.store(next, Relaxed);
    }
    // Also for a ping that another worker sent before an upgrade.
    let at = answer_due(worker, &session);
    let heartbeats = &worker.heartbeats;
    heartbeats.insert(at, slot, |queues| &mut queues.answers);
    heartbeats.add(next, slot);
}

/// Returns the time at which the last ping of a session must have been answered.
fn answer_due(worker: &Worker, session: &Session) -> u64 {
    let config = &worker.engine.config;
    let sent = session.next_ping.load(Relaxed) - millis(config.ping_interval);
    sent.saturating_add(millis(config.ping_timeout))
}

fn check_connect(worker: &Worker, slot: Slot) {
    if let Some(session) = worker.session(slot)
        && session.is_unused()
    {
        session.connection.close(DisconnectReason::ProtocolError);
    }
}

fn check_answer(worker: &Worker, slot: Slot, now: u64) {
    let Some(session) = worker.session(slot) else {
        return;
    };
    // If the timeout is longer than the interval, a later ping may be the one that is not answered.
    if session.connection.awaits_pong.load(Relaxed) && answer_due(worker, &session) <= now {
        session.connection.close(DisconnectReason::PingTimeout);
    } else if session.is_unused() {
        session.connection.close(DisconnectReason::ProtocolError);
    }
}
