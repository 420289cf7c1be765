//! Counters of a daemon, and its page of metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use daemon_kit::MetricsPage;
use issue_rpc::{Answer, Code};

/// Counters since the start, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) groups: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) commit_ns: AtomicU64,
    succeeded: AtomicU64,
    failed: [AtomicU64; Code::ALL.len()],
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Relaxed);
}

/// Subtracts from a gauge.
pub(crate) fn subtract(gauge: &AtomicU64, number: u64) {
    gauge.fetch_sub(number, Relaxed);
}

/// Reads a counter.
pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

impl Counts {
    /// Counts an answer.
    pub(crate) fn answered(&self, answer: &Answer) {
        add(
            match answer.code() {
                None => &self.succeeded,
                Some(code) => &self.failed[code as usize],
            },
            1,
        );
    }

    /// Sets all metrics of a page.
    pub(crate) fn set(&self, page: &MetricsPage) {
        let counters = [
            (
                "issue_daemon_connections_accepted_total",
                "Connections accepted.",
                &self.accepted,
            ),
            (
                "issue_daemon_connections_refused_total",
                "Connections refused: too many, or of another user.",
                &self.refused,
            ),
            (
                "issue_daemon_requests_total",
                "Requests received.",
                &self.requests,
            ),
            (
                "issue_daemon_groups_total",
                "Groups of writes committed.",
                &self.groups,
            ),
            (
                "issue_daemon_writes_total",
                "Writes in committed groups.",
                &self.writes,
            ),
            (
                "issue_daemon_commit_nanoseconds_total",
                "Time from the begin of groups to the end of their commit.",
                &self.commit_ns,
            ),
        ];
        for (name, help, counter) in counters {
            page.set_counter(name, help, get(counter));
        }
        let gauges = [
            ("issue_daemon_connections", "Open connections.", &self.open),
            (
                "issue_daemon_requests_in_flight",
                "Requests that are not answered.",
                &self.in_flight,
            ),
        ];
        for (name, help, gauge) in gauges {
            page.set_gauge(name, help, get(gauge));
        }
        let answers = (
            "issue_daemon_answers_total",
            "Answers, by code; of success it is ok.",
        );
        page.set_labeled_counter(answers.0, answers.1, ("code", "ok"), get(&self.succeeded));
        for &code in Code::ALL {
            let count = get(&self.failed[code as usize]);
            page.set_labeled_counter(answers.0, answers.1, ("code", code.name()), count);
        }
    }
}
