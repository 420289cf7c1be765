//! The read-only part of RabbitMQ's management API, as used by tests, probes and tools. Lists are written in slices,
//! with the turns of clients in between. A list is therefore no snapshot of one moment: objects deleted meanwhile may
//! be left out.

use std::net::SocketAddr;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use daemon_kit::{MetricsPage, Page, PageRequest};
use tokio::task::yield_now;

use crate::broker::Broker;
use crate::broker::describe::{NODE, QUEUE_METRICS};
use crate::json::Json;
use crate::server::Shared;

/// Objects written in one slice, which takes some 100 µs.
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
    pub(crate) state: Shared,
    pub(crate) clients: SocketAddr,
    pub(crate) metrics_address: SocketAddr,
    pub(crate) page: MetricsPage,
}

/// The answer to a request: a status and its content.
type Answer = (u16, Json);

impl Management {
    /// Answers a request; `None` if the page does not exist.
    pub(crate) async fn answer(self: Rc<Self>, request: PageRequest) -> Option<Page> {
        match request.path.as_str() {
            "/metrics" => {
                let text = self.state.borrow().broker.render_metrics(&self.page);
                Some(Page::metrics(text))
            }
            "/metrics/per-object" => Some(Page::metrics(self.metrics_per_object().await)),
            path => {
                let rest = path.strip_prefix("/api/")?;
                let segments: Option<Vec<String>> = rest.split('/').map(decode).collect();
                if !self.may_ask(&request) {
                    return Some(page(failure(401, "not_authorized", "Login failed")));
                }
                let Some(segments) = segments else {
                    return Some(page(failure(
                        400,
                        "bad_request",
                        "the path can't be decoded",
                    )));
                };
                let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
                let answer = self.find(&segments).await;
                Some(page(answer.unwrap_or_else(|| {
                    failure(404, "Object Not Found", "Not Found")
                })))
            }
        }
    }

    fn may_ask(&self, request: &PageRequest) -> bool {
        let login = request.authorization.as_deref().and_then(login);
        login.is_some_and(|login| self.state.borrow_mut().broker.may_ask(&login, request.peer))
    }

    async fn find(&self, segments: &[&str]) -> Option<Answer> {
        let mut json = Json::default();
        match *segments {
            ["health", "checks", ref check @ ..] => return self.check(check),
            ["overview"] => self.overview(&mut json),
            ["queues"] => self.queues(None, &mut json).await,
            ["queues", vhost] => self.queues(Some(self.vhost(vhost)?), &mut json).await,
            ["queues", vhost, name] => self.queue(self.vhost(vhost)?, name, &mut json).await?,
            ["queues", vhost, name, "bindings"] => {
                let vhost = self.vhost(vhost)?;
                self.state.borrow().broker.queue_id(vhost, name)?;
                self.bindings(Some(vhost), Some(name), false, &mut json)
                    .await;
            }
            ["exchanges"] => self.exchanges(None, false, &mut json).await,
            ["exchanges", vhost] => {
                self.exchanges(Some(self.vhost(vhost)?), false, &mut json)
                    .await;
            }
            ["exchanges", vhost, name] => {
                // RabbitMQ's path for the default exchange, whose name is empty.
                let name = if name == "amq.default" { "" } else { name };
                let id = (self.vhost(vhost)?, name.into());
                let is_there = self
                    .state
                    .borrow()
                    .broker
                    .write_exchange(&id, &mut json, false);
                is_there.then_some(())?;
            }
            ["bindings"] => self.bindings(None, None, false, &mut json).await,
            ["bindings", vhost] => {
                let vhost = self.vhost(vhost)?;
                self.bindings(Some(vhost), None, false, &mut json).await;
            }
            ["connections"] => self.connections(&mut json).await,
            ["definitions"] => self.definitions(None, &mut json).await,
            ["definitions", vhost] => {
                self.definitions(Some(self.vhost(vhost)?), &mut json).await;
            }
            _ => return None,
        }
        Some((200, json))
    }

    fn vhost(&self, name: &str) -> Option<usize> {
        let names = self.state.borrow().broker.vhost_names();
        names.iter().position(|vhost| **vhost == *name)
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
                    (Ok(_), true) => ok(|_| ()),
                    (Err(_), _) => failure(400, "bad_request", "Invalid expiration"),
                    (_, false) => failure(400, "bad_request", "Invalid expiration unit"),
                }
            }
            ["virtual-hosts"] => ok(|_| ()),
            ["node-is-quorum-critical" | "node-is-mirror-sync-critical"] => {
                ok(|json| json.field("reason", "single node cluster"))
            }
            _ => return None,
        })
    }

    fn alarms(&self, reason: &str) -> Answer {
        let alarms = self.state.borrow().broker.alarms();
        if alarms.is_empty() {
            return ok(|_| ());
        }
        failed(reason, |json| {
            json.key("alarms");
            json.begin_array();
            for resource in alarms {
                json.object(|json| {
                    json.field("node", NODE);
                    json.field("resource", resource);
                });
            }
            json.end_array();
        })
    }

    fn port(&self, port: &str) -> Answer {
        let open = [self.clients.port(), self.metrics_address.port()];
        match port.parse::<u16>() {
            Err(_) => failure(400, "bad_request", "Invalid port"),
            Ok(port) if open.contains(&port) => ok(|json| json.field("port", port)),
            Ok(port) => failed("No active listener", |json| {
                json.field("missing", port);
                json.key("ports");
                json.begin_array();
                open.into_iter().for_each(|port| json.value(port));
                json.end_array();
            }),
        }
    }

    fn overview(&self, json: &mut Json) {
        let version = env!("CARGO_PKG_VERSION");
        json.object(|json| {
            json.field("management_version", version);
            json.field("product_name", env!("CARGO_PKG_NAME"));
            json.field("product_version", version);
            json.field("rabbitmq_version", COMPATIBLE);
            json.field("cluster_name", NODE);
            json.field("node", NODE);
            json.field("rates_mode", "none");
            json.key("exchange_types");
            json.begin_array();
            for name in ["direct", "fanout", "headers", "topic"] {
                json.object(|json| {
                    json.field("name", name);
                    json.field("enabled", true);
                });
            }
            json.end_array();
            self.state.borrow().broker.write_totals(json);
            json.key("listeners");
            json.begin_array();
            for (protocol, address) in [("amqp", self.clients), ("http", self.metrics_address)] {
                json.object(|json| {
                    json.field("node", NODE);
                    json.field("protocol", protocol);
                    json.field("ip_address", &*address.ip().to_string());
                    json.field("port", address.port());
                });
            }
            json.end_array();
        });
    }

    /// Writes an array of objects, in slices.
    async fn list<T>(&self, all: &[T], json: &mut Json, write: impl Fn(&Broker, &T, &mut Json)) {
        json.begin_array();
        for slice in all.chunks(SLICE) {
            {
                let state = self.state.borrow();
                slice.iter().for_each(|one| write(&state.broker, one, json));
            }
            yield_now().await;
        }
        json.end_array();
    }

    async fn queues(&self, vhost: Option<usize>, json: &mut Json) {
        let ids = self.state.borrow().broker.queue_ids(vhost);
        self.list(&ids, json, |broker, id, json| {
            if broker.has_queue(*id) {
                json.object(|json| broker.write_queue(*id, json));
            }
        })
        .await;
    }

    async fn queue(&self, vhost: usize, name: &str, json: &mut Json) -> Option<()> {
        json.begin_object();
        let consumers = {
            let state = self.state.borrow();
            let id = state.broker.queue_id(vhost, name)?;
            state.broker.write_queue(id, json);
            state.broker.consumer_ids(id)
        };
        json.key("consumer_details");
        self.list(&consumers, json, |broker, id, json| {
            broker.write_consumer(*id, json)
        })
        .await;
        json.empty_array("incoming");
        json.empty_array("deliveries");
        json.end_object();
        Some(())
    }

    async fn exchanges(&self, vhost: Option<usize>, as_definition: bool, json: &mut Json) {
        let ids = self.state.borrow().broker.exchange_ids(vhost);
        self.list(&ids, json, |broker, id, json| {
            broker.write_exchange(id, json, as_definition);
        })
        .await;
    }

    /// Writes the bindings of one virtual host or all; to one queue or to any destination.
    async fn bindings(
        &self,
        vhost: Option<usize>,
        queue: Option<&str>,
        as_definition: bool,
        json: &mut Json,
    ) {
        let exchanges = self.state.borrow().broker.exchange_ids(vhost);
        json.begin_array();
        for exchange in exchanges {
            if as_definition && exchange.1.is_empty() {
                continue;
            }
            let bindings = self.state.borrow().broker.bindings_of(&exchange);
            for slice in bindings.chunks(SLICE) {
                for binding in slice {
                    let is_asked = queue.is_none_or(|queue| binding.queue() == Some(queue));
                    if is_asked && !(as_definition && binding.is_exclusive) {
                        binding.write(json, as_definition);
                    }
                }
                yield_now().await;
            }
        }
        json.end_array();
    }

    async fn connections(&self, json: &mut Json) {
        let ids = self.state.borrow().broker.connection_ids();
        self.list(&ids, json, |broker, id, json| {
            broker.write_connection(*id, json)
        })
        .await;
    }

    /// Writes the definitions. Users are left out, because their passwords must not be readable.
    async fn definitions(&self, vhost: Option<usize>, json: &mut Json) {
        json.begin_object();
        json.field("rabbit_version", COMPATIBLE);
        json.field("rabbitmq_version", COMPATIBLE);
        json.field("product_name", env!("CARGO_PKG_NAME"));
        json.field("product_version", env!("CARGO_PKG_VERSION"));
        for name in [
            "users",
            "permissions",
            "topic_permissions",
            "parameters",
            "policies",
        ] {
            json.empty_array(name);
        }
        json.key("vhosts");
        json.begin_array();
        let names = self.state.borrow().broker.vhost_names();
        for (at, name) in names.iter().enumerate() {
            if vhost.is_none_or(|vhost| vhost == at) {
                json.object(|json| json.field("name", &**name));
            }
        }
        json.end_array();
        json.key("queues");
        let ids = self.state.borrow().broker.queue_ids(vhost);
        self.list(&ids, json, |broker, id, json| {
            broker.write_queue_definition(*id, json)
        })
        .await;
        json.key("exchanges");
        self.exchanges(vhost, true, json).await;
        json.key("bindings");
        self.bindings(vhost, None, true, json).await;
        json.end_object();
    }

    /// Returns the page of metrics, followed by the metrics of each queue.
    async fn metrics_per_object(&self) -> String {
        let (mut page, ids) = {
            let state = self.state.borrow();
            (
                state.broker.render_metrics(&self.page),
                state.broker.queue_ids(None),
            )
        };
        let heads = QUEUE_METRICS.map(|(name, kind, help)| MetricsPage::head(name, kind, help));
        // All samples of a metric must be contiguous.
        let mut texts = heads;
        for slice in ids.chunks(SLICE) {
            {
                let state = self.state.borrow();
                slice
                    .iter()
                    .for_each(|id| state.broker.write_samples(*id, &mut texts));
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
        "amqp" | "http" => ok(|json| json.field("protocol", name)),
        _ => failed("No active listener", |json| {
            json.field("missing", name);
            json.key("protocols");
            json.begin_array();
            ["http", "amqp"]
                .into_iter()
                .for_each(|name| json.value(name));
            json.end_array();
        }),
    }
}

fn ok(fill: impl FnOnce(&mut Json)) -> Answer {
    let mut json = Json::default();
    json.object(|json| {
        json.field("status", "ok");
        fill(json);
    });
    (200, json)
}

/// Returns the answer of a failed check.
fn failed(reason: &str, fill: impl FnOnce(&mut Json)) -> Answer {
    let mut json = Json::default();
    json.object(|json| {
        json.field("status", "failed");
        json.field("reason", reason);
        fill(json);
    });
    (503, json)
}

fn failure(status: u16, error: &str, reason: &str) -> Answer {
    let mut json = Json::default();
    json.object(|json| {
        json.field("error", error);
        json.field("reason", reason);
    });
    (status, json)
}

fn page((status, json): Answer) -> Page {
    Page {
        status,
        content_type: "application/json",
        body: json.into_text(),
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
