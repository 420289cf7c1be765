//! Options that shape the load, and the plan built from them.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use harness::cli::Given;
use load::duration;
use load::plan::{Group, Invalid, Plan, PlannedStage, Timeline};
use load::schedule::Arrival;

use super::values::{Flag, Property, parse_argument, parse_interval, parse_property, parse_rate};
use crate::settings::{
    self, CONSUMERS, CONSUMING, LOAD, MESSAGES, PRODUCERS, Properties, QUEUES, Settings, clients,
};

/// Maximum unconfirmed messages per producer with --confirms.
const DEFAULT_WINDOW: u32 = 1000;

/// Options that shape the load. Each is a field of a plan.
#[derive(Debug, Args)]
pub(super) struct Load {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    more: MoreSettings,
}

#[derive(Debug, Args)]
#[command(next_help_heading = LOAD)]
struct LoadOptions {
    /// Set the number of producers, each with its own connection
    #[arg(short = 'x', long, value_name = "N", default_value_t = 1)]
    producers: u64,
    /// Set the number of consumers, each with its own connection
    #[arg(
        short = 'y',
        long,
        value_name = "N",
        default_value_t = 1,
        conflicts_with = "churn"
    )]
    consumers: u64,
    /// Publish for this long
    #[arg(short = 'z', long, alias = "time", value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    duration: Duration,
    /// Publish this many messages per second in total (0: no limit). All producers share it, evenly paced.
    /// PerfTest's --rate is per producer
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
    /// Send N messages per producer. With --churn, N operations [default: until --duration]
    #[arg(short = 'C', long, value_name = "N")]
    pmessages: Option<u64>,
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

/// Options that set fields of the settings together with others, or only a part of one.
#[derive(Debug, Args)]
struct MoreSettings {
    /// Set PerfTest's flags; equivalent to --persistent and --mandatory
    #[arg(short = 'f', long, help_heading = MESSAGES, value_enum, value_name = "FLAG[,FLAG]", value_delimiter = ',')]
    flag: Vec<Flag>,
    /// Use publisher confirms with at most 1,000 unconfirmed messages per producer
    #[arg(long = "confirms", help_heading = MESSAGES)]
    default_confirms: bool,
    /// Set message properties by PerfTest's names: contentType, contentEncoding, deliveryMode, priority, correlationId,
    /// replyTo, expiration, messageId, timestamp, type, userId, appId, clusterId; any other key becomes a header
    #[arg(long, help_heading = MESSAGES, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_property)]
    message_properties: Vec<Property>,
    /// Pass arguments to queue.declare, such as x-max-length=1000
    #[arg(long, help_heading = QUEUES, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_argument)]
    queue_args: Vec<(String, toml::Value)>,
    /// Declare quorum queues
    #[arg(long, help_heading = QUEUES, conflicts_with = "stream_queue")]
    quorum_queue: bool,
    /// Declare stream queues
    #[arg(long, help_heading = QUEUES)]
    stream_queue: bool,
    /// Pass arguments to basic.consume, such as x-priority=5; x-stream-offset sets where to read a stream [default:
    /// first]
    #[arg(long, help_heading = CONSUMING, value_name = "KEY=VALUE[,…]", value_delimiter = ',', value_parser = parse_argument)]
    consumer_args: Vec<(String, toml::Value)>,
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

    /// Applies given options to a plan from a file.
    pub(super) fn override_plan(
        &self,
        plan: &mut Plan<Settings>,
        given: &mut Given,
    ) -> Result<(), Invalid> {
        let flags = given.take("flag").then_some(self.more.flag.as_slice());
        for flag in flags.into_iter().flatten() {
            match flag {
                Flag::Persistent => plan.driver.persistent = true,
                Flag::Mandatory => plan.driver.mandatory = true,
            }
        }
        if given.take("consumers") {
            group(plan, CONSUMERS, "--consumers")?.clients = self.load.consumers;
        }
        let shaping = [
            "producers",
            "rate",
            "publishing_interval",
            "pmessages",
            "ramp_up",
        ];
        if !shaping.iter().any(|option| given.contains(option)) {
            return Ok(());
        }
        let mut number = settings::producers(plan);
        if given.take("producers") {
            number = self.load.producers;
        }
        let producers = group(plan, PRODUCERS, "--producers, --rate or --pmessages")?;
        if given.take("rate") | given.take("publishing_interval") {
            let rate = self.rate_of(number);
            producers.rate = (rate != 0.0).then_some(rate);
        }
        let is_paced = producers.rate.is_some();
        producers.clients = if is_paced { 0 } else { number };
        if given.take("pmessages") {
            let each = self.load.pmessages;
            producers.ops = match is_paced {
                true => each.map(|each| each.saturating_mul(number)),
                false => each,
            };
        }
        if given.take("ramp_up") {
            producers.ramp = self.load.ramp_up;
        }
        plan.driver.producers = is_paced.then_some(number);
        Ok(())
    }

    /// Returns the messages per second of all producers together.
    fn rate(&self) -> f64 {
        self.rate_of(self.load.producers)
    }

    fn rate_of(&self, producers: u64) -> f64 {
        let interval = self.load.publishing_interval;
        interval.map_or(self.load.rate, |interval| {
            producers as f64 / interval.as_secs_f64()
        })
    }

    /// Returns how long to measure. With a rate and a fixed number of messages, the time until all of them were due.
    fn measures(&self) -> Duration {
        let rate = self.rate();
        let messages = self.load.pmessages.filter(|_| rate > 0.0);
        messages.map_or(self.load.duration, |each| {
            let all = each as f64 * self.load.producers as f64;
            let lasts = Duration::try_from_secs_f64(all / rate).unwrap_or(Duration::MAX);
            let lasts = lasts.saturating_add(self.settings.random_start_delay);
            self.load.duration.min(lasts)
        })
    }

    fn groups(&self) -> Vec<Group> {
        let group = |name: &str, number: u64| Group {
            arrival: self.load.arrival,
            ..clients(name, number)
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
        let consumes = self.load.consumers > 0 && self.settings.churn.is_none();
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
        let mut fields = toml::Table::new();
        let mut headers = BTreeMap::new();
        for property in self.more.message_properties.iter().cloned() {
            match property {
                Property::Field(field, value) => drop(fields.insert(field.to_owned(), value)),
                Property::Header(key, value) => drop(headers.insert(key, value)),
            }
        }
        let properties: Properties = fields
            .try_into()
            .expect("each value was parsed for its field");
        Properties {
            headers,
            ..properties
        }
    }

    fn settings(&self) -> Settings {
        let Self { settings, more, .. } = self;
        let paced = self.rate() != 0.0 || !self.load.variable_rate.is_empty();
        let queue_type = match (more.quorum_queue, more.stream_queue) {
            (true, _) => Some("quorum".to_owned()),
            (_, true) => Some("stream".to_owned()),
            _ => None,
        };
        Settings {
            producers: (paced && self.load.producers > 0).then_some(self.load.producers),
            persistent: settings.persistent || more.flag.contains(&Flag::Persistent),
            mandatory: settings.mandatory || more.flag.contains(&Flag::Mandatory),
            confirms: settings
                .confirms
                .or(more.default_confirms.then_some(DEFAULT_WINDOW)),
            properties: self.properties(),
            queue_type,
            queue_args: more.queue_args.iter().cloned().collect(),
            consumer_args: more.consumer_args.iter().cloned().collect(),
            ..settings.clone()
        }
    }
}

/// Returns the group of a plan whose load an option changes.
fn group<'a>(
    plan: &'a mut Plan<Settings>,
    name: &str,
    option: &str,
) -> Result<&'a mut Group, Invalid> {
    let group = plan.groups.iter_mut().find(|group| group.name == name);
    let missing = || {
        let problem =
            format!("the plan has no group `{name}`: add [[groups]] with name = \"{name}\"");
        Invalid::new(option, problem)
    };
    let group = group.ok_or_else(missing)?;
    if group.stages.is_empty() {
        return Ok(group);
    }
    let problem =
        format!("the stages of the group `{name}` set its load: write other stages in the plan");
    Err(Invalid::new(option, problem))
}
