//! The driver's own settings: the `[driver]` table of a plan, and the options of a command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use harness::cli::default_settings;
use load::plan::{Group, Plan};
use load::{duration, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tls_client::TlsOptions;

mod sentence;

/// Name of the group that publishes.
pub(crate) const PRODUCERS: &str = "producers";
/// Name of the group that consumes.
pub(crate) const CONSUMERS: &str = "consumers";
/// The golden ratio's fraction in 64 bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

// Headings of the options.
pub(crate) const LOAD: &str = "Load";
pub(crate) const MESSAGES: &str = "Messages";
pub(crate) const QUEUES: &str = "Queues and exchanges";
pub(crate) const CONSUMING: &str = "Consumers";
const CONNECTIONS: &str = "Connections";

/// The driver's own settings. An option of the same name sets each, unless its attribute says otherwise; without the
/// option, the default applies to plans too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Churn instead of sending. Each of the --producers repeatedly opens and closes, or declares and deletes,
    /// this
    #[arg(long, help_heading = LOAD, value_enum, value_name = "WHAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) churn: Option<Churn>,
    /// Number of producers if their group has a rate; without a rate it is the group's `clients`.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) producers: Option<u64>,
    /// Start each producer at a random time below this, drawn with --seed; it keeps its pace from then on
    #[arg(long = "producer-random-start-delay", help_heading = LOAD, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub(crate) random_start_delay: Duration,
    /// Set the body size in bytes; the first 28 bytes are a stamp
    #[arg(short = 's', long, help_heading = MESSAGES, value_name = "BYTES", default_value_t = 1024)]
    pub(crate) size: u32,
    /// Cycle through these body sizes, each for its number of seconds
    #[arg(long, help_heading = MESSAGES, value_name = "BYTES:SECONDS[,…]", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) variable_size: Vec<SizeFor>,
    /// Send the contents of these files as bodies, in turn, each preceded by a stamp
    #[arg(short = 'B', long, help_heading = MESSAGES, value_name = "FILE[,FILE…]", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) body: Vec<PathBuf>,
    /// Send JSON after the stamp, in bodies of --size bytes
    #[arg(long, help_heading = MESSAGES)]
    pub(crate) json_body: bool,
    /// Send persistent messages (delivery mode 2)
    #[arg(long, help_heading = MESSAGES)]
    pub(crate) persistent: bool,
    /// Publish with the mandatory flag: the broker returns unroutable messages
    #[arg(long, help_heading = MESSAGES)]
    pub(crate) mandatory: bool,
    /// Maximum number of unconfirmed messages per producer; absent: no publisher confirms.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) confirms: Option<u32>,
    /// Fail a message that is not confirmed within this time
    #[arg(long, help_heading = MESSAGES, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub(crate) confirm_timeout: Duration,
    /// Stamp messages with wall-clock time, for producers and consumers on different machines (set it on both). Without
    /// it, latencies across machines are wrong. With it, they are as accurate as the two clocks; latencies below 0 are
    /// counted as negative_latency. The clock is read once, when the run begins
    #[arg(long, help_heading = MESSAGES)]
    pub(crate) wall_clock: bool,
    /// Further properties of the messages.
    #[arg(skip)]
    pub(crate) properties: Properties,
    /// Set the queue name
    #[arg(short = 'u', long, help_heading = QUEUES, value_name = "NAME", default_value = "perftest")]
    pub(crate) queue: String,
    /// Use several queues; %d in the pattern is the number
    // Producer and consumer k use the queue at index k modulo their number.
    #[arg(long, help_heading = QUEUES, value_name = "PATTERN", requires = "queue_to")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_pattern: Option<String>,
    /// Set the first number of --queue-pattern
    #[arg(long = "queue-pattern-from", help_heading = QUEUES, value_name = "N", default_value_t = 1)]
    pub(crate) queue_from: u32,
    /// Set the last number of --queue-pattern
    #[arg(long = "queue-pattern-to", help_heading = QUEUES, value_name = "N", requires = "queue_pattern", default_value_t = 1, hide_default_value = true)]
    pub(crate) queue_to: u32,
    /// `classic`, `quorum` or `stream`; absent: the broker's default.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue_type: Option<String>,
    /// Further arguments of the queues, such as `x-max-length`.
    #[arg(skip)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) queue_args: BTreeMap<String, toml::Value>,
    /// Declares durable queues.
    #[arg(skip = true)]
    pub(crate) durable: bool,
    /// Declare auto-delete queues, which are deleted after their last consumer
    #[arg(long, help_heading = QUEUES)]
    pub(crate) auto_delete: bool,
    /// Declare exclusive queues: each belongs to the connection that consumes from it and is deleted with it; producers
    /// publish over other connections. Messages left in them at the end cannot be counted: they are reported as
    /// unfinished, never as lost
    #[arg(long, help_heading = QUEUES)]
    pub(crate) exclusive: bool,
    /// Use existing queues and exchange; declare and delete nothing
    #[arg(short = 'p', long, help_heading = QUEUES)]
    pub(crate) predeclared: bool,
    /// Publish to this exchange [default: the default exchange]
    #[arg(short = 'e', long, help_heading = QUEUES, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) exchange: String,
    /// Set the type of --exchange
    #[arg(short = 't', long = "type", help_heading = QUEUES, value_name = "TYPE", default_value = "direct")]
    pub(crate) exchange_type: String,
    /// Set the routing key [default: the name of the queue]
    #[arg(short = 'k', long, help_heading = QUEUES, value_name = "KEY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) routing_key: Option<String>,
    /// Consume without acknowledgements (no-ack)
    #[arg(short = 'a', long, help_heading = CONSUMING, alias = "autoack")]
    pub(crate) auto_ack: bool,
    /// Limit unacknowledged deliveries per consumer; 0 means no limit
    #[arg(long, help_heading = CONSUMING, alias = "qos", value_name = "N", default_value_t = 1)]
    pub(crate) prefetch: u16,
    /// Apply --prefetch to the whole channel
    #[arg(short = 'Q', long, help_heading = CONSUMING)]
    pub(crate) global_qos: bool,
    /// Acknowledge every N deliveries at once
    #[arg(short = 'A', long, help_heading = CONSUMING, value_name = "N", default_value_t = 1)]
    pub(crate) multi_ack_every: u16,
    /// Refuse this share of deliveries, from 0 to 1, on their first delivery
    #[arg(long = "nack", help_heading = CONSUMING, value_name = "SHARE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nack_share: Option<f64>,
    /// Requeue refused deliveries
    #[arg(long, help_heading = CONSUMING, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) requeue: bool,
    /// Process each delivery for this long before acknowledging it, one after the other
    #[arg(short = 'L', long, help_heading = CONSUMING, value_name = "DURATION", default_value = "0s", value_parser = duration::parse_with_unit)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub(crate) consumer_latency: Duration,
    /// Arguments of the consumers, such as `x-priority`; `x-stream-offset` is `first` unless it is given.
    #[arg(skip)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) consumer_args: BTreeMap<String, toml::Value>,
    /// Limit each consumer to this many messages per second. It delays acknowledgements, so that --prefetch stops
    /// deliveries; with --polling it delays basic.get
    #[arg(short = 'R', long, help_heading = CONSUMING, value_name = "PER_SECOND", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) consumer_rate: Option<f64>,
    /// Fetch each message with basic.get, one request at a time, instead of basic.consume; empty answers are counted as
    /// empty_gets
    #[arg(long, help_heading = CONSUMING)]
    pub(crate) polling: bool,
    /// Set the minimum time between two basic.get of a consumer; 0 sends the next right after the answer
    #[arg(long, help_heading = CONSUMING, value_name = "DURATION", default_value = "0s", value_parser = duration::parse_with_unit)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub(crate) polling_interval: Duration,
    /// Stop each consumer after N messages; when all have stopped, the run ends. With --auto-ack, messages already
    /// under way are consumed too
    #[arg(short = 'D', long, help_heading = LOAD, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cmessages: Option<u64>,
    /// End before --duration is over: when the queues are empty (empty: drains --predeclared queues with --producers
    /// 0), or when nothing was consumed for --exit-idle-after (idle)
    #[arg(long, help_heading = LOAD, value_enum, value_name = "WHEN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_when: Option<ExitWhen>,
    /// Set the time without messages for --exit-when idle
    #[arg(long, help_heading = LOAD, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub(crate) exit_idle_after: Duration,
    /// Select the protocol implementation: wire (frames read and written by this driver) or lapin (the Rust client
    /// library); auto selects wire, which uses less CPU
    #[arg(long, help_heading = CONNECTIONS, value_enum, default_value = "auto")]
    pub(crate) engine: Engine,
    /// Open N channels per connection: N producers or consumers share it
    #[arg(long, help_heading = CONNECTIONS, value_name = "N", default_value_t = 1)]
    pub(crate) channels: u16,
    /// Set the heartbeat interval in seconds; 0 disables heartbeats [default: the broker's value]
    #[arg(short = 'b', long, help_heading = CONNECTIONS, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) heartbeat: Option<u16>,
    /// Wait this long before reconnecting a lost connection
    #[arg(long, help_heading = CONNECTIONS, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub(crate) reconnect_after: Duration,
    /// Trust the CA certificates in this PEM file for amqps:// [default: this machine's trusted CAs]
    #[arg(long, help_heading = CONNECTIONS, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Accept any certificate with amqps:// (engine wire only)
    #[arg(long, help_heading = CONNECTIONS)]
    pub(crate) tls_insecure: bool,
}

impl Default for Settings {
    fn default() -> Self {
        default_settings()
    }
}

/// The implementation of the protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
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
    pub(crate) fn chosen(self) -> Self {
        match self {
            Self::Auto => Self::Wire,
            named => named,
        }
    }
}

/// Operations to repeat. Each pair of an operation and its opposite is one operation of the load.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Churn {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SizeFor {
    /// Bytes of a body.
    pub(crate) size: u32,
    /// Duration.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub(crate) over: Duration,
}

impl FromStr for SizeFor {
    type Err = &'static str;

    /// Parses `BYTES:SECONDS`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once(':').and_then(|(size, seconds)| {
            Some(Self {
                size: number::whole(size).ok()?,
                over: duration::parse(seconds).ok()?,
            })
        });
        parts.ok_or("write it as BYTES:SECONDS, such as 1000:30")
    }
}

/// A condition on consumers that ends a run early.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExitWhen {
    /// All have found their queue empty, and have processed everything they took from it.
    Empty,
    /// No consumer received anything for `exit_idle_after`.
    Idle,
}

/// Properties of the messages (AMQP 0-9-1, class basic).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Properties {
    /// MIME type of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_type: Option<String>,
    /// Encoding of the body, such as `gzip`; the body itself is not encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_encoding: Option<String>,
    /// 1 for transient, 2 for persistent messages; absent: as `persistent` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delivery_mode: Option<u8>,
    /// 0 to 255.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    /// The message that this one answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) correlation_id: Option<String>,
    /// The queue for answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reply_to: Option<String>,
    /// Time to live, milliseconds as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expiration: Option<String>,
    /// The name of the message, the same for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message_id: Option<String>,
    /// Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<u64>,
    /// The kind of the message, as its application names it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// The user that publishes; brokers refuse another one than the connection's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_id: Option<String>,
    /// The application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) app_id: Option<String>,
    /// Reserved (AMQP 0-9-1, class basic).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_id: Option<String>,
    /// Headers.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub(crate) headers: BTreeMap<String, toml::Value>,
}

/// Returns the group of a name, if it exists.
pub(crate) fn group<'a>(plan: &'a Plan<Settings>, name: &str) -> Option<&'a Group> {
    plan.groups.iter().find(|group| group.name == name)
}

/// Returns the number of producers of a plan.
pub(crate) fn producers(plan: &Plan<Settings>) -> u64 {
    group(plan, PRODUCERS).map_or(0, |group| match group.clients {
        0 => plan.driver.producers.unwrap_or(1),
        clients => clients,
    })
}

/// Returns the number of consumers of a plan.
pub(crate) fn consumers(plan: &Plan<Settings>) -> u64 {
    group(plan, CONSUMERS).map_or(0, |group| group.clients)
}

impl Settings {
    /// Returns the options for the certificates of brokers.
    pub(crate) fn tls(&self) -> TlsOptions {
        TlsOptions {
            ca: self.tls_ca.clone(),
            insecure: self.tls_insecure,
            ..TlsOptions::default()
        }
    }

    /// Returns the queues, at least one.
    pub(crate) fn queues(&self) -> Vec<String> {
        match &self.queue_pattern {
            Some(pattern) => (self.queue_from..=self.queue_to)
                .map(|number| pattern.replace("%d", &number.to_string()))
                .collect(),
            None => vec![self.queue.clone()],
        }
    }

    /// Returns the queue of producer or consumer `index`.
    pub(crate) fn queue_of(&self, index: u64) -> String {
        let queues = u64::from(self.queue_to.saturating_sub(self.queue_from)) + 1;
        match &self.queue_pattern {
            Some(pattern) => {
                let number = u64::from(self.queue_from) + index % queues;
                pattern.replace("%d", &number.to_string())
            }
            None => self.queue.clone(),
        }
    }

    /// Returns true if the queues are of this type, whether set by `queue_type` or by an argument.
    pub(crate) fn is_of_type(&self, kind: &str) -> bool {
        let argument = || self.queue_args.get("x-queue-type")?.as_str();
        self.queue_type.as_deref().or_else(argument) == Some(kind)
    }

    /// Returns true if the messages are persistent (delivery mode 2).
    pub(crate) fn is_persistent(&self) -> bool {
        match self.properties.delivery_mode {
            Some(mode) => mode == 2,
            None => self.persistent,
        }
    }

    /// Returns the argument of the plan by which a queue may drop messages that no consumer has received, if there is
    /// one (RabbitMQ, "Queue Length Limit", "Time-to-Live and Expiration", "Streams"). A full queue that refuses
    /// (`x-overflow`) drops nothing that it has confirmed.
    pub(crate) fn dropping_argument(&self) -> Option<&str> {
        const LENGTHS: [&str; 2] = ["x-max-length", "x-max-length-bytes"];
        const AGES: [&str; 3] = ["x-message-ttl", "x-expires", "x-max-age"];
        let overflow = self.queue_args.get("x-overflow");
        let overflow = overflow.and_then(|value| value.as_str()).unwrap_or("");
        let refuses = self.confirms.is_some() && overflow.starts_with("reject-publish");
        let mut arguments = self.queue_args.keys().map(String::as_str);
        let dropping =
            arguments.find(|name| AGES.contains(name) || (LENGTHS.contains(name) && !refuses));
        let expiration = self.properties.expiration.as_ref();
        dropping.or(expiration.map(|_| "expiration"))
    }

    /// Returns true if consumers have timers, and do not only react to deliveries.
    pub(crate) fn times_consumers(&self) -> bool {
        !self.consumer_latency.is_zero() || self.polling || self.consumer_rate.is_some()
    }

    /// Returns true if a consumer refuses its delivery number `delivered`, redeliveries not counted. Refused deliveries
    /// are spread evenly.
    pub(crate) fn refuses(&self, delivered: u64) -> bool {
        let spread = delivered.wrapping_mul(GOLDEN) >> 11;
        self.nack_share
            .is_some_and(|share| (spread as f64) < share * (1_u64 << 53) as f64)
    }
}
