//! The driver's own settings: the `[driver]` table of a plan.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use harness::duration;
use harness::plan::{Group, Invalid, Plan};
use serde::{Deserialize, Serialize};

use crate::stamp;

/// Name of the group that publishes.
pub const PRODUCERS: &str = "producers";
/// Name of the group that consumes.
pub const CONSUMERS: &str = "consumers";
/// Messages that may be unconfirmed where confirms are asked for and nothing else is said.
pub const DEFAULT_WINDOW: u32 = 1000;
/// Most connections of one role.
const MOST: u64 = 1_000_000;
/// Largest body: what RabbitMQ takes at most.
const LARGEST: u32 = 512 << 20;

/// The driver's own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What speaks to the broker.
    pub engine: Engine,
    /// Producers where their group has a rate; without one they are the group's `workers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producers: Option<u64>,
    /// Bytes of a body.
    pub size: u32,
    /// Sizes to go through in place of `size`, again and again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variable_size: Vec<SizeFor>,
    /// Files with bodies, one after the other; each is sent behind a stamp.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<PathBuf>,
    /// Delivery mode 2.
    pub persistent: bool,
    /// Whether the broker returns what no queue takes.
    pub mandatory: bool,
    /// Messages of a producer that may be unconfirmed at once; absent: no confirms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirms: Option<u32>,
    /// After so long without its confirm a message has failed, and its connection is made anew.
    #[serde(with = "duration")]
    pub confirm_timeout: Duration,
    /// Further properties of the messages.
    pub properties: Properties,
    /// The queue.
    pub queue: String,
    /// Several queues in its place, `%d` being a number: producer and consumer k have the one at place k modulo their
    /// number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_pattern: Option<String>,
    /// The first number of the pattern.
    pub queue_from: u32,
    /// The last.
    pub queue_to: u32,
    /// `classic`, `quorum` or `stream`; absent: what the broker takes by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_type: Option<String>,
    /// Further arguments of the queues, such as `x-max-length`.
    pub queue_args: BTreeMap<String, toml::Value>,
    /// Whether the queues outlive the broker.
    pub durable: bool,
    /// Whether the queues go with their last consumer.
    pub auto_delete: bool,
    /// Whether queues and exchange are there already: they are neither declared nor deleted.
    pub predeclared: bool,
    /// The exchange, empty for the default one.
    pub exchange: String,
    /// Its type.
    pub exchange_type: String,
    /// The routing key; absent: the name of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<String>,
    /// Whether deliveries need no acknowledgement.
    pub auto_ack: bool,
    /// Deliveries that may be unacknowledged at once; 0 for no limit.
    pub prefetch: u16,
    /// Whether that is a limit of the whole channel.
    pub global_qos: bool,
    /// Acknowledge every so many deliveries, all at once.
    pub multi_ack_every: u16,
    /// The share of deliveries, from 0 to 1, that is refused (`basic.nack`) the first time; spread evenly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nack_share: Option<f64>,
    /// Whether what is refused goes back to the queue.
    pub requeue: bool,
    /// Channels of each connection.
    pub channels: u16,
    /// Seconds between two heartbeats, 0 for none; absent: what the broker offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<u16>,
    /// How long to wait before a lost connection is made again.
    #[serde(with = "duration")]
    pub reconnect_after: Duration,
}

/// What speaks to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Frames written and read by hand, many connections in one readiness loop.
    #[default]
    Wire,
}

/// A size, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeFor {
    /// Bytes of a body.
    pub size: u32,
    /// For how long.
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: Engine::Wire,
            producers: None,
            size: 1024,
            variable_size: Vec::new(),
            body: Vec::new(),
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
            channels: 1,
            heartbeat: None,
            reconnect_after: Duration::from_secs(1),
        }
    }
}

/// The group of a name, if there is one.
pub(crate) fn group<'a>(plan: &'a Plan<Settings>, name: &str) -> Option<&'a Group> {
    plan.groups.iter().find(|group| group.name == name)
}

/// How many producers a plan has.
#[must_use]
pub fn producers(plan: &Plan<Settings>) -> u64 {
    group(plan, PRODUCERS).map_or(0, |group| match group.workers {
        0 => plan.driver.producers.unwrap_or(1),
        workers => workers,
    })
}

/// How many consumers a plan has.
#[must_use]
pub fn consumers(plan: &Plan<Settings>) -> u64 {
    group(plan, CONSUMERS).map_or(0, |group| group.workers)
}

impl Settings {
    /// The queues, at least one.
    #[must_use]
    pub fn queues(&self) -> Vec<String> {
        match &self.queue_pattern {
            Some(pattern) => (self.queue_from..=self.queue_to)
                .map(|number| pattern.replace("%d", &number.to_string()))
                .collect(),
            None => vec![self.queue.clone()],
        }
    }

    /// The queue of producer or consumer `place`.
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

    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first field that can't be run, with the remedy.
    pub fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        validate_groups(plan)?;
        let settings = &plan.driver;
        settings.validate_bodies()?;
        settings.validate_names()?;
        settings.validate_consuming(plan)?;
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        if settings.confirms == Some(0) {
            return wrong(
                "driver.confirms (--confirm)",
                "0 messages could never be published: give at least 1, or leave it out for no confirms",
            );
        }
        if settings.confirm_timeout.is_zero() {
            return wrong(
                "driver.confirm_timeout (--confirm-timeout)",
                "must be longer than 0: such as 30s",
            );
        }
        if settings.channels == 0 {
            return wrong(
                "driver.channels (--channels)",
                "0 channels carry nothing: give at least 1",
            );
        }
        if plan.instances != 1 {
            return wrong(
                "instances (--instances)",
                "a queue lies on one broker: leave it at 1",
            );
        }
        Ok(())
    }

    fn validate_bodies(&self) -> Result<(), Invalid> {
        let sizes = std::iter::once(("driver.size (--size)", self.size)).chain(
            self.variable_size
                .iter()
                .map(|of| ("driver.variable_size (--variable-size)", of.size)),
        );
        for (field, size) in sizes {
            if (size as usize) < stamp::BYTES || size > LARGEST {
                let problem = format!(
                    "{size} bytes: each body begins with a stamp of {} bytes, and no broker takes more than {LARGEST}: choose a size between",
                    stamp::BYTES
                );
                return Err(Invalid::new(field, problem));
            }
        }
        if self.variable_size.iter().any(|of| of.over.is_zero()) {
            return Err(Invalid::new(
                "driver.variable_size (--variable-size)",
                "a size that lasts 0 s is never sent: write it as BYTES:SECONDS",
            ));
        }
        if !self.body.is_empty() && !self.variable_size.is_empty() {
            let problem = "replaces `variable_size`: give one of the two";
            return Err(Invalid::new("driver.body (--body)", problem));
        }
        Ok(())
    }

    fn validate_names(&self) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        if let Some(pattern) = &self.queue_pattern {
            let field = "driver.queue_pattern (--queue-pattern)";
            if !pattern.contains("%d") {
                return wrong(field, "has no %d for the number: such as perftest-%d");
            }
            if self.queue_from > self.queue_to || self.queue_to - self.queue_from >= 100_000 {
                return wrong(
                    "driver.queue_to (--queue-pattern-to)",
                    "lies below queue_from or 100,000 above it: choose a number between",
                );
            }
        }
        for (field, name) in [
            (
                "driver.queue (--queue)",
                &self.queue_of(u64::from(u32::MAX)),
            ),
            ("driver.exchange (--exchange)", &self.exchange),
            ("driver.exchange_type (--type)", &self.exchange_type),
            (
                "driver.routing_key (--routing-key)",
                self.routing_key.as_ref().unwrap_or(&self.queue),
            ),
        ] {
            if name.len() > 255 {
                return wrong(
                    field,
                    "is longer than the 255 bytes of a short string: shorten it",
                );
            }
        }
        if self.queue.is_empty() {
            return wrong(
                "driver.queue (--queue)",
                "is empty: the broker would choose a name that nobody else knows",
            );
        }
        match self.queue_type.as_deref() {
            None | Some("classic" | "quorum" | "stream") => Ok(()),
            Some(_) => wrong("driver.queue_type", "is none of classic, quorum and stream"),
        }
    }

    fn validate_consuming(&self, plan: &Plan<Self>) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: String| Err(Invalid::new(field, problem));
        let every = self.multi_ack_every;
        if every == 0 {
            return wrong(
                "driver.multi_ack_every (--multi-ack-every)",
                "0 acknowledges nothing: give 1 for each delivery".to_owned(),
            );
        }
        if self.auto_ack && (every > 1 || self.nack_share.is_some()) {
            let field = if every > 1 {
                "driver.multi_ack_every (--multi-ack-every)"
            } else {
                "driver.nack_share (--nack)"
            };
            return wrong(
                field,
                "says how to acknowledge, which auto_ack leaves out: give one of the two"
                    .to_owned(),
            );
        }
        if self.prefetch > 0 && every > self.prefetch && !self.auto_ack {
            let problem = format!(
                "{every} is above the prefetch of {}: the broker would wait for acknowledgements that never come; raise --prefetch or lower it",
                self.prefetch
            );
            return wrong("driver.multi_ack_every (--multi-ack-every)", problem);
        }
        if self
            .nack_share
            .is_some_and(|share| !(share > 0.0 && share <= 1.0))
        {
            return wrong(
                "driver.nack_share (--nack)",
                "is not between 0 and 1: 0.1 is every tenth delivery; leave it out for none"
                    .to_owned(),
            );
        }
        if self.queue_type.as_deref() == Some("stream") {
            let queues = u64::from(self.queue_to.saturating_sub(self.queue_from)) + 1;
            if self.auto_ack || self.prefetch == 0 || consumers(plan) > queues {
                let problem = "a stream needs acknowledgements and a prefetch, and gives every message to every consumer: leave auto_ack out, and have one consumer for each queue";
                return wrong("driver.queue_type", problem.to_owned());
            }
        }
        Ok(())
    }

    /// What the driver does, as part of the plan's sentence.
    #[must_use]
    pub fn sentence(plan: &Plan<Self>) -> String {
        let settings = &plan.driver;
        let (producers, consumers) = (producers(plan), consumers(plan));
        let load = match group(plan, PRODUCERS) {
            Some(group) => match (group.rate, group.ops) {
                (Some(rate), _) => {
                    format!(" at {rate} messages per second in all ({})", group.arrival)
                }
                (None, _) if !group.stages.is_empty() => " at a rate that changes".to_owned(),
                (None, Some(ops)) => format!(", {ops} messages each"),
                (None, None) => " as fast as they can".to_owned(),
            },
            None => String::new(),
        };
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
        let queues = settings.queues().len();
        let s = |number: u64| if number == 1 { "" } else { "s" };
        format!(
            "{producers} producer{}, {kind} messages of {} bytes{load}{confirms}; {consumers} consumer{} on {queues} {}, {acks}; for {}.",
            s(producers),
            settings.size,
            s(consumers),
            if queues == 1 { "queue" } else { "queues" },
            duration::format(plan.timeline.measure),
        )
    }
}

fn validate_groups(plan: &Plan<Settings>) -> Result<(), Invalid> {
    for (place, group) in plan.groups.iter().enumerate() {
        let wrong = |field: &str, problem: String| {
            Err(Invalid::new(format!("groups[{place}].{field}"), problem))
        };
        if group.name != PRODUCERS && group.name != CONSUMERS {
            let problem = format!(
                "`{}` is none of `{PRODUCERS}` and `{CONSUMERS}`",
                group.name
            );
            return wrong("name", problem);
        }
        if plan.groups[..place]
            .iter()
            .any(|before| before.name == group.name)
        {
            return wrong(
                "name",
                format!("`{}` is there twice: give one group of each", group.name),
            );
        }
        if group.name == CONSUMERS && group.workers == 0 {
            let problem = "consumers take what comes, at no rate: give `workers` alone";
            return wrong("rate", problem.to_owned());
        }
        if group.workers > MOST {
            return wrong(
                "workers",
                format!("{} is more than 1,000,000: lower it", group.workers),
            );
        }
    }
    let settings = &plan.driver;
    let paced = group(plan, PRODUCERS).is_some_and(|group| group.workers == 0);
    match settings.producers {
        Some(0) => Err(Invalid::new(
            "driver.producers (--producers)",
            "0 producers can't keep a rate: give at least 1",
        )),
        Some(many) if many > MOST => Err(Invalid::new(
            "driver.producers (--producers)",
            format!("{many} is more than 1,000,000: lower it"),
        )),
        Some(_) if !paced => Err(Invalid::new(
            "driver.producers",
            "is for a group with a rate: without one the producers are its `workers`",
        )),
        _ => Ok(()),
    }
}
