//! The counts of the audit.

use load::recorder::Recorder;

use super::window::Arrival;
use crate::outcome::count;

/// The findings of the audit since they were last recorded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AuditCounts {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) lost_with_sender: u64,
    pub(crate) lost_joins: u64,
    pub(crate) lost_leaves: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) wrong_room: u64,
    pub(crate) wrong_state: u64,
    pub(crate) wrong_epoch: u64,
    pub(crate) wrong_time: u64,
    pub(crate) wrong_type: u64,
    pub(crate) false_leaves: u64,
    pub(crate) snapshot_errors: u64,
    pub(crate) lingering: u64,
    pub(crate) sequence_gaps: u64,
    pub(crate) foreign: u64,
}

impl AuditCounts {
    /// Counts an event that did not arrive in its place.
    pub(super) fn judge(&mut self, arrival: Option<Arrival>) {
        match arrival {
            Some(Arrival::Late) => self.reordered += 1,
            Some(Arrival::Again) => self.duplicated += 1,
            Some(Arrival::Later { .. }) | None => {}
        }
    }

    /// Counts joins and leaves that never arrived: bits as in [`Memberships`](crate::roles::user::Memberships).
    pub(super) fn lose(&mut self, events: u16) {
        self.lost_joins += u64::from((events & 0xAAAA).count_ones());
        self.lost_leaves += u64::from((events & 0x5555).count_ones());
    }

    /// Records the counts, and resets them. Errors are recorded even if there are none, so that a result shows that it
    /// was audited.
    pub(crate) fn write(&mut self, record: &Recorder, is_last: bool) {
        let counts = std::mem::take(self);
        for (name, number) in [
            (count::EVENTS, counts.events),
            (count::LOST, counts.lost),
            (count::LOST_WITH_SENDER, counts.lost_with_sender),
            (count::LOST_JOINS, counts.lost_joins),
            (count::LOST_LEAVES, counts.lost_leaves),
            (count::DUPLICATED, counts.duplicated),
            (count::REORDERED, counts.reordered),
            (count::WRONG_ROOM, counts.wrong_room),
            (count::WRONG_STATE, counts.wrong_state),
            (count::WRONG_EPOCH, counts.wrong_epoch),
            (count::WRONG_TIME, counts.wrong_time),
            (count::WRONG_TYPE, counts.wrong_type),
            (count::FALSE_LEAVES, counts.false_leaves),
            (count::SNAPSHOT_ERRORS, counts.snapshot_errors),
            (count::LINGERING, counts.lingering),
            (count::SEQUENCE_GAPS, counts.sequence_gaps),
            (count::FOREIGN, counts.foreign),
        ] {
            if number > 0 || is_last {
                record.count(name, number);
            }
        }
    }
}
