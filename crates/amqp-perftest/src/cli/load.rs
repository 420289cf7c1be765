//! Options that shape the load, and the plan that they make.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use harness::duration;
use harness::plan::{Group, Plan, PlannedStage, Timeline};
use harness::schedule::Arrival;

use super::values::{
    Flag, parse_argument, parse_interval, parse_property, parse_rate, parse_seconds, parse_size,
};
use crate::settings::{
    CONSUMERS, Churn, DEFAULT_WINDOW, Engine, ExitWhen, PRODUCERS, Properties, Settings, SizeFor,
};

/// Options that shape the load; in a plan each is a field. Names in brackets are PerfTest's.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with = "plan")]
pub(super) struct Load {
    /// What speaks to the broker: frames by hand (wire), or the client library lapin; auto is wire, the cheaper one, as
    /// nothing that can be asked for needs the other
    #[arg(long, value_enum, default_value = "auto", env = "AMQP_PERFTEST_ENGINE")]
    engine: Engine,
    /// Producers, each with a connection of its own
    #[arg(
        short = 'x',
        long,
        value_name = "N",
        default_value_t = 1,
        env = "AMQP_PERFTEST_PRODUCERS"
    )]
    producers: u64,
    /// Consumers, each with a connection of its own
    #[arg(
        short = 'y',
        long,
        value_name = "N",
        default_value_t = 1,
        env = "AMQP_PERFTEST_CONSUMERS"
    )]
    consumers: u64,
    /// In place of messages, have the --producers open and close, or declare and delete, one thing again and again
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        conflicts_with = "consumers",
        env = "AMQP_PERFTEST_CHURN"
    )]
    churn: Option<Churn>,
    /// How long to publish: a time with its unit, or PerfTest's seconds
    #[arg(short = 'z', long, alias = "time", value_name = "DURATION", default_value = "30s", env = "AMQP_PERFTEST_DURATION", value_parser = parse_seconds)]
    duration: Duration,
    /// Messages per second of all producers together, paced evenly (PerfTest's --rate is of each); 0 for as fast as they can
    #[arg(
        short = 'r',
        long,
        value_name = "PER_SECOND",
        default_value_t = 0.0,
        env = "AMQP_PERFTEST_RATE",
        allow_negative_numbers = true
    )]
    rate: f64,
    /// Time between two messages of each producer: a --rate of the producers' number divided by it, paced in the same way
    #[arg(
        short = 'P',
        long,
        value_name = "DURATION",
        env = "AMQP_PERFTEST_PUBLISHING_INTERVAL",
        value_parser = parse_interval,
        conflicts_with_all = ["rate", "variable_rate"]
    )]
    publishing_interval: Option<Duration>,
    /// Have each producer begin at a random time below this, drawn from --seed, and keep its pace from then on
    #[arg(long, value_name = "DURATION", default_value = "0s", env = "AMQP_PERFTEST_PRODUCER_RANDOM_START_DELAY", value_parser = duration::parse)]
    producer_random_start_delay: Duration,
    /// Messages per second of all producers together and for how long, again and again until --duration is over
    #[arg(
        long,
        value_name = "RATE:SECONDS[,…]",
        value_parser = parse_rate,
        value_delimiter = ',',
        conflicts_with_all = ["rate", "ramp_up", "pmessages"]
    )]
    variable_rate: Vec<PlannedStage>,
    /// How the starts of --rate are spread
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Arrival,
    /// Bytes of a body, of which the first 28 are its stamp
    #[arg(
        short = 's',
        long,
        value_name = "BYTES",
        default_value_t = 1024,
        env = "AMQP_PERFTEST_SIZE"
    )]
    size: u32,
    /// Sizes to go through, again and again
    #[arg(long, value_name = "BYTES:SECONDS[,…]", value_delimiter = ',', value_parser = parse_size)]
    variable_size: Vec<SizeFor>,
    /// Files with bodies, sent one after the other, each behind a stamp
    #[arg(
        short = 'B',
        long,
        value_name = "FILE[,FILE…]",
        value_delimiter = ',',
        env = "AMQP_PERFTEST_BODY"
    )]
    body: Vec<PathBuf>,
    /// Bodies of JSON behind their stamp, of --size
    #[arg(long, env = "AMQP_PERFTEST_JSON_BODY")]
    json_body: bool,
    /// What PerfTest calls flags: --persistent and --mandatory
    #[arg(
        short = 'f',
        long,
        value_enum,
        value_name = "FLAG[,FLAG]",
        value_delimiter = ',',
        env = "AMQP_PERFTEST_FLAG"
    )]
    flag: Vec<Flag>,
    /// Persistent messages (delivery mode 2)
    #[arg(long, env = "AMQP_PERFTEST_PERSISTENT")]
    persistent: bool,
    /// Properties of the messages: content-type, priority, expiration, app-id; whatever else is a header
    #[arg(long, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_property, env = "AMQP_PERFTEST_MESSAGE_PROPERTIES")]
    message_properties: Vec<(String, toml::Value)>,
    /// Have the broker return what no queue takes
    #[arg(long, env = "AMQP_PERFTEST_MANDATORY")]
    mandatory: bool,
    /// Have messages confirmed, at most 1,000 of each producer unconfirmed at once
    #[arg(long, env = "AMQP_PERFTEST_CONFIRMS")]
    confirms: bool,
    /// Have messages confirmed, at most so many of each producer unconfirmed at once
    #[arg(short = 'c', long, value_name = "N", env = "AMQP_PERFTEST_CONFIRM")]
    confirm: Option<u32>,
    /// After so long without its confirm a message has failed
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    confirm_timeout: Duration,
    /// Messages of each producer, or operations with --churn; by default as many as fit into --duration
    #[arg(short = 'C', long, value_name = "N", env = "AMQP_PERFTEST_PMESSAGES")]
    pmessages: Option<u64>,
    /// Name of the queue
    #[arg(
        short = 'u',
        long,
        value_name = "NAME",
        default_value = "perftest",
        env = "AMQP_PERFTEST_QUEUE"
    )]
    queue: String,
    /// Several queues, %d being a number
    #[arg(
        long,
        value_name = "PATTERN",
        requires = "queue_pattern_to",
        env = "AMQP_PERFTEST_QUEUE_PATTERN"
    )]
    queue_pattern: Option<String>,
    /// First number of the pattern
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        env = "AMQP_PERFTEST_QUEUE_PATTERN_FROM"
    )]
    queue_pattern_from: u32,
    /// Last number of the pattern
    #[arg(
        long,
        value_name = "N",
        requires = "queue_pattern",
        env = "AMQP_PERFTEST_QUEUE_PATTERN_TO"
    )]
    queue_pattern_to: Option<u32>,
    /// Arguments of the queues, such as x-max-length=1000
    #[arg(long, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_argument, env = "AMQP_PERFTEST_QUEUE_ARGS")]
    queue_args: Vec<(String, toml::Value)>,
    /// Quorum queues
    #[arg(
        long,
        conflicts_with = "stream_queue",
        env = "AMQP_PERFTEST_QUORUM_QUEUE"
    )]
    quorum_queue: bool,
    /// Stream queues
    #[arg(long, env = "AMQP_PERFTEST_STREAM_QUEUE")]
    stream_queue: bool,
    /// Queues that go with their last consumer
    #[arg(long, env = "AMQP_PERFTEST_AUTO_DELETE")]
    auto_delete: bool,
    /// Queues that belong each to the one connection that consumes from it, and go with it; producers publish to them from
    /// others. What is left in them at the end nobody can count: it is unfinished, never lost
    #[arg(long, env = "AMQP_PERFTEST_EXCLUSIVE")]
    exclusive: bool,
    /// Queues and exchange are there already: declare and delete nothing
    #[arg(short = 'p', long, env = "AMQP_PERFTEST_PREDECLARED")]
    predeclared: bool,
    /// Exchange to publish to; by default the default exchange
    #[arg(
        short = 'e',
        long,
        value_name = "NAME",
        default_value = "",
        env = "AMQP_PERFTEST_EXCHANGE"
    )]
    exchange: String,
    /// Type of --exchange
    #[arg(
        short = 't',
        long = "type",
        value_name = "TYPE",
        default_value = "direct",
        env = "AMQP_PERFTEST_TYPE"
    )]
    exchange_type: String,
    /// Routing key; by default the name of the queue
    #[arg(
        short = 'k',
        long,
        value_name = "KEY",
        env = "AMQP_PERFTEST_ROUTING_KEY"
    )]
    routing_key: Option<String>,
    /// Deliveries need no acknowledgement
    #[arg(short = 'a', long, alias = "autoack", env = "AMQP_PERFTEST_AUTO_ACK")]
    auto_ack: bool,
    /// Deliveries that may be unacknowledged at once, 0 for no limit
    #[arg(
        long,
        alias = "qos",
        value_name = "N",
        default_value_t = 1,
        env = "AMQP_PERFTEST_PREFETCH"
    )]
    prefetch: u16,
    /// --prefetch is a limit of the whole channel
    #[arg(short = 'Q', long, env = "AMQP_PERFTEST_GLOBAL_QOS")]
    global_qos: bool,
    /// Acknowledge every so many deliveries at once
    #[arg(
        short = 'A',
        long,
        value_name = "N",
        default_value_t = 1,
        env = "AMQP_PERFTEST_MULTI_ACK_EVERY"
    )]
    multi_ack_every: u16,
    /// Share of deliveries, from 0 to 1, to refuse the first time
    #[arg(long, value_name = "SHARE", env = "AMQP_PERFTEST_NACK")]
    nack: Option<f64>,
    /// Whether what is refused goes back to the queue
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, env = "AMQP_PERFTEST_REQUEUE")]
    requeue: bool,
    /// How long a consumer deals with each delivery before it acknowledges it, one after the other
    #[arg(short = 'L', long, value_name = "DURATION", default_value = "0s", env = "AMQP_PERFTEST_CONSUMER_LATENCY", value_parser = duration::parse)]
    consumer_latency: Duration,
    /// Arguments of the consumers, such as x-priority=5; from where to read a stream is x-stream-offset, first by default
    #[arg(long, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_argument, env = "AMQP_PERFTEST_CONSUMER_ARGS")]
    consumer_args: Vec<(String, toml::Value)>,
    /// Messages per second that each consumer deals with at most: it holds back its acknowledgements, so that --prefetch
    /// lets no more come, or with --polling its questions
    #[arg(
        short = 'R',
        long,
        value_name = "PER_SECOND",
        env = "AMQP_PERFTEST_CONSUMER_RATE",
        allow_negative_numbers = true
    )]
    consumer_rate: Option<f64>,
    /// Have consumers ask for each message (basic.get), one question at a time, in place of being given them; answers
    /// without a message are counted as empty_gets
    #[arg(long, env = "AMQP_PERFTEST_POLLING")]
    polling: bool,
    /// Least time between two questions of a consumer; 0 for the next right after the answer
    #[arg(long, value_name = "DURATION", default_value = "0s", env = "AMQP_PERFTEST_POLLING_INTERVAL", value_parser = duration::parse)]
    polling_interval: Duration,
    /// Messages of each consumer, after which it takes no more; when all have had theirs, the run ends. With --auto-ack
    /// what is on its way by then is taken too
    #[arg(short = 'D', long, value_name = "N", env = "AMQP_PERFTEST_CMESSAGES")]
    cmessages: Option<u64>,
    /// End before --duration is over: when the queues are empty (empty: to drain what is --predeclared, with --producers 0)
    /// or when nothing was consumed for --exit-idle-after (idle)
    #[arg(long, value_enum, value_name = "WHEN", env = "AMQP_PERFTEST_EXIT_WHEN")]
    exit_when: Option<ExitWhen>,
    /// How long nothing comes for --exit-when idle
    #[arg(long, value_name = "DURATION", default_value = "1s", env = "AMQP_PERFTEST_EXIT_IDLE_AFTER", value_parser = duration::parse)]
    exit_idle_after: Duration,
    /// With amqps://, a file in PEM with whoever must have signed the broker's certificate; by default those whom this
    /// machine trusts
    #[arg(long, value_name = "FILE", env = "AMQP_PERFTEST_TLS_CA")]
    tls_ca: Option<PathBuf>,
    /// With amqps:// and the engine wire, take any certificate
    #[arg(long, env = "AMQP_PERFTEST_TLS_INSECURE")]
    tls_insecure: bool,
    /// Stamp messages with the time of the wall clock, taken once when the run begins: for producers on one machine and
    /// consumers on another, both with this. Without it the latencies of consumers on another machine are wrong; with it
    /// they are as right as the two clocks agree, and those below 0 are counted as negative_latency
    #[arg(long, env = "AMQP_PERFTEST_WALL_CLOCK")]
    wall_clock: bool,
    /// Channels of each connection: so many producers or consumers share it
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        env = "AMQP_PERFTEST_CHANNELS"
    )]
    channels: u16,
    /// Time over which producers begin that publish as fast as they can, or the rate rises from 0
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    ramp_up: Duration,
    /// Seconds between two heartbeats, 0 for none; by default what the broker offers
    #[arg(
        short = 'b',
        long,
        value_name = "SECONDS",
        env = "AMQP_PERFTEST_HEARTBEAT"
    )]
    heartbeat: Option<u16>,
    /// How long to wait before a lost connection is made again
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    reconnect_after: Duration,
    /// Load before what is counted
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    warmup: Duration,
    /// How long confirms and consumers may take for what is left, from the moment that all is published
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    drain: Duration,
    /// Seed of everything drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Load {
    /// The plan that is asked for, not yet validated.
    pub(super) fn plan(&self) -> Plan<Settings> {
        let timeline = Timeline {
            warmup: self.warmup,
            measure: self.measures(),
            drain: self.drain,
        };
        Plan {
            seed: self.seed,
            ..Plan::new("command-line", timeline, self.groups(), self.settings())
        }
    }

    /// Messages per second of all producers.
    fn rate(&self) -> f64 {
        let producers = self.producers as f64;
        let interval = self.publishing_interval;
        interval.map_or(self.rate, |interval| producers / interval.as_secs_f64())
    }

    /// How long to measure: with a rate, until so many messages were due as are asked for.
    fn measures(&self) -> Duration {
        let rate = self.rate();
        let messages = self.pmessages.filter(|_| rate > 0.0);
        messages.map_or(self.duration, |each| {
            let all = each as f64 * self.producers as f64;
            let lasts = Duration::try_from_secs_f64(all / rate).unwrap_or(Duration::MAX);
            let lasts = lasts.saturating_add(self.producer_random_start_delay);
            self.duration.min(lasts)
        })
    }

    fn groups(&self) -> Vec<Group> {
        let group = |name: &str, workers: u64| Group {
            name: name.to_owned(),
            workers,
            ramp: Duration::ZERO,
            rate: None,
            arrival: self.arrival,
            stages: Vec::new(),
            ops: None,
        };
        // Without a rate, or with one that makes no sense and is refused as such.
        let producers = (self.producers > 0).then(|| match self.rate() == 0.0 {
            true if !self.variable_rate.is_empty() => Group {
                stages: self.stages(),
                ..group(PRODUCERS, 0)
            },
            true => Group {
                ops: self.pmessages,
                ramp: self.ramp_up,
                ..group(PRODUCERS, self.producers)
            },
            false => Group {
                rate: Some(self.rate()),
                ramp: self.ramp_up,
                // A fixed number is published in full, however late; the time alone would not say so.
                ops: self
                    .pmessages
                    .map(|each| each.saturating_mul(self.producers)),
                ..group(PRODUCERS, 0)
            },
        });
        let consumes = self.consumers > 0 && self.churn.is_none();
        let consumers = consumes.then(|| group(CONSUMERS, self.consumers));
        producers.into_iter().chain(consumers).collect()
    }

    /// The stages of --variable-rate: each rate at once, and held; from the beginning when all are over.
    fn stages(&self) -> Vec<PlannedStage> {
        let mut left = self.warmup + self.duration;
        let mut stages = Vec::new();
        for stage in self.variable_rate.iter().cycle() {
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
        for (key, value) in &self.message_properties {
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
        let paced = (self.rate() != 0.0 || !self.variable_rate.is_empty()) && self.producers > 0;
        let queue_type = match (self.quorum_queue, self.stream_queue) {
            (true, _) => Some("quorum".to_owned()),
            (_, true) => Some("stream".to_owned()),
            _ => None,
        };
        Settings {
            engine: self.engine,
            churn: self.churn,
            producers: paced.then_some(self.producers),
            random_start_delay: self.producer_random_start_delay,
            size: self.size,
            variable_size: self.variable_size.clone(),
            body: self.body.clone(),
            json_body: self.json_body,
            persistent: self.persistent || self.flag.contains(&Flag::Persistent),
            properties: self.properties(),
            mandatory: self.mandatory || self.flag.contains(&Flag::Mandatory),
            confirms: self.confirm.or(self.confirms.then_some(DEFAULT_WINDOW)),
            confirm_timeout: self.confirm_timeout,
            queue: self.queue.clone(),
            queue_pattern: self.queue_pattern.clone(),
            queue_from: self.queue_pattern_from,
            queue_to: self.queue_pattern_to.unwrap_or(self.queue_pattern_from),
            queue_type,
            queue_args: self.queue_args.iter().cloned().collect::<BTreeMap<_, _>>(),
            auto_delete: self.auto_delete,
            exclusive: self.exclusive,
            predeclared: self.predeclared,
            exchange: self.exchange.clone(),
            exchange_type: self.exchange_type.clone(),
            routing_key: self.routing_key.clone(),
            auto_ack: self.auto_ack,
            prefetch: self.prefetch,
            global_qos: self.global_qos,
            multi_ack_every: self.multi_ack_every,
            nack_share: self.nack,
            requeue: self.requeue,
            consumer_latency: self.consumer_latency,
            consumer_args: self.consumer_args.iter().cloned().collect(),
            consumer_rate: self.consumer_rate,
            polling: self.polling,
            polling_interval: self.polling_interval,
            cmessages: self.cmessages,
            exit_when: self.exit_when,
            exit_idle_after: self.exit_idle_after,
            tls_ca: self.tls_ca.clone(),
            tls_insecure: self.tls_insecure,
            wall_clock: self.wall_clock,
            channels: self.channels,
            heartbeat: self.heartbeat,
            reconnect_after: self.reconnect_after,
            ..Settings::default()
        }
    }
}
