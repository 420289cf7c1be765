//! Queues, an overview and health checks under the paths and keys of RabbitMQ's management API, and the metrics pages.
//! Lists are written in slices, with the turns of clients in between. A list is therefore no snapshot of one moment:
//! queues deleted meanwhile may be left out.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daemon_kit::{MetricsPage, Page, PageRequest};
use serde_json::{Value, json};
use tokio::task::yield_now;

use crate::broker::describe::{NODE, QUEUE_METRICS};
use crate::counts;
use crate::server::SharedState;

/// Queues written in one slice, which takes some 100 µs.
const SLICE: usize = 64;
/// The RabbitMQ release whose answers this broker gives: tools derive the available requests from it.
const COMPATIBLE: &str = "3.10.8";
const CHALLENGE: &str = "Basic realm=\"broker-daemon\"";
/// Names by which tools may request the AMQP listener.
const AMQP: [&str; 6] = [
    "amqp",
    "amqp091",
    "amqp0.9.1",
    "amqp0-9-1",
    "amqp-0-9-1",
    "amqp09",
];

/// The broker and its listeners.
#[derive(Debug)]
pub(crate) struct Management {
    pub(crate) state: SharedState,
    pub(crate) clients: SocketAddr,
    pub(crate) metrics_address: SocketAddr,
    pub(crate) page: MetricsPage,
}

/// The answer to a request: a status and a JSON text.
type Answer = (u16, String);

impl Management {
    /// Answers a request; `None` if the page does not exist.
    pub(crate) async fn answer(self: Rc<Self>, request: PageRequest) -> Option<Page> {
        match request.path.as_str() {
            "/metrics" => Some(Page::metrics(self.metrics())),
            "/healthz" => self.state.borrow().broker.problem().map(Page::problem),
            "/metrics/per-object" => Some(Page::metrics(self.metrics_per_object().await)),
            path => {
                let rest = path.strip_prefix("/api/")?;
                Some(page(self.answer_api(&request, rest).await))
            }
        }
    }

    async fn answer_api(&self, request: &PageRequest, path: &str) -> Answer {
        if !self.may_ask(request) {
            return failure(401, "not_authorized", "Login failed");
        }
        let segments: Option<Vec<String>> = path.split('/').map(decode).collect();
        let Some(segments) = segments else {
            return failure(400, "bad_request", "the path can't be decoded");
        };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let found = self.find(&segments).await;
        found.unwrap_or_else(|| failure(404, "Object Not Found", "Not Found"))
    }

    fn may_ask(&self, request: &PageRequest) -> bool {
        let login = request.authorization.as_deref().and_then(login);
        login.is_some_and(|login| self.state.borrow_mut().broker.may_ask(&login, request.peer))
    }

    async fn find(&self, segments: &[&str]) -> Option<Answer> {
        if let ["health", "checks", check @ ..] = segments {
            return self.check(check);
        }
        let (kind, rest) = segments.split_first()?;
        let vhost = match rest.first() {
            Some(name) => Some(self.state.borrow().broker.topology.vhost_index(name)?),
            None => None,
        };
        let text = match (*kind, rest, vhost) {
            ("overview", [], _) => self.overview().to_string(),
            ("queues", [] | [_], _) => self.queues(vhost).await,
            ("queues", [_, name], Some(vhost)) => self.queue(vhost, name)?,
            _ => return None,
        };
        Some((200, text))
    }

    /// Answers `/api/health/checks/…`.
    fn check(&self, check: &[&str]) -> Option<Answer> {
        Some(match *check {
            ["alarms"] => self.alarms("There are alarms in effect in the cluster"),
            ["local-alarms"] => self.alarms("There are alarms in effect on the node"),
            ["port-listener", port] => self.port(port),
            ["protocol-listener", protocol] => protocol_listener(protocol),
            // There is no TLS, and one node.
            ["certificate-expiration", within, unit] => {
                let units = ["days", "weeks", "months", "years"];
                match (within.parse::<u32>(), units.contains(&unit)) {
                    (Ok(_), true) => passed(json!({})),
                    (Err(_), _) => failure(400, "bad_request", "Invalid expiration"),
                    (_, false) => failure(400, "bad_request", "Invalid expiration unit"),
                }
            }
            ["virtual-hosts"] => passed(json!({})),
            ["node-is-quorum-critical" | "node-is-mirror-sync-critical"] => {
                passed(json!({ "reason": "single node cluster" }))
            }
            _ => return None,
        })
    }

    fn alarms(&self, reason: &str) -> Answer {
        let alarms = self.state.borrow().broker.alarms();
        if alarms.is_empty() {
            return passed(json!({}));
        }
        let alarms = alarms.iter();
        let alarms: Value = alarms
            .map(|resource| json!({ "node": NODE, "resource": resource }))
            .collect();
        failed(reason, json!({ "alarms": alarms }))
    }

    fn port(&self, port: &str) -> Answer {
        let ports = [self.clients.port(), self.metrics_address.port()];
        match port.parse::<u16>() {
            Err(_) => failure(400, "bad_request", "Invalid port"),
            Ok(port) if ports.contains(&port) => passed(json!({ "port": port })),
            Ok(port) => failed(
                "No active listener",
                json!({ "missing": port, "ports": ports }),
            ),
        }
    }

    fn overview(&self) -> Value {
        let version = env!("CARGO_PKG_VERSION");
        let broker = &self.state.borrow().broker;
        let (counts, gauges) = (&broker.counts, broker.gauges());
        let types = ["direct", "fanout", "headers", "topic"];
        let listeners = [("amqp", self.clients), ("http", self.metrics_address)];
        json!({
            "management_version": version,
            "product_name": env!("CARGO_PKG_NAME"),
            "product_version": version,
            "rabbitmq_version": COMPATIBLE,
            "cluster_name": NODE,
            "node": NODE,
            "rates_mode": "none",
            "exchange_types": types.map(|name| json!({ "name": name, "enabled": true })),
            "message_stats": {
                "publish": counts.messages_published,
                "confirm": counts.messages_confirmed,
                "deliver_get": counts.messages_delivered,
                "redeliver": counts.messages_redelivered,
                "ack": counts.messages_acked,
                "return_unroutable": counts.messages_returned,
            },
            "queue_totals": {
                "messages": gauges.messages_ready + gauges.messages_unacked,
                "messages_ready": gauges.messages_ready,
                "messages_unacknowledged": gauges.messages_unacked,
            },
            "object_totals": {
                "channels": gauges.channels,
                "connections": gauges.connections,
                "consumers": gauges.consumers,
                "exchanges": gauges.exchanges,
                "queues": gauges.queues,
            },
            "listeners": listeners.map(|(protocol, address)| json!({
                "node": NODE,
                "protocol": protocol,
                "ip_address": address.ip(),
                "port": address.port(),
            })),
        })
    }

    /// Describes queues as an array. It grows as a text: a list of 10,000 queues takes no tree in memory.
    async fn queues(&self, vhost: Option<usize>) -> String {
        let ids = self.state.borrow().broker.queue_ids(vhost);
        let mut list = String::from("[");
        for slice in ids.chunks(SLICE) {
            {
                let broker = &self.state.borrow().broker;
                for queue in slice.iter().filter_map(|id| broker.describe_queue(*id)) {
                    let before = if list.len() == 1 { "" } else { "," };
                    // Writing to a string does not fail.
                    let _ = write!(list, "{before}{queue}");
                }
            }
            yield_now().await;
        }
        list + "]"
    }

    fn queue(&self, vhost: usize, name: &str) -> Option<String> {
        let broker = &self.state.borrow().broker;
        let queue = broker.describe_queue(broker.queue_id(vhost, name)?)?;
        Some(queue.to_string())
    }

    fn metrics(&self) -> String {
        let broker = &self.state.borrow().broker;
        counts::render(&self.page, &broker.counts, &broker.gauges())
    }

    /// Returns the page of metrics, followed by the metrics of each queue.
    async fn metrics_per_object(&self) -> String {
        let mut page = self.metrics();
        let ids = self.state.borrow().broker.queue_ids(None);
        // All samples of a metric must be contiguous.
        let mut texts =
            QUEUE_METRICS.map(|(name, kind, help, _)| MetricsPage::head(name, kind, help));
        for slice in ids.chunks(SLICE) {
            {
                let broker = &self.state.borrow().broker;
                let slice = slice.iter();
                slice.for_each(|id| broker.write_samples(*id, &mut texts));
            }
            yield_now().await;
        }
        texts.iter().for_each(|text| page.push_str(text));
        page
    }
}

fn protocol_listener(protocol: &str) -> Answer {
    let name = if AMQP.contains(&protocol) {
        "amqp"
    } else {
        protocol
    };
    match name {
        "amqp" | "http" => passed(json!({ "protocol": name })),
        _ => failed(
            "No active listener",
            json!({ "missing": name, "protocols": ["http", "amqp"] }),
        ),
    }
}

/// Returns the answer of a check that has passed, with further fields.
fn passed(mut fields: Value) -> Answer {
    fields["status"] = "ok".into();
    (200, fields.to_string())
}

/// Returns the answer of a check that has failed, with further fields.
fn failed(reason: &str, mut fields: Value) -> Answer {
    fields["status"] = "failed".into();
    fields["reason"] = reason.into();
    (503, fields.to_string())
}

fn failure(status: u16, error: &str, reason: &str) -> Answer {
    let text = json!({ "error": error, "reason": reason }).to_string();
    (status, text)
}

fn page((status, body): Answer) -> Page {
    Page {
        status,
        content_type: "application/json",
        body,
        challenge: (status == 401).then_some(CHALLENGE),
    }
}

/// Parses name and password of a Basic `Authorization` (RFC 7617).
fn login(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

/// Decodes a percent-encoded part of a path. `None` if the encoding is invalid or the result is not UTF-8.
fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2)?;
        let digits = str::from_utf8(digits).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = more;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_whole_or_not_at_all() {
        assert_eq!(decode("%2F").as_deref(), Some("/"));
        assert_eq!(decode("a%20b%C3%A9+").as_deref(), Some("a bé+"));
        for wrong in ["%", "%2", "%+1", "%zz", "%ff"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_password_may_hold_colons() {
        let pair = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        assert_eq!(login("Basic YTpiOmM="), pair("a", "b:c"));
        assert_eq!(login("basic YTo="), pair("a", ""));
        for wrong in ["Bearer YTpi", "Basic", "Basic YQ==", "Basic ?"] {
            assert_eq!(login(wrong), None, "{wrong}");
        }
    }
}
