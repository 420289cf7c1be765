//! Publisher confirms of a channel.

use std::collections::VecDeque;

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
}

impl Confirms {
    /// Adds a published message.
    pub(crate) fn publish(&mut self, verdict: Option<Verdict>) {
        self.published += 1;
        let Some(verdict) = verdict else { return };
        self.special.push_back((self.published, verdict));
    }

    /// Calls `send` for each due confirm with three values: true for an ack, its tag, and true if it covers all earlier
    /// messages. Returns how many messages they cover. Messages that wait for a failed log are nacked: it is unknown if
    /// they are on disk.
    pub(crate) fn settle(
        &mut self,
        synced: u64,
        has_failed: bool,
        mut send: impl FnMut(bool, u64, bool),
    ) -> u64 {
        let before = self.confirmed;
        while let Some((number, verdict)) = self.special.front().copied() {
            match verdict {
                Verdict::Stored(ticket) if ticket <= synced => {}
                Verdict::Stored(_) if !has_failed => {
                    self.ack_up_to(number - 1, &mut send);
                    return self.confirmed - before;
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
        self.confirmed - before
    }

    fn ack_up_to(&mut self, number: u64, send: &mut impl FnMut(bool, u64, bool)) {
        if number > self.confirmed {
            send(true, number, number > self.confirmed + 1);
            self.confirmed = number;
        }
    }

    /// Returns true if some messages wait for the log.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.special.is_empty()
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
            confirms.settle(synced, false, |is_ack, tag, multiple| {
                sent.push((is_ack, tag, multiple))
            });
            sent
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
        assert_eq!(settle(&mut confirms, 6), [(true, 2, true)]);
        assert_eq!(settle(&mut confirms, 6), []);
        assert_eq!(
            settle(&mut confirms, 8),
            [(true, 4, true), (false, 5, false)]
        );
        assert!(confirms.is_waiting());
        assert_eq!(settle(&mut confirms, 9), [(true, 6, false)]);
        assert!(!confirms.is_waiting());
    }
}
