//! The broker's counters and their page.
//!
//! They are plain integers of the one thread that owns all state: an atomic addition per message would cost more
//! than all else about counting it.

use daemon_kit::MetricsPage;

macro_rules! counts {
    ($($name:ident: $help:literal;)*) => {
        /// Counters since the start.
        #[derive(Debug, Default, Clone, Copy)]
        pub(crate) struct Counts { $(pub(crate) $name: u64,)* }

        impl Counts {
            fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((concat!("broker_", stringify!($name), "_total"), $help, self.$name),)*].into_iter()
            }
        }
    };
}

counts! {
    connections_opened: "Connections accepted.";
    connections_refused: "Connections closed because of the connection limit.";
    accepting_paused: "Times that accepting paused because no file descriptors were left.";
    logins_refused: "Logins refused because of an unknown user or a wrong password.";
    vhosts_refused: "Clients refused because of an unknown virtual host.";
    channels_opened: "Channels opened.";
    messages_published: "Messages received completely.";
    messages_confirmed: "Messages confirmed to publishers.";
    messages_refused: "Messages nacked because a queue was full or the message could not be stored.";
    messages_delivered: "Messages sent to consumers or by basic.get.";
    messages_redelivered: "Messages delivered that had been delivered before.";
    messages_acked: "Deliveries acknowledged.";
    messages_requeued: "Deliveries that were requeued.";
    messages_returned: "Mandatory messages returned because no queue took them.";
    messages_dropped: "Messages that left a queue unread: rejected, expired, dropped by a limit, purged, or deleted with the queue.";
    messages_dead_lettered: "Dropped messages that were published to a dead-letter exchange.";
    bytes_received: "Bytes read from clients.";
    bytes_sent: "Bytes written to clients.";
}

/// Current values for the gauges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauges {
    pub(crate) connections: usize,
    pub(crate) channels: usize,
    pub(crate) consumers: usize,
    pub(crate) exchanges: usize,
    pub(crate) queues: usize,
    pub(crate) ready: usize,
    pub(crate) unacked: usize,
    pub(crate) memory: usize,
    pub(crate) memory_limit: usize,
    pub(crate) backlog: usize,
    pub(crate) is_blocked: bool,
    /// Bytes of the log.
    pub(crate) disk: u64,
    /// True if messages cannot be stored: the disk is full, or failed.
    pub(crate) is_disk_out: bool,
}

/// Renders the metrics.
pub(crate) fn render(page: &MetricsPage, counts: &Counts, gauges: Gauges) -> String {
    let now = [
        (
            "broker_connections",
            "Open connections.",
            gauges.connections,
        ),
        ("broker_channels", "Open channels.", gauges.channels),
        ("broker_consumers", "Consumers.", gauges.consumers),
        (
            "broker_exchanges",
            "Exchanges, including the predeclared ones.",
            gauges.exchanges,
        ),
        ("broker_queues", "Queues.", gauges.queues),
        (
            "broker_messages_ready",
            "Messages ready in queues.",
            gauges.ready,
        ),
        (
            "broker_messages_unacked",
            "Messages that were delivered and are not settled.",
            gauges.unacked,
        ),
        (
            "broker_memory_bytes",
            "Memory of messages (their lengths plus a fixed overhead each) and of output that clients do not read.",
            gauges.memory,
        ),
        (
            "broker_memory_limit_bytes",
            "Memory above which publishers must wait.",
            gauges.memory_limit,
        ),
        (
            "broker_backlog_bytes",
            "Bytes received from clients and not processed yet.",
            gauges.backlog,
        ),
        (
            "broker_publishers_blocked",
            "1 while publishers must wait for memory.",
            usize::from(gauges.is_blocked),
        ),
        (
            "broker_disk_bytes",
            "Bytes of stored data, including data to be removed.",
            gauges.disk as usize,
        ),
        (
            "broker_disk_out",
            "1 while nothing can be stored because the disk is full or failed.",
            usize::from(gauges.is_disk_out),
        ),
    ];
    for (name, help, value) in now {
        page.set_gauge(name, help, value as u64);
    }
    for (name, help, value) in counts.all() {
        page.set_counter(name, help, value);
    }
    page.render()
}
