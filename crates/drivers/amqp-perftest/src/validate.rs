//! Validation of plans; each error names the field and the remedy.

use std::time::Duration;

use load::plan::{Invalid, Plan};
use load::schedule::Arrival;

use crate::engine::lapin::MOST_CHANNELS;
use crate::settings::{CONSUMERS, Churn, Engine, PRODUCERS, Settings, consumers, group, producers};
use amqp_client::stamp;

mod consume;

/// Maximum connections of one role.
const MOST: u64 = 1_000_000;
/// Maximum clients of a churn, which are threads.
const MOST_CLIENTS: u64 = 1000;
/// Maximum body size: RabbitMQ's limit.
const LARGEST: u32 = 512 << 20;
/// Maximum random start delay, as of a ramp.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// Refuses a plan if `is_wrong`; `setting` is a name in the table `driver`, and the option in brackets.
fn refuse(is_wrong: bool, setting: &str, problem: &str) -> Result<(), Invalid> {
    if is_wrong {
        Err(wrong(setting, problem))
    } else {
        Ok(())
    }
}

fn wrong(setting: &str, problem: impl Into<String>) -> Invalid {
    Invalid::new(format!("driver.{setting}"), problem)
}

impl Settings {
    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first invalid field, with the remedy.
    pub fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        validate_groups(plan)?;
        let settings = &plan.driver;
        settings.validate_producers(plan)?;
        settings.validate_start_delay(plan)?;
        if let Some(churn) = settings.churn {
            settings.validate_churn(churn, plan)?;
        }
        settings.validate_bodies()?;
        settings.validate_properties()?;
        settings.validate_names()?;
        settings.validate_acknowledging(plan)?;
        settings.validate_polling()?;
        settings.validate_exit(plan)?;
        settings.validate_exclusive(plan)?;
        refuse(
            settings.confirms == Some(0),
            "confirms (--confirm)",
            "with 0, no message could ever be published: give at least 1, or leave it out for no confirms",
        )?;
        refuse(
            settings.confirm_timeout.is_zero(),
            "confirm_timeout (--confirm-timeout)",
            "must be longer than 0: use 30s, for example",
        )?;
        refuse(
            settings.channels == 0,
            "channels (--channels)",
            "must be at least 1: raise it",
        )?;
        settings.tls().validate()?;
        settings.validate_engine()?;
        if plan.instances != 1 {
            let problem = "a queue is on one broker: leave it at 1";
            return Err(Invalid::new("instances (--instances)", problem));
        }
        Ok(())
    }

    /// Validates settings that only one engine supports.
    fn validate_engine(&self) -> Result<(), Invalid> {
        if self.engine.chosen() != Engine::Lapin {
            return Ok(());
        }
        refuse(
            self.churn.is_some(),
            "engine (--engine)",
            "--churn is implemented only by the wire engine: drop --engine lapin or --churn",
        )?;
        refuse(
            self.channels > MOST_CHANNELS,
            "channels (--channels)",
            &format!(
                "{} channels would share lapin's single thread per connection: give at most {MOST_CHANNELS}, or use --engine wire",
                self.channels
            ),
        )?;
        refuse(
            self.tls_insecure,
            "tls_insecure (--tls-insecure)",
            "the lapin engine always verifies certificates: pass --tls-ca, or use --engine wire",
        )?;
        refuse(
            self.heartbeat == Some(0),
            "heartbeat (--heartbeat)",
            "the lapin engine treats heartbeat 0 as \"use the broker's value\": give seconds, or use --engine wire",
        )
    }

    fn validate_bodies(&self) -> Result<(), Invalid> {
        const VARIABLE: &str = "variable_size (--variable-size)";
        let several = self.variable_size.iter().map(|of| (VARIABLE, of.size));
        for (setting, size) in several.chain([("size (--size)", self.size)]) {
            refuse(
                (size as usize) < stamp::BYTES || size > LARGEST,
                setting,
                &format!(
                    "{size} bytes are out of range: a body holds a stamp of {} bytes and brokers accept at most {LARGEST} bytes; choose a size between",
                    stamp::BYTES
                ),
            )?;
        }
        refuse(
            self.variable_size.iter().any(|of| of.over.is_zero()),
            VARIABLE,
            "a size that lasts 0 s is never used: write it as BYTES:SECONDS with more than 0 seconds",
        )?;
        let others = !self.variable_size.is_empty() || self.json_body;
        refuse(
            !self.body.is_empty() && others,
            "body (--body)",
            "replaces `variable_size` and `json_body`: use only one of them",
        )
    }

    fn validate_properties(&self) -> Result<(), Invalid> {
        const EXPIRATION: &str = "properties.expiration (--message-properties)";
        const MODE: &str = "properties.delivery_mode (--message-properties)";
        let of = &self.properties;
        for (field, text) in [
            ("content_type", &of.content_type),
            ("content_encoding", &of.content_encoding),
            ("correlation_id", &of.correlation_id),
            ("reply_to", &of.reply_to),
            ("message_id", &of.message_id),
            ("type", &of.kind),
            ("user_id", &of.user_id),
            ("app_id", &of.app_id),
            ("cluster_id", &of.cluster_id),
        ] {
            refuse(
                text.as_ref().is_some_and(|text| text.len() > 255),
                &format!("properties.{field} (--message-properties)"),
                "is longer than the 255 bytes of a short string: shorten it",
            )?;
        }
        let expiration = of.expiration.as_ref();
        refuse(
            expiration.is_some_and(|text| text.parse::<u64>().is_err()),
            EXPIRATION,
            "is not a number of milliseconds: write it as \"60000\", for example",
        )?;
        refuse(
            of.delivery_mode
                .is_some_and(|mode| !(1..=2).contains(&mode)),
            MODE,
            "is not 1 (transient) or 2 (persistent): choose one of them",
        )?;
        refuse(
            self.persistent && of.delivery_mode == Some(1),
            MODE,
            "1 is transient, and `persistent` (--persistent) is set: leave one of the two out",
        )
    }

    /// Validates a churn plan. Settings for messages are refused rather than ignored.
    fn validate_churn(&self, churn: Churn, plan: &Plan<Self>) -> Result<(), Invalid> {
        if consumers(plan) > 0 {
            let problem = "`churn` has no consumers: leave the group out";
            return Err(Invalid::new("groups (--consumers)", problem));
        }
        refuse(
            !(1..=MOST_CLIENTS).contains(&producers(plan)),
            "producers (--producers)",
            "`churn` runs a thread per client: use 1 to 1,000",
        )?;
        let usual = Self::default();
        let delays_start = !self.random_start_delay.is_zero();
        for (setting, is_set) in [
            ("confirms (--confirm)", self.confirms.is_some()),
            ("persistent (--persistent)", self.persistent),
            ("mandatory (--mandatory)", self.mandatory),
            ("size (--size)", self.size != usual.size),
            (
                "variable_size (--variable-size)",
                !self.variable_size.is_empty(),
            ),
            ("body (--body)", !self.body.is_empty()),
            ("properties", self.properties != usual.properties),
            ("routing_key (--routing-key)", self.routing_key.is_some()),
            ("auto_ack (--auto-ack)", self.auto_ack),
            ("exclusive (--exclusive)", self.exclusive),
            ("polling (--polling)", self.polling),
            ("wall_clock (--wall-clock)", self.wall_clock),
            (
                "consumer_rate (--consumer-rate)",
                self.consumer_rate.is_some(),
            ),
            (
                "random_start_delay (--producer-random-start-delay)",
                delays_start,
            ),
            ("nack_share (--nack)", self.nack_share.is_some()),
            (
                "consumer_latency (--consumer-latency)",
                !self.consumer_latency.is_zero(),
            ),
            ("channels (--channels)", self.channels != usual.channels),
        ] {
            refuse(
                is_set,
                setting,
                "applies to messages, and `churn` sends none: leave one of the two out",
            )?;
        }
        for (setting, is_set) in [
            ("exchange (--exchange)", !self.exchange.is_empty()),
            (
                "queue_pattern (--queue-pattern)",
                self.queue_pattern.is_some(),
            ),
            ("predeclared (--predeclared)", self.predeclared),
        ] {
            refuse(
                is_set && churn != Churn::Binding,
                setting,
                "applies to `churn = \"binding\"`, which uses existing queues: leave it out",
            )?;
        }
        Ok(())
    }

    fn validate_names(&self) -> Result<(), Invalid> {
        if let Some(pattern) = &self.queue_pattern {
            refuse(
                !pattern.contains("%d"),
                "queue_pattern (--queue-pattern)",
                "has no %d for the number: use perftest-%d, for example",
            )?;
            refuse(
                self.queue_from > self.queue_to || self.queue_to - self.queue_from >= 100_000,
                "queue_to (--queue-pattern-to)",
                "must lie from queue_from to below queue_from + 100,000: choose a number in this range",
            )?;
        }
        let key = self.routing_key.as_ref().unwrap_or(&self.queue);
        for (setting, name) in [
            ("queue (--queue)", &self.queue_of(u64::from(u32::MAX))),
            ("exchange (--exchange)", &self.exchange),
            ("exchange_type (--type)", &self.exchange_type),
            ("routing_key (--routing-key)", key),
        ] {
            refuse(
                name.len() > 255,
                setting,
                "is longer than the 255 bytes of a short string: shorten it",
            )?;
        }
        let kind = &self.exchange_type;
        refuse(
            self.exchange.is_empty() && *kind != Self::default().exchange_type,
            "exchange_type (--type)",
            &format!(
                "{kind} has no effect without an exchange: add --exchange {kind}, the name that PerfTest gives it"
            ),
        )?;
        refuse(
            self.queue.is_empty(),
            "queue (--queue)",
            "is empty, and the broker would choose a name that other connections do not know: give a name",
        )?;
        let kind = self.queue_type.as_deref().unwrap_or("classic");
        refuse(
            !["classic", "quorum", "stream"].contains(&kind),
            "queue_type",
            "is not classic, quorum or stream: choose one of them",
        )
    }

    fn validate_producers(&self, plan: &Plan<Self>) -> Result<(), Invalid> {
        const PRODUCERS_SETTING: &str = "producers (--producers)";
        refuse(
            self.producers == Some(0),
            PRODUCERS_SETTING,
            "a rate needs at least 1 producer: raise it",
        )?;
        let many = self.producers.unwrap_or(0);
        refuse(
            many > MOST,
            PRODUCERS_SETTING,
            &format!("{many} exceeds 1,000,000: lower it"),
        )?;
        let paced = group(plan, PRODUCERS).is_some_and(|group| group.clients == 0);
        refuse(
            self.producers.is_some() && !paced,
            "producers",
            "applies to a group with a rate: without one, `clients` is the number of producers",
        )
    }

    /// Validates the random start delay. Such producers keep an interval each, so nothing else can shape their starts.
    fn validate_start_delay(&self, plan: &Plan<Self>) -> Result<(), Invalid> {
        const DELAY: &str = "random_start_delay (--producer-random-start-delay)";
        if self.random_start_delay.is_zero() {
            return Ok(());
        }
        refuse(
            self.random_start_delay > LONGEST_DELAY,
            DELAY,
            "is longer than an hour: shorten it",
        )?;
        let Some(group) = group(plan, PRODUCERS) else {
            let problem = "applies to producers, and the plan has none: add some, or leave it out";
            return Err(wrong(DELAY, problem));
        };
        let shaped = !group.stages.is_empty() || !group.ramp.is_zero();
        refuse(
            shaped || group.arrival != Arrival::Constant,
            DELAY,
            "cannot be combined with a ramp, a variable rate or Poisson arrivals, which also shape the starts: leave one of the two out",
        )
    }
}

fn validate_groups(plan: &Plan<Settings>) -> Result<(), Invalid> {
    for (index, group) in plan.groups.iter().enumerate() {
        let name = &group.name;
        let is_known = name == PRODUCERS || name == CONSUMERS;
        let mut before = plan.groups[..index].iter();
        for (is_wrong, field, problem) in [
            (
                !is_known,
                "name",
                format!("unknown group `{name}`: use `{PRODUCERS}` or `{CONSUMERS}`"),
            ),
            (
                before.any(|before| before.name == *name),
                "name",
                format!("group `{name}` exists twice: give each group once"),
            ),
            (
                name == CONSUMERS && group.clients == 0,
                "rate",
                "consumers have no rate: give `clients` alone".to_owned(),
            ),
            (
                group.stages.iter().any(|stage| stage.users().is_some()),
                "stages",
                "the number of producers and consumers is fixed: use stages of a `rate`, or `clients`".to_owned(),
            ),
            (
                group.clients > MOST,
                "clients",
                format!("{} exceeds 1,000,000: lower it", group.clients),
            ),
        ] {
            if is_wrong {
                return Err(Invalid::new(format!("groups[{index}].{field}"), problem));
            }
        }
    }
    Ok(())
}
