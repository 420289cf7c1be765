//! What of a plan can't be run, each with its field and the remedy.

use harness::plan::{Invalid, Plan};

use super::{CONSUMERS, Churn, Engine, PRODUCERS, Settings, consumers, group, producers};
use crate::lapin::MOST_CHANNELS;
use crate::stamp;

/// Most connections of one role.
const MOST: u64 = 1_000_000;
/// Most clients of a churn, which are threads.
const MOST_CLIENTS: u64 = 1000;
/// Largest body: what RabbitMQ takes at most.
const LARGEST: u32 = 512 << 20;

impl Settings {
    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first field that can't be run, with the remedy.
    pub fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        validate_groups(plan)?;
        Self::validate_starting(plan)?;
        let settings = &plan.driver;
        if let Some(churn) = settings.churn {
            settings.validate_churn(churn, plan)?;
        }
        settings.validate_bodies()?;
        settings.validate_names()?;
        settings.validate_consuming(plan)?;
        settings.validate_taking()?;
        Self::validate_ending(plan)?;
        Self::validate_owning(plan)?;
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
        if settings.tls_insecure && settings.tls_ca.is_some() {
            return wrong(
                "driver.tls_insecure (--tls-insecure)",
                "takes any certificate, whoever signed it: leave it or tls_ca out",
            );
        }
        settings.validate_engine()?;
        if plan.instances != 1 {
            return wrong(
                "instances (--instances)",
                "a queue lies on one broker: leave it at 1",
            );
        }
        Ok(())
    }

    /// What only one of the engines can do.
    fn validate_engine(&self) -> Result<(), Invalid> {
        if self.engine.chosen() != Engine::Lapin {
            return Ok(());
        }
        if self.churn.is_some() {
            let problem =
                "makes and unmakes without the library: leave --engine lapin or `churn` out";
            return Err(Invalid::new("driver.engine (--engine)", problem));
        }
        if self.channels > MOST_CHANNELS {
            let problem = format!(
                "{} channels would share the one thread that lapin has for a connection: give at most {MOST_CHANNELS}, or --engine wire",
                self.channels
            );
            return Err(Invalid::new("driver.channels (--channels)", problem));
        }
        if self.tls_insecure {
            let problem = "lapin asks every certificate who signed it: name that (--tls-ca), or give --engine wire";
            return Err(Invalid::new(
                "driver.tls_insecure (--tls-insecure)",
                problem,
            ));
        }
        if self.heartbeat == Some(0) {
            let problem = "lapin takes the broker's interval for 0: give seconds, or --engine wire";
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
        let others = !self.variable_size.is_empty() || self.json_body;
        if !self.body.is_empty() && others {
            let problem = "replaces `variable_size` and `json_body`: give one of them";
            return Err(Invalid::new("driver.body (--body)", problem));
        }
        Ok(())
    }

    /// Churn has no messages: what speaks of them is refused rather than ignored.
    fn validate_churn(&self, churn: Churn, plan: &Plan<Self>) -> Result<(), Invalid> {
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        if consumers(plan) > 0 {
            let problem = "consumes nothing where `churn` is set: leave the group out";
            return wrong("groups (--consumers)", problem);
        }
        if !(1..=MOST_CLIENTS).contains(&producers(plan)) {
            let problem = "with `churn` each is a thread: have 1 to 1,000";
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
                    "is about messages, and with `churn` there are none: leave out one of the two",
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
                "is for `churn = \"binding\"`, which works on queues that are there: leave it out",
            ),
            None => Ok(()),
        }
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
        if self.auto_ack && !self.consumer_latency.is_zero() {
            let problem =
                "holds acknowledgements back, which auto_ack leaves out: give one of the two";
            return wrong(
                "driver.consumer_latency (--consumer-latency)",
                problem.to_owned(),
            );
        }
        let limited = self.prefetch > 0 && !self.auto_ack && !self.polling;
        if limited && every > self.prefetch {
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
        if self.is_of_type("stream") {
            let queues = u64::from(self.queue_to.saturating_sub(self.queue_from)) + 1;
            if self.auto_ack || self.prefetch == 0 || consumers(plan) > queues {
                let problem = "a stream needs acknowledgements and a prefetch, and gives every message to every consumer: leave auto_ack out, and have one consumer for each queue";
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
        if group.stages.iter().any(|stage| stage.users().is_some()) {
            let problem = "producers and consumers stay as many as they are: give stages of a `rate`, or `workers`";
            return wrong("stages", problem.to_owned());
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
