//! The driver's own settings: the `[driver]` table of a plan.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use load::duration;
use load::net::tls::TlsOptions;
use load::plan::{Group, Plan};
use serde::{Deserialize, Serialize};

mod consume;
mod exclusive;
mod exit;
mod schedule;
mod validate;

pub use exit::ExitWhen;

/// Name of the group that publishes.
pub const PRODUCERS: &str = "producers";
/// Name of the group that consumes.
pub const CONSUMERS: &str = "consumers";
/// Default for unconfirmed messages with confirms.
pub const DEFAULT_WINDOW: u32 = 1000;
/// The golden ratio's fraction in 64 bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The driver's own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The implementation of the protocol.
    pub engine: Engine,
    /// Operations to repeat instead of sending messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub churn: Option<Churn>,
    /// Number of producers if their group has a rate; without a rate it is the group's `workers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producers: Option<u64>,
    /// Each producer starts at a random time below this, drawn from the plan's seed, and keeps its part of the rate
    /// from then on.
    #[serde(with = "duration")]
    pub random_start_delay: Duration,
    /// Bytes of a body.
    pub size: u32,
    /// Sizes to cycle through instead of `size`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variable_size: Vec<SizeFor>,
    /// Files with bodies, sent in turn; each is sent after a stamp.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<PathBuf>,
    /// Sends JSON after the stamp, instead of one repeated letter.
    pub json_body: bool,
    /// Sends persistent messages (delivery mode 2).
    pub persistent: bool,
    /// Has the broker return unroutable messages.
    pub mandatory: bool,
    /// Maximum unconfirmed messages per producer; absent: no confirms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirms: Option<u32>,
    /// Time until an unconfirmed message has failed and its connection is reopened.
    #[serde(with = "duration")]
    pub confirm_timeout: Duration,
    /// Further properties of the messages.
    pub properties: Properties,
    /// The queue name.
    pub queue: String,
    /// Pattern for several queues, with `%d` for the number; replaces `queue`. Producer and consumer k use the queue at
    /// index k modulo their number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_pattern: Option<String>,
    /// The first number of the pattern.
    pub queue_from: u32,
    /// The last number of the pattern.
    pub queue_to: u32,
    /// `classic`, `quorum` or `stream`; absent: the broker's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_type: Option<String>,
    /// Further arguments of the queues, such as `x-max-length`.
    pub queue_args: BTreeMap<String, toml::Value>,
    /// Declares durable queues.
    pub durable: bool,
    /// Declares auto-delete queues, deleted after their last consumer.
    pub auto_delete: bool,
    /// Declares exclusive queues. Each belongs to the connection that consumes from it and is deleted with it;
    /// producers publish over other connections.
    pub exclusive: bool,
    /// Uses existing queues and an existing exchange, which are neither declared nor deleted.
    pub predeclared: bool,
    /// The exchange, empty for the default one.
    pub exchange: String,
    /// The type of the exchange.
    pub exchange_type: String,
    /// The routing key; absent: the name of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Consumes without acknowledgements.
    pub auto_ack: bool,
    /// Maximum unacknowledged deliveries; 0 for no limit.
    pub prefetch: u16,
    /// Applies `prefetch` to the whole channel.
    pub global_qos: bool,
    /// Acknowledges this many deliveries at once.
    pub multi_ack_every: u16,
    /// The share of deliveries, from 0 to 1, refused (`basic.nack`) on their first delivery; spread evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nack_share: Option<f64>,
    /// Requeues refused deliveries.
    pub requeue: bool,
    /// Processing time of a delivery before its acknowledgement; deliveries are processed one after the other.
    #[serde(with = "duration")]
    pub consumer_latency: Duration,
    /// Arguments of the consumers, such as `x-priority`; `x-stream-offset` is `first` unless it is given.
    pub consumer_args: BTreeMap<String, toml::Value>,
    /// Maximum messages per second per consumer: it delays acknowledgements, or `basic.get`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_rate: Option<f64>,
    /// Polls with `basic.get` instead of consuming with `basic.consume`.
    pub polling: bool,
    /// Minimum time between two `basic.get` of a consumer; 0: the next one follows the answer.
    #[serde(with = "duration")]
    pub polling_interval: Duration,
    /// Messages of each consumer, from any run: when all have received theirs, the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmessages: Option<u64>,
    /// Condition on consumers that ends the run early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_when: Option<ExitWhen>,
    /// Time without messages that ends the run with `exit_when = "idle"`.
    #[serde(with = "duration")]
    pub exit_idle_after: Duration,
    /// A PEM file of CA certificates that must have signed the broker's; absent: this machine's trusted CAs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// Accepts any certificate.
    pub tls_insecure: bool,
    /// Stamps messages with wall-clock time, so that another machine can consume.
    pub wall_clock: bool,
    /// Channels per connection.
    pub channels: u16,
    /// Seconds between two heartbeats, 0 for none; absent: the broker's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<u16>,
    /// Delay before a lost connection is reopened.
    #[serde(with = "duration")]
    pub reconnect_after: Duration,
}

/// The implementation of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Selects wire, which uses less CPU
    #[default]
    Auto,
    /// Frames written and read by hand, many connections in one readiness loop.
    Wire,
    /// The client library `lapin`: what an application in Rust would see.
    Lapin,
}

impl Engine {
    /// Returns the engine that is used.
    #[must_use]
    pub fn chosen(self) -> Self {
        match self {
            Self::Auto => Self::Wire,
            named => named,
        }
    }

    /// Describes the engine and the reason for its choice.
    fn sentence(self) -> &'static str {
        match self {
            Self::Auto | Self::Wire => {
                "engine wire, which uses less CPU: nothing in this plan needs lapin"
            }
            Self::Lapin => "engine lapin, the Rust client library",
        }
    }
}

/// Operations to repeat. Each pair of an operation and its opposite is one operation of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Churn {
    /// TCP, negotiation, `connection.open`, and `connection.close`.
    Connection,
    /// `channel.open` and `channel.close`, on each client's own connection.
    Channel,
    /// `queue.declare` and `queue.delete`: each client uses a queue named after `queue`, with its number.
    Queue,
    /// `queue.bind` and `queue.unbind`: each client uses its own key, to `exchange` or else `amq.direct`.
    Binding,
}

/// A size and its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeFor {
    /// Bytes of a body.
    pub size: u32,
    /// Duration.
    #[serde(with = "duration")]
    pub over: Duration,
}

/// Properties of the messages (AMQP 0-9-1, class basic).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Properties {
    /// MIME type of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// 0 to 255.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Time to live, milliseconds as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<String>,
    /// The application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_id: Option<String>,
    /// Headers.
    pub headers: BTreeMap<String, toml::Value>,
}

impl Churn {
    fn sentence(self) -> &'static str {
        match self {
            Self::Connection => "opening and closing connections",
            Self::Channel => "opening and closing channels",
            Self::Queue => "declaring and deleting queues",
            Self::Binding => "binding and unbinding queues",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: Engine::default(),
            churn: None,
            producers: None,
            random_start_delay: Duration::ZERO,
            size: 1024,
            variable_size: Vec::new(),
            body: Vec::new(),
            json_body: false,
            persistent: false,
            mandatory: false,
            confirms: None,
            confirm_timeout: Duration::from_secs(30),
            properties: Properties::default(),
            queue: "perftest".to_owned(),
            queue_pattern: None,
            queue_from: 1,
            queue_to: 1,
            queue_type: None,
            queue_args: BTreeMap::new(),
            durable: true,
            auto_delete: false,
            exclusive: false,
            predeclared: false,
            exchange: String::new(),
            exchange_type: "direct".to_owned(),
            routing_key: None,
            auto_ack: false,
            prefetch: 1,
            global_qos: false,
            multi_ack_every: 1,
            nack_share: None,
            requeue: true,
            consumer_latency: Duration::ZERO,
            consumer_args: BTreeMap::new(),
            consumer_rate: None,
            polling: false,
            polling_interval: Duration::ZERO,
            cmessages: None,
            exit_when: None,
            exit_idle_after: Duration::from_secs(1),
            tls_ca: None,
            tls_insecure: false,
            wall_clock: false,
            channels: 1,
            heartbeat: None,
            reconnect_after: Duration::from_secs(1),
        }
    }
}

/// Rounds a number to three decimals.
fn thousandths(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// Returns the group of a name, if it exists.
pub(crate) fn group<'a>(plan: &'a Plan<Settings>, name: &str) -> Option<&'a Group> {
    plan.groups.iter().find(|group| group.name == name)
}

/// Returns the number of producers of a plan.
#[must_use]
pub fn producers(plan: &Plan<Settings>) -> u64 {
    group(plan, PRODUCERS).map_or(0, |group| match group.clients {
        0 => plan.driver.producers.unwrap_or(1),
        workers => workers,
    })
}

/// Returns the number of consumers of a plan.
#[must_use]
pub fn consumers(plan: &Plan<Settings>) -> u64 {
    group(plan, CONSUMERS).map_or(0, |group| group.clients)
}

impl Settings {
    /// Returns the options for the certificates of brokers.
    #[must_use]
    pub fn tls(&self) -> TlsOptions {
        TlsOptions {
            ca: self.tls_ca.clone(),
            insecure: self.tls_insecure,
        }
    }

    /// Returns the queues, at least one.
    #[must_use]
    pub fn queues(&self) -> Vec<String> {
        match &self.queue_pattern {
            Some(pattern) => (self.queue_from..=self.queue_to)
                .map(|number| pattern.replace("%d", &number.to_string()))
                .collect(),
            None => vec![self.queue.clone()],
        }
    }

    /// Returns the queue of producer or consumer `place`.
    #[must_use]
    pub fn queue_of(&self, place: u64) -> String {
        let queues = u64::from(self.queue_to.saturating_sub(self.queue_from)) + 1;
        match &self.queue_pattern {
            Some(pattern) => {
                let number = u64::from(self.queue_from) + place % queues;
                pattern.replace("%d", &number.to_string())
            }
            None => self.queue.clone(),
        }
    }

    /// Returns true if the queues are of this type, whether set by `queue_type` or by an argument.
    #[must_use]
    pub fn is_of_type(&self, kind: &str) -> bool {
        let argument = || self.queue_args.get("x-queue-type")?.as_str();
        self.queue_type.as_deref().or_else(argument) == Some(kind)
    }

    /// Returns true if consumers have timers, and do not only react to deliveries.
    #[must_use]
    pub fn times_consumers(&self) -> bool {
        !self.consumer_latency.is_zero() || self.polling || self.consumer_rate.is_some()
    }

    /// Returns true if a consumer refuses its delivery number `delivered`, redeliveries not counted. Refused deliveries
    /// are spread evenly.
    #[must_use]
    pub fn refuses(&self, delivered: u64) -> bool {
        let place = delivered.wrapping_mul(GOLDEN) >> 11;
        self.nack_share
            .is_some_and(|share| (place as f64) < share * (1_u64 << 53) as f64)
    }

    /// Describes the driver's part of a plan in a sentence.
    #[must_use]
    pub fn sentence(plan: &Plan<Self>) -> String {
        let settings = &plan.driver;
        let (producers, consumers) = (producers(plan), consumers(plan));
        let load = match group(plan, PRODUCERS) {
            Some(group) => match (group.rate, group.ops) {
                (Some(rate), ops) => {
                    let number = ops.map_or_else(String::new, |ops| format!(", {ops} of them"));
                    let arrival = group.arrival;
                    let each = match producers {
                        0 | 1 => String::new(),
                        several => format!(", {} each", thousandths(rate / several as f64)),
                    };
                    format!(" at {rate} messages per second in all{each} ({arrival}){number}")
                }
                (None, _) if !group.stages.is_empty() => " at a varying rate".to_owned(),
                (None, Some(ops)) => format!(", {ops} messages each"),
                (None, None) => " as fast as they can".to_owned(),
            },
            None => String::new(),
        };
        if let Some(churn) = settings.churn {
            let s = if producers == 1 { "" } else { "s" };
            let load = load.replace("messages", "operations");
            let (what, over) = (churn.sentence(), duration::format(plan.timeline.measure));
            return format!("{producers} client{s}, each {what}{load}; for {over}.");
        }
        let confirms = settings.confirms.map_or_else(String::new, |window| {
            format!(", at most {window} of each unconfirmed")
        });
        let kind = if settings.persistent {
            "persistent"
        } else {
            "transient"
        };
        let acks = match (settings.auto_ack, settings.multi_ack_every) {
            (true, _) => "without acknowledgements".to_owned(),
            (_, 1) => format!("acknowledging each, prefetch {}", settings.prefetch),
            (_, every) => format!(
                "acknowledging every {every}, prefetch {}",
                settings.prefetch
            ),
        };
        let acks = match settings.polling {
            true => {
                let acks = acks.split(", prefetch").next().unwrap_or_default();
                format!("which poll with basic.get, {acks}")
            }
            false => acks,
        };
        let queues = settings.queues().len();
        let s = |number: u64| if number == 1 { "" } else { "s" };
        format!(
            "{producers} producer{}, {kind} messages of {} bytes{load}{confirms}; {consumers} consumer{} on {queues} {}, {acks}; for {}{}; {}{}{}.",
            s(producers),
            settings.size,
            s(consumers),
            if queues == 1 { "queue" } else { "queues" },
            duration::format(plan.timeline.measure),
            settings.end_sentence(),
            settings.engine.sentence(),
            if settings.wall_clock {
                "; latencies by wall-clock time"
            } else {
                ""
            },
            if settings.tls_insecure {
                "; TLS certificates are not verified"
            } else {
                ""
            },
        )
    }
}
