//! What the broker counts, and the page in the Prometheus text format, version 0.0.4.

use std::fmt::Write as _;

macro_rules! counts {
    ($($name:ident: $help:literal;)*) => {
        /// What happened since the start.
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
    connections_refused: "Connections closed because there were too many.";
    accepting_paused: "Times that clients were left waiting because there were no descriptors for them.";
    logins_refused: "Clients with a name or a password that is not known.";
    vhosts_refused: "Clients that asked for a virtual host which is not there.";
    channels_opened: "Channels opened.";
    messages_published: "Messages that came in whole.";
    messages_confirmed: "Publisher confirms, each message counted.";
    messages_refused: "Messages nacked because a queue was full or could not be stored.";
    messages_delivered: "Messages sent to consumers or by basic.get.";
    messages_redelivered: "Those among them that had been delivered before.";
    messages_acked: "Deliveries acknowledged.";
    messages_requeued: "Deliveries that went back to their queues.";
    messages_returned: "Mandatory messages that had no queue to go to.";
    messages_dropped: "Messages that left a queue unread: rejected, expired, too many, purged, deleted with it.";
    messages_dead_lettered: "Those among them that went on to another exchange.";
    bytes_received: "Bytes read from clients.";
    bytes_sent: "Bytes written to clients.";
}

/// What there is now.
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
    /// Whether messages cannot be stored: the disk is full, or failed.
    pub(crate) is_disk_out: bool,
}

/// The page.
pub(crate) fn page(counts: &Counts, gauges: Gauges) -> String {
    let mut page = String::with_capacity(4096);
    let now = [
        (
            "broker_connections",
            "Connections that are open.",
            gauges.connections,
        ),
        (
            "broker_channels",
            "Channels that are open.",
            gauges.channels,
        ),
        ("broker_consumers", "Consumers.", gauges.consumers),
        (
            "broker_exchanges",
            "Exchanges, those that are there from the beginning included.",
            gauges.exchanges,
        ),
        ("broker_queues", "Queues.", gauges.queues),
        (
            "broker_messages_ready",
            "Messages that wait in queues.",
            gauges.ready,
        ),
        (
            "broker_messages_unacked",
            "Messages that were delivered and are not settled.",
            gauges.unacked,
        ),
        (
            "broker_memory_bytes",
            "Memory of messages, by their lengths and a fixed share for each, and of what clients do not read.",
            gauges.memory,
        ),
        (
            "broker_memory_limit_bytes",
            "From where on publishers have to wait.",
            gauges.memory_limit,
        ),
        (
            "broker_backlog_bytes",
            "What was read of clients and is not processed yet.",
            gauges.backlog,
        ),
        (
            "broker_publishers_blocked",
            "1 while they do.",
            usize::from(gauges.is_blocked),
        ),
        (
            "broker_disk_bytes",
            "What is stored, with what is to be removed.",
            usize::try_from(gauges.disk).unwrap_or(usize::MAX),
        ),
        (
            "broker_disk_out",
            "1 while nothing can be stored: the disk is full, or has failed.",
            usize::from(gauges.is_disk_out),
        ),
    ];
    for (name, help, value) in now {
        let _ = writeln!(
            page,
            "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"
        );
    }
    for (name, help, value) in counts.all() {
        let _ = writeln!(
            page,
            "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}"
        );
    }
    page
}
