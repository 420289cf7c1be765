//! Counters of a node.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use daemon_kit::MetricsPage;

/// Counters of a node. Only the thread of the node changes them.
#[derive(Debug, Default)]
pub(crate) struct NodeCounts {
    pub(crate) is_up: AtomicU64,
    pub(crate) degraded_us: AtomicU64,
    pub(crate) interruptions: AtomicU64,
    scripts: AtomicU64,
    writes: AtomicU64,
    pub(crate) messages: AtomicU64,
    pub(crate) removed: AtomicU64,
}

impl NodeCounts {
    /// Counts a script that has this many writes.
    pub(crate) fn script(&self, writes: usize) {
        self.scripts.fetch_add(1, Relaxed);
        self.writes.fetch_add(writes as u64, Relaxed);
    }

    pub(crate) fn set_on(&self, page: &MetricsPage) {
        let counters = [
            (
                "presence_redis_interruptions_total",
                "Times that Redis could not be reached any more.",
                &self.interruptions,
            ),
            (
                "presence_redis_scripts_total",
                "Scripts with writes that Redis ran for this node.",
                &self.scripts,
            ),
            (
                "presence_redis_writes_total",
                "Writes in these scripts.",
                &self.writes,
            ),
            (
                "presence_redis_messages_total",
                "Messages with events of other nodes.",
                &self.messages,
            ),
            (
                "presence_nodes_removed_members_total",
                "Members of dead nodes that this one removed.",
                &self.removed,
            ),
        ];
        for (name, help, counter) in counters {
            page.set_counter(name, help, counter.load(Relaxed));
        }
        let up = self.is_up.load(Relaxed);
        page.set_gauge("presence_redis_up", "1 while Redis can be reached.", up);
        let seconds = self.degraded_us.load(Relaxed) / 1_000_000;
        page.set_counter(
            "presence_degraded_seconds_total",
            "Seconds without Redis.",
            seconds,
        );
    }
}
