//! Answers that come late on purpose, by a script: what a driver must measure is known then.

use std::sync::atomic::Ordering;
use std::time::Duration;

use harness::clock;
use harness::slots::Id;

use super::{Broker, Channel};
use crate::stamp::Stamp;

/// What a message in this place is given of a list that begins anew at its end; nothing of none.
pub(super) fn in_turn(list: &[Duration], place: u64) -> Option<Duration> {
    let at = place.checked_rem(list.len() as u64)?;
    Some(list[at as usize])
}

impl Broker {
    /// Does nothing at all for a while, where the script says so upon this message.
    pub(super) fn stall(&self, place: u64, body: &[u8]) {
        let stall = self.script.stall.iter().find(|(upon, _)| *upon == place);
        let Some((_, long)) = stall else { return };
        std::thread::sleep(*long);
        if let Some(stamp) = Stamp::read(body) {
            let late = clock::now().saturating_sub(stamp.start);
            self.stalled.store(late, Ordering::Relaxed);
        }
    }

    /// Notes when the last message of a channel is to be confirmed, where the script delays confirms.
    pub(super) fn confirm_later(&mut self, id: Id, number: u16, place: u64) {
        let after = in_turn(&self.script.confirm_after, place);
        if let (Some(after), Some(channel)) = (after, self.channel(id, number)) {
            let due = clock::now() + after.as_nanos() as u64;
            channel.unconfirmed.push_back((channel.published, due));
        }
    }

    /// When the next confirm is due that was delayed.
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
    /// The last message that may be confirmed, of those that are delayed.
    pub(super) fn confirmable(&mut self, now: u64) -> u64 {
        let mut last = self.confirmed;
        while let Some((tag, _)) = self.unconfirmed.pop_front_if(|(_, due)| *due <= now) {
            last = tag;
        }
        last
    }
}
