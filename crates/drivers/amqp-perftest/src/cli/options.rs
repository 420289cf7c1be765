//! Options that shape the load, and the plan built from them.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use clap::Args;
use harness::cli::set_duration;
use load::duration;
use load::plan::{Group, Invalid, Plan, PlannedStage, Timeline};

use super::values::{Flag, Property, parse_argument, parse_interval, parse_property, parse_rate};
use crate::settings::{
    self, CONSUMERS, CONSUMING, LOAD, MESSAGES, PRODUCERS, Properties, QUEUES, Settings,
};

/// Maximum unconfirmed messages per producer with --confirms.
const DEFAULT_WINDOW: u32 = 1000;
/// Default of --duration.
const MEASURE: Duration = Duration::from_secs(30);
/// Default time for confirms and deliveries that are outstanding at the end.
const DRAIN: Duration = Duration::from_secs(30);

/// Options that shape the load.
#[derive(Debug, Args)]
#[command(next_help_heading = LOAD)]
pub(super) struct LoadOptions {
    /// Set the number of producers, each with its own connection [default: 1]
    #[arg(short = 'x', long, value_name = "N")]
    producers: Option<u64>,
    /// Set the number of consumers, each with its own connection [default: 1]
    #[arg(short = 'y', long, value_name = "N", conflicts_with = "churn")]
    consumers: Option<u64>,
    /// Publish for this long [default: 30s]
    #[arg(short = 'z', long, alias = "time", value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Publish this many messages per second in total (0: no limit). All producers share it, evenly paced.
    /// PerfTest's --rate is per producer [default: 0]
    #[arg(
        short = 'r',
        long,
        value_name = "PER_SECOND",
        allow_negative_numbers = true
    )]
    rate: Option<f64>,
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
    /// Start unpaced producers over this time, or raise the rate from 0 over this time [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ramp_up: Option<Duration>,
    /// Send N messages per producer. With --churn, N operations [default: until --duration]
    #[arg(short = 'C', long, value_name = "N")]
    pmessages: Option<u64>,
}

/// Options that set fields of the settings together with others, or only a part of one.
#[derive(Debug, Args)]
pub(super) struct MessageOptions {
    /// Set PerfTest's flags; equivalent to --persistent and --mandatory
    #[arg(short = 'f', long, help_heading = MESSAGES, value_enum, value_name = "FLAG[,FLAG]", value_delimiter = ',')]
    flag: Vec<Flag>,
    /// Use publisher confirms with at most 1,000 unconfirmed messages per producer
    #[arg(long = "confirms", help_heading = MESSAGES)]
    default_confirms: bool,
    /// Use publisher confirms with at most N unconfirmed messages per producer
    #[arg(short = 'c', long, help_heading = MESSAGES, value_name = "N")]
    confirm: Option<u32>,
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

/// Returns the plan to which the options are applied: a producer and a consumer without limits, for an open time.
pub(super) fn plan(settings: Settings) -> Plan<Settings> {
    let consumes = settings.churn.is_none();
    let consumers = consumes.then(|| Group::new(CONSUMERS, 1));
    let groups = iter::once(Group::new(PRODUCERS, 1)).chain(consumers);
    let timeline = Timeline::new(Duration::ZERO, DRAIN);
    Plan::new("command-line", timeline, groups.collect(), settings)
}

impl LoadOptions {
    /// Applies the given options to a plan.
    pub(super) fn apply(&self, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        let is_staged = plan.groups.iter().any(|group| !group.stages.is_empty());
        let is_open = plan.timeline.measure.is_zero() && !is_staged;
        let duration = self.duration.or(is_open.then_some(MEASURE));
        if let Some(duration) = duration {
            set_duration(plan, duration)?;
        }
        match self.consumers {
            Some(0) => plan.groups.retain(|group| group.name != CONSUMERS),
            Some(number) => group(plan, CONSUMERS, "--consumers")?.clients = number,
            None => {}
        }
        if self.producers == Some(0) {
            plan.groups.retain(|group| group.name != PRODUCERS);
            plan.driver.producers = None;
            return Ok(());
        }
        self.apply_to_producers(plan, duration.is_some())
    }

    /// Applies the given options to the producers. If the duration `may_end` early, it ends when all messages were due.
    fn apply_to_producers(&self, plan: &mut Plan<Settings>, may_end: bool) -> Result<(), Invalid> {
        let is_paced = self.rate.is_some() || self.publishing_interval.is_some();
        let is_shaped = self.producers.is_some() || self.pmessages.is_some() || is_paced;
        let is_staged = !self.variable_rate.is_empty();
        if !is_shaped && !is_staged && self.ramp_up.is_none() {
            return Ok(());
        }
        let number = self.producers.unwrap_or_else(|| settings::producers(plan));
        let stages = self.stages(plan);
        let producers = group(plan, PRODUCERS, "--producers, --rate or --pmessages")?;
        if is_paced {
            let interval = self.publishing_interval;
            let rate = interval.map(|interval| number as f64 / interval.as_secs_f64());
            // An invalid one is refused later.
            producers.rate = rate.or(self.rate).filter(|rate| *rate != 0.0);
        }
        producers.ramp = self.ramp_up.unwrap_or(producers.ramp);
        if is_staged {
            (producers.stages, producers.rate) = (stages, None);
        }
        let is_paced = producers.rate.is_some() || is_staged;
        producers.clients = if is_paced { 0 } else { number };
        if let Some(each) = self.pmessages {
            // A fixed number is published in full even if it is late; the duration alone would cut it off.
            let all = each.saturating_mul(number);
            producers.ops = Some(if is_paced { all } else { each });
            if let Some(rate) = producers.rate.filter(|rate| may_end && *rate > 0.0) {
                let due = Duration::try_from_secs_f64(all as f64 / rate);
                let due = due.unwrap_or(Duration::MAX);
                let due = due.saturating_add(plan.driver.random_start_delay);
                plan.timeline.measure = plan.timeline.measure.min(due);
            }
        }
        plan.driver.producers = is_paced.then_some(number);
        Ok(())
    }

    /// Returns the stages of --variable-rate: each rate is set at once and held; the list repeats until the end.
    fn stages(&self, plan: &Plan<Settings>) -> Vec<PlannedStage> {
        let mut left = plan.planned();
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
}

impl MessageOptions {
    /// Applies the given options to settings.
    pub(super) fn apply(&self, settings: &mut Settings) {
        settings.persistent |= self.flag.contains(&Flag::Persistent);
        settings.mandatory |= self.flag.contains(&Flag::Mandatory);
        let window = self.default_confirms.then_some(DEFAULT_WINDOW);
        settings.confirms = self.confirm.or(window).or(settings.confirms);
        if !self.message_properties.is_empty() {
            settings.properties = self.properties();
        }
        for (is_given, kind) in [(self.stream_queue, "stream"), (self.quorum_queue, "quorum")] {
            if is_given {
                settings.queue_type = Some(kind.to_owned());
            }
        }
        for (given, arguments) in [
            (&self.queue_args, &mut settings.queue_args),
            (&self.consumer_args, &mut settings.consumer_args),
        ] {
            if !given.is_empty() {
                *arguments = given.iter().cloned().collect();
            }
        }
    }

    fn properties(&self) -> Properties {
        let mut fields = toml::Table::new();
        let mut headers = BTreeMap::new();
        for property in self.message_properties.iter().cloned() {
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
