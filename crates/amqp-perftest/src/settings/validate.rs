//! Validation of plans; each error names the field and the remedy.

use load::plan::{Invalid, Plan};

use super::{CONSUMERS, Churn, Engine, PRODUCERS, Settings, consumers, group, producers};
use crate::lapin::MOST_CHANNELS;
use amqp_client::stamp;

/// Maximum connections of one role.
const MOST: u64 = 1_000_000;
/// Maximum clients of a churn, which are threads.
const MOST_CLIENTS: u64 = 1000;
/// Maximum body size: RabbitMQ's limit.
const LARGEST: u32 = 512 << 20;

impl Settings {
    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first invalid field, with the remedy.
    pub fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        validate_groups(plan)?;
        Self::validate_start_delay(plan)?;
        let settings = &plan.driver;
        if let Some(churn) = settings.churn {
            settings.validate_churn(churn, plan)?;
        }
        settings.validate_bodies()?;
        settings.validate_names()?;
        settings.validate_consuming(plan)?;
        settings.validate_polling()?;
        Self::validate_exit(plan)?;
        Self::validate_exclusive(plan)?;
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        if settings.confirms == Some(0) {
            return wrong(
                "driver.confirms (--confirm)",
                "with 0, no message could ever be published: give at least 1, or leave it out for no confirms",
            );
        }
        if settings.confirm_timeout.is_zero() {
            return wrong(
                "driver.confirm_timeout (--confirm-timeout)",
                "must be longer than 0: use 30s, for example",
            );
        }
        if settings.channels == 0 {
            return wrong(
                "driver.channels (--channels)",
                "must be at least 1: raise it",
            );
        }
        settings.tls().validate()?;
        settings.validate_engine()?;
        if plan.instances != 1 {
            return wrong(
                "instances (--instances)",
                "a queue is on one broker: leave it at 1",
            );
        }
        Ok(())
    }

    /// Validates settings that only one engine supports.
    fn validate_engine(&self) -> Result<(), Invalid> {
        if self.engine.chosen() != Engine::Lapin {
            return Ok(());
        }
        if self.churn.is_some() {
            let problem =
                "--churn is implemented only by the wire engine: drop --engine lapin or --churn";
            return Err(Invalid::new("driver.engine (--engine)", problem));
        }
        if self.channels > MOST_CHANNELS {
            let problem = format!(
                "{} channels would share lapin's single thread per connection: give at most {MOST_CHANNELS}, or use --engine wire",
                self.channels
            );
            return Err(Invalid::new("driver.channels (--channels)", problem));
        }
        if self.tls_insecure {
            let problem = "the lapin engine always verifies certificates: pass --tls-ca, or use --engine wire";
            return Err(Invalid::new(
                "driver.tls_insecure (--tls-insecure)",
                problem,
            ));
        }
        if self.heartbeat == Some(0) {
            let problem = "the lapin engine treats heartbeat 0 as \"use the broker's value\": give seconds, or use --engine wire";
            return Err(Invalid::new("driver.heartbeat (--heartbeat)", problem));
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
                    "{size} bytes are out of range: a body holds a stamp of {} bytes and brokers accept at most {LARGEST} bytes; choose a size between",
                    stamp::BYTES
                );
                return Err(Invalid::new(field, problem));
            }
        }
        if self.variable_size.iter().any(|of| of.over.is_zero()) {
            return Err(Invalid::new(
                "driver.variable_size (--variable-size)",
                "a size that lasts 0 s is never used: write it as BYTES:SECONDS with more than 0 seconds",
            ));
        }
        let others = !self.variable_size.is_empty() || self.json_body;
        if !self.body.is_empty() && others {
            let problem = "replaces `variable_size` and `json_body`: use only one of them";
            return Err(Invalid::new("driver.body (--body)", problem));
        }
        Ok(())
    }

    /// Validates a churn plan. Settings for messages are refused rather than ignored.
    fn validate_churn(&self, churn: Churn, plan: &Plan<Self>) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        if consumers(plan) > 0 {
            let problem = "`churn` has no consumers: leave the group out";
            return wrong("groups (--consumers)", problem);
        }
        if !(1..=MOST_CLIENTS).contains(&producers(plan)) {
            let problem = "`churn` runs a thread per client: use 1 to 1,000";
            return wrong("driver.producers (--producers)", problem);
        }
        let usual = Self::default();
        for (field, is_set) in [
            ("driver.confirms (--confirm)", self.confirms.is_some()),
            ("driver.persistent (--persistent)", self.persistent),
            ("driver.mandatory (--mandatory)", self.mandatory),
            ("driver.size (--size)", self.size != usual.size),
            (
                "driver.variable_size (--variable-size)",
                !self.variable_size.is_empty(),
            ),
            ("driver.body (--body)", !self.body.is_empty()),
            ("driver.properties", self.properties != usual.properties),
            (
                "driver.routing_key (--routing-key)",
                self.routing_key.is_some(),
            ),
            ("driver.auto_ack (--auto-ack)", self.auto_ack),
            ("driver.exclusive (--exclusive)", self.exclusive),
            ("driver.polling (--polling)", self.polling),
            ("driver.wall_clock (--wall-clock)", self.wall_clock),
            (
                "driver.consumer_rate (--consumer-rate)",
                self.consumer_rate.is_some(),
            ),
            (
                "driver.random_start_delay (--producer-random-start-delay)",
                !self.random_start_delay.is_zero(),
            ),
            ("driver.nack_share (--nack)", self.nack_share.is_some()),
            (
                "driver.consumer_latency (--consumer-latency)",
                self.consumer_latency != usual.consumer_latency,
            ),
            (
                "driver.channels (--channels)",
                self.channels != usual.channels,
            ),
        ] {
            if is_set {
                return wrong(
                    field,
                    "applies to messages, and `churn` sends none: leave one of the two out",
                );
            }
        }
        let binds = churn == Churn::Binding;
        let named = [
            ("driver.exchange (--exchange)", !self.exchange.is_empty()),
            (
                "driver.queue_pattern (--queue-pattern)",
                self.queue_pattern.is_some(),
            ),
            ("driver.predeclared (--predeclared)", self.predeclared),
        ];
        match named.into_iter().find(|(_, is_set)| *is_set && !binds) {
            Some((field, _)) => wrong(
                field,
                "applies to `churn = \"binding\"`, which uses existing queues: leave it out",
            ),
            None => Ok(()),
        }
    }

    fn validate_names(&self) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        if let Some(pattern) = &self.queue_pattern {
            let field = "driver.queue_pattern (--queue-pattern)";
            if !pattern.contains("%d") {
                return wrong(
                    field,
                    "has no %d for the number: use perftest-%d, for example",
                );
            }
            if self.queue_from > self.queue_to || self.queue_to - self.queue_from >= 100_000 {
                return wrong(
                    "driver.queue_to (--queue-pattern-to)",
                    "must lie from queue_from to below queue_from + 100,000: choose a number in this range",
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
                "is empty, and the broker would choose a name that other connections do not know: give a name",
            );
        }
        match self.queue_type.as_deref() {
            None | Some("classic" | "quorum" | "stream") => Ok(()),
            Some(_) => wrong(
                "driver.queue_type",
                "is not classic, quorum or stream: choose one of them",
            ),
        }
    }

    fn validate_consuming(&self, plan: &Plan<Self>) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: String| Err(Invalid::new(field, problem));
        let every = self.multi_ack_every;
        if every == 0 {
            return wrong(
                "driver.multi_ack_every (--multi-ack-every)",
                "must be at least 1: give 1 to acknowledge each delivery".to_owned(),
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
                "controls acknowledgements, and auto_ack sends none: use only one of them"
                    .to_owned(),
            );
        }
        if self.auto_ack && !self.consumer_latency.is_zero() {
            let problem = "delays acknowledgements, and auto_ack sends none: use only one of them";
            return wrong(
                "driver.consumer_latency (--consumer-latency)",
                problem.to_owned(),
            );
        }
        let limited = self.prefetch > 0 && !self.auto_ack && !self.polling;
        if limited && every > self.prefetch {
            let problem = format!(
                "{every} exceeds the prefetch of {}, so the broker would wait for ever: raise --prefetch or lower it",
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
                "must be between 0 and 1 (0.1 is every tenth delivery): correct it, or leave it out"
                    .to_owned(),
            );
        }
        if self.is_of_type("stream") {
            let queues = u64::from(self.queue_to.saturating_sub(self.queue_from)) + 1;
            if self.auto_ack || self.prefetch == 0 || consumers(plan) > queues {
                let problem = "a stream needs acknowledgements and a prefetch, and delivers every message to every consumer: leave auto_ack out, and use one consumer per queue";
                return wrong("driver.queue_type", problem.to_owned());
            }
        }
        Ok(())
    }
}

fn validate_groups(plan: &Plan<Settings>) -> Result<(), Invalid> {
    for (place, group) in plan.groups.iter().enumerate() {
        let wrong = |field: &str, problem: String| {
            Err(Invalid::new(format!("groups[{place}].{field}"), problem))
        };
        if group.name != PRODUCERS && group.name != CONSUMERS {
            let problem = format!(
                "unknown group `{}`: use `{PRODUCERS}` or `{CONSUMERS}`",
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
                format!("group `{}` exists twice: give each group once", group.name),
            );
        }
        if group.name == CONSUMERS && group.clients == 0 {
            let problem = "consumers have no rate: give `workers` alone";
            return wrong("rate", problem.to_owned());
        }
        if group.stages.iter().any(|stage| stage.users().is_some()) {
            let problem = "the number of producers and consumers is fixed: use stages of a `rate`, or `workers`";
            return wrong("stages", problem.to_owned());
        }
        if group.clients > MOST {
            return wrong(
                "clients",
                format!("{} exceeds 1,000,000: lower it", group.clients),
            );
        }
    }
    let settings = &plan.driver;
    let paced = group(plan, PRODUCERS).is_some_and(|group| group.clients == 0);
    match settings.producers {
        Some(0) => Err(Invalid::new(
            "driver.producers (--producers)",
            "a rate needs at least 1 producer: raise it",
        )),
        Some(many) if many > MOST => Err(Invalid::new(
            "driver.producers (--producers)",
            format!("{many} exceeds 1,000,000: lower it"),
        )),
        Some(_) if !paced => Err(Invalid::new(
            "driver.producers",
            "applies to a group with a rate: without one, `workers` is the number of producers",
        )),
        _ => Ok(()),
    }
}
