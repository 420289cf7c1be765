//! Options that shape the load, and the plan built from them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use load::duration;
use load::plan::{Group, Plan, PlannedStage, Timeline};
use load::schedule::Arrival;

use super::values::{
    Flag, parse_argument, parse_interval, parse_property, parse_rate, parse_seconds, parse_size,
};
use crate::settings::{
    CONSUMERS, Churn, DEFAULT_WINDOW, Engine, ExitWhen, PRODUCERS, Properties, Settings, SizeFor,
};

/// Options that shape the load. Each is a field of a plan.
#[derive(Debug, Args)]
pub(super) struct Load {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    messages: MessageOptions,
    #[command(flatten)]
    topology: TopologyOptions,
    #[command(flatten)]
    consuming: ConsumerOptions,
    #[command(flatten)]
    connecting: ConnectionOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
#[group(multiple = true, conflicts_with = "plan")]
struct LoadOptions {
    /// Set the number of producers, each with its own connection
    #[arg(short = 'x', long, value_name = "N", default_value_t = 1)]
    producers: u64,
    /// Set the number of consumers, each with its own connection
    #[arg(short = 'y', long, value_name = "N", default_value_t = 1)]
    consumers: u64,
    /// Churn instead of sending messages: each of the --producers repeatedly opens and closes, or declares and deletes,
    /// this
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "consumers")]
    churn: Option<Churn>,
    /// Publish for this long; accepts a duration with unit, or a number of seconds like PerfTest
    #[arg(short = 'z', long, alias = "time", value_name = "DURATION", default_value = "30s", value_parser = parse_seconds)]
    duration: Duration,
    /// Publish this many messages per second in total over all producers, evenly paced; 0 means as fast as possible.
    /// (PerfTest's --rate is per producer)
    #[arg(
        short = 'r',
        long,
        value_name = "PER_SECOND",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    rate: f64,
    /// Set the time between two messages of each producer; equivalent to a --rate of producers divided by this interval
    #[arg(
        short = 'P',
        long,
        value_name = "DURATION",
        value_parser = parse_interval,
        conflicts_with_all = ["rate", "variable_rate"]
    )]
    publishing_interval: Option<Duration>,
    /// Publish at these total rates (messages per second), each for its number of seconds, repeated until --duration is
    /// over
    #[arg(
        long,
        value_name = "RATE:SECONDS[,…]",
        value_parser = parse_rate,
        value_delimiter = ',',
        conflicts_with_all = ["rate", "ramp_up", "pmessages"]
    )]
    variable_rate: Vec<PlannedStage>,
    /// Set how the starts of --rate are distributed
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Arrival,
    /// Start unpaced producers over this time, or raise the rate from 0 over this time
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    ramp_up: Duration,
    /// Start each producer at a random time below this, drawn with --seed; it keeps its pace from then on
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    producer_random_start_delay: Duration,
    /// Send N messages per producer (with --churn, N operations) [default: as many as fit into --duration]
    #[arg(short = 'C', long, value_name = "N")]
    pmessages: Option<u64>,
    /// Stop each consumer after N messages; when all have stopped, the run ends. With --auto-ack, messages already
    /// under way are consumed too
    #[arg(short = 'D', long, value_name = "N")]
    cmessages: Option<u64>,
    /// End before --duration is over: when the queues are empty (empty: drains --predeclared queues with --producers
    /// 0), or when nothing was consumed for --exit-idle-after (idle)
    #[arg(long, value_enum, value_name = "WHEN")]
    exit_when: Option<ExitWhen>,
    /// Set the time without messages for --exit-when idle
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    exit_idle_after: Duration,
    /// Run the load for this long before measuring
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    warmup: Duration,
    /// Wait at most this long for outstanding confirms and deliveries after everything is published
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    drain: Duration,
    /// Set the random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
#[group(multiple = true, conflicts_with = "plan")]
struct MessageOptions {
    /// Set the body size in bytes; the first 28 bytes are a stamp
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 1024)]
    size: u32,
    /// Cycle through these body sizes, each for its number of seconds
    #[arg(long, value_name = "BYTES:SECONDS[,…]", value_delimiter = ',', value_parser = parse_size)]
    variable_size: Vec<SizeFor>,
    /// Send the contents of these files as bodies, in turn, each preceded by a stamp
    #[arg(short = 'B', long, value_name = "FILE[,FILE…]", value_delimiter = ',')]
    body: Vec<PathBuf>,
    /// Send JSON after the stamp, in bodies of --size bytes
    #[arg(long)]
    json_body: bool,
    /// Set PerfTest's flags; equivalent to --persistent and --mandatory
    #[arg(
        short = 'f',
        long,
        value_enum,
        value_name = "FLAG[,FLAG]",
        value_delimiter = ','
    )]
    flag: Vec<Flag>,
    /// Send persistent messages (delivery mode 2)
    #[arg(long)]
    persistent: bool,
    /// Set message properties: content-type, priority, expiration, app-id; any other key becomes a header
    #[arg(long, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_property)]
    message_properties: Vec<(String, toml::Value)>,
    /// Publish with the mandatory flag: the broker returns unroutable messages
    #[arg(long)]
    mandatory: bool,
    /// Use publisher confirms with at most 1,000 unconfirmed messages per producer
    #[arg(long)]
    confirms: bool,
    /// Use publisher confirms with at most N unconfirmed messages per producer
    #[arg(short = 'c', long, value_name = "N")]
    confirm: Option<u32>,
    /// Fail a message that is not confirmed within this time
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    confirm_timeout: Duration,
    /// Stamp messages with wall-clock time, for producers and consumers on different machines (set it on both). Without
    /// it, latencies across machines are wrong. With it, they are as accurate as the two clocks; latencies below 0 are
    /// counted as negative_latency. The clock is read once, when the run begins
    #[arg(long)]
    wall_clock: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Queues and exchanges")]
#[group(multiple = true, conflicts_with = "plan")]
struct TopologyOptions {
    /// Set the queue name
    #[arg(short = 'u', long, value_name = "NAME", default_value = "perftest")]
    queue: String,
    /// Use several queues; %d in the pattern is the number
    #[arg(long, value_name = "PATTERN", requires = "queue_pattern_to")]
    queue_pattern: Option<String>,
    /// Set the first number of --queue-pattern
    #[arg(long, value_name = "N", default_value_t = 1)]
    queue_pattern_from: u32,
    /// Set the last number of --queue-pattern
    #[arg(long, value_name = "N", requires = "queue_pattern")]
    queue_pattern_to: Option<u32>,
    /// Pass arguments to queue.declare, such as x-max-length=1000
    #[arg(long, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_argument)]
    queue_args: Vec<(String, toml::Value)>,
    /// Declare quorum queues
    #[arg(long, conflicts_with = "stream_queue")]
    quorum_queue: bool,
    /// Declare stream queues
    #[arg(long)]
    stream_queue: bool,
    /// Declare auto-delete queues, which are deleted after their last consumer
    #[arg(long)]
    auto_delete: bool,
    /// Declare exclusive queues: each belongs to the connection that consumes from it and is deleted with it; producers
    /// publish over other connections. Messages left in them at the end cannot be counted: they are reported as
    /// unfinished, never as lost
    #[arg(long)]
    exclusive: bool,
    /// Use existing queues and exchange; declare and delete nothing
    #[arg(short = 'p', long)]
    predeclared: bool,
    /// Publish to this exchange [default: the default exchange]
    #[arg(
        short = 'e',
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    exchange: String,
    /// Set the type of --exchange
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        default_value = "direct"
    )]
    exchange_type: String,
    /// Set the routing key [default: the name of the queue]
    #[arg(short = 'k', long, value_name = "KEY")]
    routing_key: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Consumers")]
#[group(multiple = true, conflicts_with = "plan")]
struct ConsumerOptions {
    /// Consume without acknowledgements (no-ack)
    #[arg(short = 'a', long, alias = "autoack")]
    auto_ack: bool,
    /// Limit unacknowledged deliveries per consumer; 0 means no limit
    #[arg(long, alias = "qos", value_name = "N", default_value_t = 1)]
    prefetch: u16,
    /// Apply --prefetch to the whole channel
    #[arg(short = 'Q', long)]
    global_qos: bool,
    /// Acknowledge every N deliveries at once
    #[arg(short = 'A', long, value_name = "N", default_value_t = 1)]
    multi_ack_every: u16,
    /// Refuse this share of deliveries, from 0 to 1, on their first delivery
    #[arg(long, value_name = "SHARE")]
    nack: Option<f64>,
    /// Requeue refused deliveries
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    requeue: bool,
    /// Process each delivery for this long before acknowledging it, one after the other
    #[arg(short = 'L', long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    consumer_latency: Duration,
    /// Pass arguments to basic.consume, such as x-priority=5; x-stream-offset sets where to read a stream [default:
    /// first]
    #[arg(long, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_argument)]
    consumer_args: Vec<(String, toml::Value)>,
    /// Limit each consumer to this many messages per second. It delays acknowledgements, so that --prefetch stops
    /// deliveries; with --polling it delays basic.get
    #[arg(
        short = 'R',
        long,
        value_name = "PER_SECOND",
        allow_negative_numbers = true
    )]
    consumer_rate: Option<f64>,
    /// Fetch each message with basic.get, one request at a time, instead of basic.consume; empty answers are counted as
    /// empty_gets
    #[arg(long)]
    polling: bool,
    /// Set the minimum time between two basic.get of a consumer; 0 sends the next right after the answer
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    polling_interval: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
#[group(multiple = true, conflicts_with = "plan")]
struct ConnectionOptions {
    /// Select the protocol implementation: wire (frames read and written by this driver) or lapin (the Rust client
    /// library); auto selects wire, which uses less CPU
    #[arg(long, value_enum, default_value = "auto")]
    engine: Engine,
    /// Open N channels per connection: N producers or consumers share it
    #[arg(long, value_name = "N", default_value_t = 1)]
    channels: u16,
    /// Set the heartbeat interval in seconds; 0 disables heartbeats [default: the broker's value]
    #[arg(short = 'b', long, value_name = "SECONDS")]
    heartbeat: Option<u16>,
    /// Wait this long before reconnecting a lost connection
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    reconnect_after: Duration,
    /// Trust the CA certificates in this PEM file for amqps:// [default: this machine's trusted CAs]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Accept any certificate with amqps:// (engine wire only)
    #[arg(long)]
    tls_insecure: bool,
}

impl Load {
    /// Returns the plan for these options, not yet validated.
    pub(super) fn plan(&self) -> Plan<Settings> {
        let timeline = Timeline {
            warmup: self.load.warmup,
            measure: self.measures(),
            drain: self.load.drain,
        };
        Plan {
            seed: self.load.seed,
            ..Plan::new("command-line", timeline, self.groups(), self.settings())
        }
    }

    /// Returns the messages per second of all producers together.
    fn rate(&self) -> f64 {
        let producers = self.load.producers as f64;
        let interval = self.load.publishing_interval;
        interval.map_or(self.load.rate, |interval| {
            producers / interval.as_secs_f64()
        })
    }

    /// Returns how long to measure. With a rate and a fixed number of messages, the time until all of them were due.
    fn measures(&self) -> Duration {
        let rate = self.rate();
        let messages = self.load.pmessages.filter(|_| rate > 0.0);
        messages.map_or(self.load.duration, |each| {
            let all = each as f64 * self.load.producers as f64;
            let lasts = Duration::try_from_secs_f64(all / rate).unwrap_or(Duration::MAX);
            let lasts = lasts.saturating_add(self.load.producer_random_start_delay);
            self.load.duration.min(lasts)
        })
    }

    fn groups(&self) -> Vec<Group> {
        let group = |name: &str, workers: u64| Group {
            name: name.to_owned(),
            clients: workers,
            ramp: Duration::ZERO,
            rate: None,
            arrival: self.load.arrival,
            stages: Vec::new(),
            ops: None,
        };
        // No rate, or an invalid one, which validation refuses.
        let producers = (self.load.producers > 0).then(|| match self.rate() == 0.0 {
            true if !self.load.variable_rate.is_empty() => Group {
                stages: self.stages(),
                ..group(PRODUCERS, 0)
            },
            true => Group {
                ops: self.load.pmessages,
                ramp: self.load.ramp_up,
                ..group(PRODUCERS, self.load.producers)
            },
            false => Group {
                rate: Some(self.rate()),
                ramp: self.load.ramp_up,
                // A fixed number is published in full even if it is late; the duration alone would cut it off.
                ops: self
                    .load
                    .pmessages
                    .map(|each| each.saturating_mul(self.load.producers)),
                ..group(PRODUCERS, 0)
            },
        });
        let consumes = self.load.consumers > 0 && self.load.churn.is_none();
        let consumers = consumes.then(|| group(CONSUMERS, self.load.consumers));
        producers.into_iter().chain(consumers).collect()
    }

    /// Returns the stages of --variable-rate: each rate is set at once and held; the list repeats until the end.
    fn stages(&self) -> Vec<PlannedStage> {
        let mut left = self.load.warmup + self.load.duration;
        let mut stages = Vec::new();
        for stage in self.load.variable_rate.iter().cycle() {
            if left.is_zero() {
                break;
            }
            let over = stage.over.min(left);
            left -= over;
            let at_once = PlannedStage {
                over: Duration::ZERO,
                ..*stage
            };
            stages.extend([at_once, PlannedStage { over, ..*stage }]);
        }
        stages
    }

    fn properties(&self) -> Properties {
        let mut properties = Properties::default();
        for (key, value) in &self.messages.message_properties {
            let text = || Some(value.as_str().map_or(value.to_string(), str::to_owned));
            match key.as_str() {
                "content-type" | "contentType" => properties.content_type = text(),
                "app-id" | "appId" => properties.app_id = text(),
                "expiration" => properties.expiration = text(),
                "priority" => {
                    properties.priority = value.as_integer().and_then(|it| u8::try_from(it).ok());
                }
                _ => {
                    properties.headers.insert(key.clone(), value.clone());
                }
            }
        }
        properties
    }

    fn settings(&self) -> Settings {
        let paced =
            (self.rate() != 0.0 || !self.load.variable_rate.is_empty()) && self.load.producers > 0;
        let queue_type = match (self.topology.quorum_queue, self.topology.stream_queue) {
            (true, _) => Some("quorum".to_owned()),
            (_, true) => Some("stream".to_owned()),
            _ => None,
        };
        Settings {
            engine: self.connecting.engine,
            churn: self.load.churn,
            producers: paced.then_some(self.load.producers),
            random_start_delay: self.load.producer_random_start_delay,
            size: self.messages.size,
            variable_size: self.messages.variable_size.clone(),
            body: self.messages.body.clone(),
            json_body: self.messages.json_body,
            persistent: self.messages.persistent || self.messages.flag.contains(&Flag::Persistent),
            properties: self.properties(),
            mandatory: self.messages.mandatory || self.messages.flag.contains(&Flag::Mandatory),
            confirms: self
                .messages
                .confirm
                .or(self.messages.confirms.then_some(DEFAULT_WINDOW)),
            confirm_timeout: self.messages.confirm_timeout,
            queue: self.topology.queue.clone(),
            queue_pattern: self.topology.queue_pattern.clone(),
            queue_from: self.topology.queue_pattern_from,
            queue_to: self
                .topology
                .queue_pattern_to
                .unwrap_or(self.topology.queue_pattern_from),
            queue_type,
            queue_args: self
                .topology
                .queue_args
                .iter()
                .cloned()
                .collect::<BTreeMap<_, _>>(),
            auto_delete: self.topology.auto_delete,
            exclusive: self.topology.exclusive,
            predeclared: self.topology.predeclared,
            exchange: self.topology.exchange.clone(),
            exchange_type: self.topology.exchange_type.clone(),
            routing_key: self.topology.routing_key.clone(),
            auto_ack: self.consuming.auto_ack,
            prefetch: self.consuming.prefetch,
            global_qos: self.consuming.global_qos,
            multi_ack_every: self.consuming.multi_ack_every,
            nack_share: self.consuming.nack,
            requeue: self.consuming.requeue,
            consumer_latency: self.consuming.consumer_latency,
            consumer_args: self.consuming.consumer_args.iter().cloned().collect(),
            consumer_rate: self.consuming.consumer_rate,
            polling: self.consuming.polling,
            polling_interval: self.consuming.polling_interval,
            cmessages: self.load.cmessages,
            exit_when: self.load.exit_when,
            exit_idle_after: self.load.exit_idle_after,
            tls_ca: self.connecting.tls_ca.clone(),
            tls_insecure: self.connecting.tls_insecure,
            wall_clock: self.messages.wall_clock,
            channels: self.connecting.channels,
            heartbeat: self.connecting.heartbeat,
            reconnect_after: self.connecting.reconnect_after,
            ..Settings::default()
        }
    }
}
