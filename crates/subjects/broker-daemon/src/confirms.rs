//! Publisher confirms of a channel.

use std::collections::VecDeque;
use std::mem;

/// A confirm that is not a plain ack at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A queue refused the message.
    Refused,
    /// The message is stored once the log has synced up to this ticket.
    Stored(u64),
}

/// Publisher confirms. They are sent in order, so that one confirm can cover many messages.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    /// The number of the last message.
    published: u64,
    /// The number up to which everything is confirmed.
    confirmed: u64,
    /// Later messages that are not simply acked.
    special: VecDeque<(u64, Verdict)>,
    /// True if its channel is listed as one with confirms to send.
    is_listed: bool,
}

impl Confirms {
    /// Adds a published message. Returns true if the channel must be listed as one with confirms to send.
    pub(crate) fn publish(&mut self, verdict: Option<Verdict>) -> bool {
        self.published += 1;
        if let Some(verdict) = verdict {
            self.special.push_back((self.published, verdict));
        }
        !mem::replace(&mut self.is_listed, true)
    }

    /// Calls `send` for each due confirm with three values: true for an ack, its tag, and true if it covers all earlier
    /// messages. Returns how many messages they cover, and true if others wait for the log, so that the channel stays
    /// listed. Messages that wait for a failed log are nacked: it is unknown if they are on disk.
    pub(crate) fn settle(
        &mut self,
        synced: u64,
        has_failed: bool,
        mut send: impl FnMut(bool, u64, bool),
    ) -> (u64, bool) {
        let before = self.confirmed;
        while let Some((number, verdict)) = self.special.front().copied() {
            match verdict {
                Verdict::Stored(ticket) if ticket <= synced => {}
                Verdict::Stored(_) if !has_failed => {
                    self.ack_up_to(number - 1, &mut send);
                    return (self.confirmed - before, true);
                }
                Verdict::Stored(_) | Verdict::Refused => {
                    self.ack_up_to(number - 1, &mut send);
                    send(false, number, false);
                    self.confirmed = number;
                }
            }
            self.special.pop_front();
        }
        self.ack_up_to(self.published, &mut send);
        self.is_listed = false;
        (self.confirmed - before, false)
    }

    fn ack_up_to(&mut self, number: u64, send: &mut impl FnMut(bool, u64, bool)) {
        if number > self.confirmed {
            send(true, number, number > self.confirmed + 1);
            self.confirmed = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirms_wait_for_the_log_and_one_speaks_for_many() {
        let mut confirms = Confirms::default();
        let settle = |confirms: &mut Confirms, synced| {
            let mut sent = Vec::new();
            let (_, waits) = confirms.settle(synced, false, |is_ack, tag, multiple| {
                sent.push((is_ack, tag, multiple))
            });
            (sent, waits)
        };
        for verdict in [
            None,
            None,
            Some(Verdict::Stored(7)),
            None,
            Some(Verdict::Refused),
            Some(Verdict::Stored(9)),
        ] {
            confirms.publish(verdict);
        }
        for (synced, sent, waits) in [
            (6, vec![(true, 2, true)], true),
            (6, vec![], true),
            (8, vec![(true, 4, true), (false, 5, false)], true),
            (9, vec![(true, 6, false)], false),
        ] {
            assert_eq!(settle(&mut confirms, synced), (sent, waits));
        }
    }
}
