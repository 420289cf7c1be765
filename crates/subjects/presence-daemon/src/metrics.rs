//! The metrics page of the daemon.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use daemon_kit::{MetricsPage, MetricsServer};
use socketio_server::{Count, Counts, DisconnectReason, Socket};

use crate::node::NodeCounts;
use crate::presence::Presence;

/// The counters of the transport, with their names and descriptions.
const COUNTERS: [(Count, &str, &str); 13] = [
    (
        Count::Accepted,
        "presence_connections_accepted_total",
        "TCP connections that were accepted.",
    ),
    (
        Count::AcceptErrors,
        "presence_accept_errors_total",
        "Failures to accept, each with a pause of 10 ms.",
    ),
    (
        Count::HttpEnded,
        "presence_http_connections_ended_total",
        "TCP connections that were closed, or became WebSockets.",
    ),
    (
        Count::HandshakesWebSocket,
        "presence_handshakes_websocket_total",
        "Sessions that began over WebSocket.",
    ),
    (
        Count::HandshakesPolling,
        "presence_handshakes_polling_total",
        "Sessions that began over long-polling.",
    ),
    (
        Count::HandshakesRefused,
        "presence_handshakes_refused_total",
        "Requests that were refused: a bad handshake or an unknown session.",
    ),
    (
        Count::HandshakesFull,
        "presence_handshakes_full_total",
        "Handshakes beyond the limit of connections, answered with 503.",
    ),
    (
        Count::Upgrades,
        "presence_upgrades_total",
        "Sessions that went from long-polling to WebSocket.",
    ),
    (
        Count::FramesReceived,
        "presence_frames_received_total",
        "Engine.IO packets received.",
    ),
    (
        Count::FramesSent,
        "presence_frames_sent_total",
        "Engine.IO packets queued for sending.",
    ),
    (
        Count::BytesReceived,
        "presence_received_bytes_total",
        "Bytes read from WebSockets, and bodies of POST requests.",
    ),
    (
        Count::BytesSent,
        "presence_sent_bytes_total",
        "Bytes written to WebSockets, and bodies of responses to polls.",
    ),
    (
        Count::WritesBlocked,
        "presence_writes_blocked_total",
        "Writes that filled a client's socket, so that the rest had to wait.",
    ),
];

/// The metrics page of a daemon, and what it shows.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// `None` if the page is not served.
    pub(crate) server: Option<MetricsServer>,
    pub(crate) page: MetricsPage,
    pub(crate) transport: Arc<Counts>,
    pub(crate) presence: Arc<Presence<Arc<Socket>>>,
    /// `None` for a single node.
    pub(crate) node: Option<Arc<NodeCounts>>,
}

impl Metrics {
    /// Serves the page, if it is to be served. Never ends but with an error.
    pub(crate) async fn serve(mut self) -> anyhow::Result<Infallible> {
        match self.server.take() {
            Some(server) => server.serve(|| self.render(), || None).await,
            None => pending().await,
        }
    }

    fn render(&self) -> String {
        set_transport(&self.page, &self.transport);
        self.presence.set_metrics(&self.page);
        if let Some(node) = &self.node {
            node.set_on(&self.page);
        }
        self.page.render()
    }
}

/// Sets the metrics of the transport on a page.
fn set_transport(page: &MetricsPage, counts: &Counts) {
    for (counter, name, help) in COUNTERS {
        page.set_counter(name, help, counts.total(counter));
    }
    for reason in DisconnectReason::ALL {
        page.set_labeled_counter(
            "presence_connections_closed_total",
            "Sessions that ended, by reason.",
            ("reason", reason.as_str()),
            counts.ended(reason),
        );
    }
    page.set_gauge(
        "presence_connections_open",
        "Sessions that are open.",
        counts.open_sessions(),
    );
    page.set_gauge(
        "presence_polls_waiting",
        "Requests of long-polling that wait for packets.",
        counts.waiting_polls(),
    );
}
