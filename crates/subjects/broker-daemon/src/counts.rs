//! The broker's counters and gauges, and their page.
//!
//! Counters are plain integers of the one thread that owns all state: an atomic addition per message would cost more
//! than all else about counting it.

use daemon_kit::MetricsPage;

macro_rules! metrics {
    ($(#[$doc:meta])* $struct:ident, $suffix:literal: $($name:ident: $help:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy)]
        pub(crate) struct $struct { $(pub(crate) $name: u64,)* }

        impl $struct {
            fn all(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((concat!("broker_", stringify!($name), $suffix), $help, self.$name),)*].into_iter()
            }
        }
    };
}

metrics! {
    /// Counters since the start.
    Counts, "_total":
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

metrics! {
    /// Current values.
    Gauges, "":
    connections: "Open connections.";
    channels: "Open channels.";
    consumers: "Consumers.";
    exchanges: "Exchanges, including the predeclared ones.";
    queues: "Queues.";
    messages_ready: "Messages ready in queues.";
    messages_unacked: "Messages that were delivered and are not settled.";
    memory_bytes: "Memory of messages (their lengths plus a fixed overhead each) and of output that clients do not read.";
    memory_limit_bytes: "Memory above which publishers must wait.";
    backlog_bytes: "Bytes received from clients and not processed yet.";
    publishers_blocked: "1 while publishers must wait for memory.";
    disk_bytes: "Bytes of stored data, including data to be removed.";
    disk_out: "1 while nothing can be stored because the disk is full or failed.";
}

/// Renders the metrics.
pub(crate) fn render(page: &MetricsPage, counts: &Counts, gauges: &Gauges) -> String {
    for (name, help, value) in gauges.all() {
        page.set_gauge(name, help, value);
    }
    for (name, help, value) in counts.all() {
        page.set_counter(name, help, value);
    }
    page.render()
}
