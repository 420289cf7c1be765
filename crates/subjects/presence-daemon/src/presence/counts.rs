//! Counters of the presence service.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use daemon_kit::MetricsPage;

use super::event::Reason;

/// Counters of the presence service. The threads share them: an addition without contention takes 5 ns.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) joins: AtomicU64,
    pub(crate) resumptions: AtomicU64,
    pub(crate) heartbeats: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) deliveries: AtomicU64,
    /// Members on this node.
    members: AtomicU64,
    leaves: [AtomicU64; Reason::ALL.len()],
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

impl Counts {
    /// Counts a member of this node that left.
    pub(crate) fn left(&self, reason: Reason) {
        self.members.fetch_sub(1, Relaxed);
        add(&self.leaves[reason as usize], 1);
    }

    /// Counts a new member, unless there are already `most`.
    pub(crate) fn begin_member(&self, most: usize) -> bool {
        if self.members.fetch_add(1, Relaxed) >= most as u64 {
            self.members.fetch_sub(1, Relaxed);
            return false;
        }
        true
    }

    pub(crate) fn set_on(&self, page: &MetricsPage) {
        let counters = [
            (
                "presence_joins_total",
                "Joins that were answered with ok.",
                &self.joins,
            ),
            (
                "presence_resumptions_total",
                "Joins that resumed a kept membership.",
                &self.resumptions,
            ),
            (
                "presence_heartbeats_total",
                "Heartbeats that were answered with ok.",
                &self.heartbeats,
            ),
            (
                "presence_refused_total",
                "Requests that were refused.",
                &self.refused,
            ),
            (
                "presence_events_total",
                "Events of rooms with members on this node.",
                &self.events,
            ),
            (
                "presence_deliveries_total",
                "Events that were sent to members.",
                &self.deliveries,
            ),
        ];
        for (name, help, counter) in counters {
            page.set_counter(name, help, counter.load(Relaxed));
        }
        for reason in Reason::ALL {
            page.set_labeled_counter(
                "presence_leaves_total",
                "Members of this node that left, by reason.",
                ("reason", reason.as_str()),
                self.leaves[reason as usize].load(Relaxed),
            );
        }
        let members = self.members.load(Relaxed);
        page.set_gauge("presence_members", "Members on this node.", members);
    }
}
