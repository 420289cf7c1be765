//! The options of the clients, from the plan.

use std::sync::Arc;

use presence_sdk::{Options, Reconnect};

use crate::roles::{FIRST_BACKOFF, LONGEST_BACKOFF};
use crate::settings::check_field;
use crate::shared::Server;
use crate::shared::Shared;

/// Events and calls that may wait, except for slow consumers: more than a client has at the rates of a load test.
const QUEUE: usize = 1 << 16;

/// A server, as the clients need it.
#[derive(Debug)]
pub(super) struct SdkServer {
    pub(super) url: String,
    pub(super) options: Arc<Options>,
    /// The options of slow consumers: the library's own number of events waits for them.
    pub(super) slow: Arc<Options>,
}

/// Returns the servers of the run.
///
/// # Errors
/// Credentials that can't be sent.
pub(super) fn servers(shared: &Shared) -> anyhow::Result<Vec<SdkServer>> {
    let settings = shared.settings();
    let mut access = Options::new();
    for field in &settings.headers {
        let (name, value) = check_field(field)?;
        access = access.header(name, value);
    }
    if settings.auth.is_some() {
        let auth: serde_json::Value = serde_json::from_str(&settings.auth_object()?)?;
        access = access.auth(&auth)?;
    }
    let prepare = |server: &Server| {
        let slow = access
            .clone()
            .heartbeat_interval(settings.keep_alive)
            .ack_timeout(settings.ack_timeout)
            .connect_timeout(settings.connect_timeout)
            .reconnect(Reconnect::new(FIRST_BACKOFF, LONGEST_BACKOFF))
            .queue_capacity(QUEUE)
            .max_message_bytes(server.endpoint.max_message);
        let slow = match &server.tls {
            Some(tls) => slow.tls(Arc::clone(&tls.config)),
            None => slow,
        };
        SdkServer {
            url: url(server),
            options: Arc::new(slow.clone().event_capacity(QUEUE)),
            slow: Arc::new(slow),
        }
    };
    Ok(shared.servers.iter().map(prepare).collect())
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
