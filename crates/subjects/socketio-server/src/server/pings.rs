//! Pings the sessions of a worker, and ends those that do not answer.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use daemon_kit::clock::{self, Timer};

use crate::disconnect_reason::DisconnectReason;
use crate::engine::frame::Frame;
use crate::server::heartbeats::Due;
use crate::server::slots::Slot;
use crate::server::worker::Worker;
use crate::session::Session;
use crate::session::engine::millis;

/// Pings the sessions of a worker, and ends those that do not answer. Without timers of Tokio, the waits of the worker
/// have no timeout.
///
/// # Errors
/// The system refuses or fails the timer.
pub(crate) async fn run(worker: &Worker) -> io::Result<Infallible> {
    let heartbeats = &worker.heartbeats;
    let mut timer = Timer::new()?;
    loop {
        let now = worker.engine.now();
        run_due(worker, now);
        let changed = heartbeats.changed.notified();
        if let Some(at) = heartbeats.next() {
            // One more: the time of the engine is rounded down.
            let wait = at.saturating_sub(now).saturating_add(1);
            timer.set(clock::now().saturating_add(wait.saturating_mul(1_000_000)))?;
        }
        tokio::select! {
            expired = timer.expired() => expired?,
            () = changed => {}
        }
    }
}

/// Does what is due by a time of the engine's clock.
pub(crate) fn run_due(worker: &Worker, now: u64) {
    let heartbeats = &worker.heartbeats;
    let ping = Frame::from_text("2");
    while let Some(slot) = heartbeats.take(now, Due::Ping) {
        send_ping(worker, slot, now, &ping);
    }
    while let Some(slot) = heartbeats.take(now, Due::Answer) {
        check_answer(worker, slot, now);
    }
    while let Some(slot) = heartbeats.take(now, Due::Connect) {
        check_connect(worker, slot);
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
    let heartbeats = &worker.heartbeats;
    let at = answer_due(worker, &session);
    heartbeats.add(at, Due::Answer, slot);
    heartbeats.add(next, Due::Ping, slot);
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
