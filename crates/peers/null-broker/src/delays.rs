//! Scripted delays of answers: they are known, so a test can check the times that a driver measures.

use std::sync::atomic::Ordering;
use std::time::Duration;

use load::clock;
use load::slots::Id;

use super::{Broker, Channel, Script};
use amqp_client::stamp::Stamp;

/// Returns the entry for a message from a list that repeats from its beginning; `None` if the list is empty.
fn in_turn(list: &[Duration], message: u64) -> Option<Duration> {
    let index = message.checked_rem(list.len() as u64)?;
    Some(list[index as usize])
}

impl Script {
    /// Returns the time at which a message may be delivered; 0 without a delay.
    pub(super) fn due(&self, message: u64) -> u64 {
        let held = self.hold.iter().find(|(held, _)| *held == message);
        let delay = held.map(|(_, delay)| *delay);
        let delay = delay.or_else(|| in_turn(&self.deliver_after, message));
        delay.map_or(0, |delay| clock::now() + delay.as_nanos() as u64)
    }
}

impl Broker {
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

    /// Sets when the last message of a channel is confirmed, if the script delays confirms.
    pub(super) fn confirm_later(&mut self, id: Id, number: u16, message: u64) {
        let after = in_turn(&self.script.confirm_after, message);
        if let (Some(after), Some(channel)) = (after, self.channel(id, number)) {
            let due = clock::now() + after.as_nanos() as u64;
            channel.unconfirmed.push_back((channel.published, due));
        }
    }

    /// Returns when the next delayed confirm is due.
    pub(super) fn confirm_due(&self) -> u64 {
        let channels = self
            .peers
            .iter()
            .flat_map(|(_, peer)| peer.channels.values());
        let fronts = channels.filter_map(|channel| channel.unconfirmed.front());
        fronts.map(|(_, due)| *due).min().unwrap_or(u64::MAX)
    }
}

impl Channel {
    /// Returns the number of the last message whose delayed confirm is due.
    pub(super) fn confirmable(&mut self, now: u64) -> u64 {
        let mut last = self.confirmed;
        while let Some((tag, _)) = self.unconfirmed.pop_front_if(|(_, due)| *due <= now) {
            last = tag;
        }
        last
    }
}
