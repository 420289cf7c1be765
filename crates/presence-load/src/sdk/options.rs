//! The options of the clients, from the plan.

use std::sync::Arc;
use std::time::Duration;

use presence_sdk::{Options, Reconnect};

use crate::shared::Shared;
use crate::target::Server;

/// The bounds of the delays before a client connects again: those of the protocol mode.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// Events and calls that may wait: more than a client has at the rates of a load test.
const QUEUE: usize = 1 << 16;

/// Returns the URL of each server, and the options of its clients.
pub(super) fn servers(shared: &Shared) -> Vec<(String, Arc<Options>)> {
    let settings = shared.settings();
    let prepare = |server: &Server| {
        let options = Options::new()
            .heartbeat_interval(settings.keep_alive)
            .ack_timeout(settings.ack_timeout)
            .connect_timeout(settings.connect_timeout)
            .reconnect(Reconnect::new(FIRST_DELAY, LONGEST_DELAY))
            .event_capacity(QUEUE)
            .queue_capacity(QUEUE)
            .max_message_bytes(server.endpoint.max_message);
        let options = match &server.tls {
            Some(tls) => options.tls(Arc::clone(&tls.config)),
            None => options,
        };
        (url(server), Arc::new(options))
    };
    shared.servers.iter().map(prepare).collect()
}

fn url(server: &Server) -> String {
    let scheme = if server.tls.is_some() { "wss" } else { "ws" };
    let endpoint = &server.endpoint;
    let query = match endpoint.query.as_str() {
        "" => String::new(),
        query => format!("?{query}"),
    };
    format!("{scheme}://{}{}{query}", endpoint.host, endpoint.path)
}
