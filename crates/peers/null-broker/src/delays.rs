//! Scripted delays of answers: they are known, so a test can check the times that a driver measures.

use std::sync::atomic::Ordering;
use std::time::Duration;

use load::clock;
use load::slots::Id;

use super::{Broker, Channel};
use amqp_client::stamp::Stamp;
use peer_kit::held::Held;

/// Returns the entry for a message from a list that repeats from its beginning; `None` if the list is empty.
fn in_turn(list: &[Duration], message: u64) -> Option<Duration> {
    let index = message.checked_rem(list.len() as u64)?;
    Some(list[index as usize])
}

/// A message that is not yet confirmed.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    tag: u64,
    /// The times from which it may be confirmed, 0 without a delay, and at which it was read, nanoseconds of
    /// CLOCK_MONOTONIC.
    due: u64,
    read_at: u64,
}

impl Broker {
    /// Returns when a message may be confirmed, and when it may be delivered; 0 without a delay.
    pub(super) fn plan(&mut self, message: u64) -> (u64, u64) {
        if !self.delays.is_none() {
            let due = self.delays.due(self.read_at);
            return (due, due);
        }
        let script = &self.script;
        let hold = script.hold.iter().find(|(held, _)| *held == message);
        let hold = hold.map(|(_, delay)| *delay);
        let deliver_after = hold.or_else(|| in_turn(&script.deliver_after, message));
        let due = |delay: Option<Duration>| {
            delay.map_or(0, |delay| self.read_at + delay.as_nanos() as u64)
        };
        let confirm_after = in_turn(&script.confirm_after, message);
        (due(confirm_after), due(deliver_after))
    }

    /// Blocks the whole broker for a while, if the script requests it for this message.
    pub(super) fn stall(&self, message: u64, body: &[u8]) {
        let stall = self.script.stall.iter().find(|(upon, _)| *upon == message);
        let Some((_, long)) = stall else { return };
        std::thread::sleep(*long);
        if let Some(stamp) = Stamp::read(body) {
            let late = clock::now().saturating_sub(stamp.start);
            self.stalled.store(late, Ordering::Relaxed);
        }
    }

    /// Lets the last message of a channel be confirmed from `due` on. Returns true if the channel confirms.
    pub(super) fn confirm_from(&mut self, id: Id, number: u16, due: u64) -> bool {
        let read_at = self.read_at;
        let Some(channel) = self.channel(id, number).filter(|it| it.confirms) else {
            return false;
        };
        channel.unconfirmed.push_back(Unconfirmed {
            tag: channel.published,
            due,
            read_at,
        });
        true
    }

    /// Returns when the next delayed confirm is due.
    pub(super) fn confirm_due(&self) -> u64 {
        let channels = self
            .peers
            .iter()
            .flat_map(|(_, peer)| peer.channels.values());
        let fronts = channels.filter_map(|channel| channel.unconfirmed.front());
        let due = fronts.map(|front| front.due).filter(|due| *due > 0);
        due.min().unwrap_or(u64::MAX)
    }
}

impl Channel {
    /// Takes the messages whose confirms are due, and returns the number of the last one.
    pub(super) fn confirmable(&mut self, now: u64, held: &mut Held) -> u64 {
        let mut last = self.confirmed;
        while let Some(next) = self.unconfirmed.pop_front_if(|next| next.due <= now) {
            last = next.tag;
            held.answer(next.read_at);
        }
        last
    }
}
