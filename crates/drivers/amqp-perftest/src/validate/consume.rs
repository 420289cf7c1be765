//! Validation of consumers and of the queues that they use.

use std::collections::HashMap;

use load::plan::{Invalid, Plan};
use load::workers::WorkerRange;

use super::{refuse, wrong};
use crate::layout::{Client, Layout};
use crate::settings::{ExitWhen, Settings, consumers, producers};

const EXCLUSIVE: &str = "exclusive (--exclusive)";

impl Settings {
    pub(super) fn validate_acknowledging(&self, plan: &Plan<Self>) -> Result<(), Invalid> {
        const EVERY: &str = "multi_ack_every (--multi-ack-every)";
        const SHARE: &str = "nack_share (--nack)";
        let every = self.multi_ack_every;
        refuse(
            every == 0,
            EVERY,
            "must be at least 1: give 1 to acknowledge each delivery",
        )?;
        for (setting, is_set) in [(EVERY, every > 1), (SHARE, self.nack_share.is_some())] {
            refuse(
                self.auto_ack && is_set,
                setting,
                "controls acknowledgements, and auto_ack sends none: use only one of them",
            )?;
        }
        refuse(
            self.auto_ack && !self.consumer_latency.is_zero(),
            "consumer_latency (--consumer-latency)",
            "delays acknowledgements, and auto_ack sends none: use only one of them",
        )?;
        let limited = self.prefetch > 0 && !self.auto_ack && !self.polling;
        refuse(
            limited && every > self.prefetch,
            EVERY,
            &format!(
                "{every} exceeds the prefetch of {}, so the broker would wait for ever: raise --prefetch or lower it",
                self.prefetch
            ),
        )?;
        let in_range = |share| share > 0.0 && share <= 1.0;
        refuse(
            self.nack_share.is_some_and(|share| !in_range(share)),
            SHARE,
            "must be between 0 and 1 (0.1 is every tenth delivery): correct it, or leave it out",
        )?;
        let several = consumers(plan) > self.queues().len() as u64;
        refuse(
            self.is_of_type("stream") && (self.auto_ack || self.prefetch == 0 || several),
            "queue_type",
            "a stream needs acknowledgements and a prefetch, and delivers every message to every consumer: leave auto_ack out, and use one consumer per queue",
        )
    }

    /// Validates polling and the consumer rate.
    pub(super) fn validate_polling(&self) -> Result<(), Invalid> {
        const RATE: &str = "consumer_rate (--consumer-rate)";
        let is_possible = |rate: f64| rate.is_finite() && rate > 0.0;
        refuse(
            self.consumer_rate.is_some_and(|rate| !is_possible(rate)),
            RATE,
            "must be above 0: give messages per second, or leave it out for no limit",
        )?;
        let unlimited = self.auto_ack || self.prefetch == 0;
        refuse(
            self.consumer_rate.is_some() && !self.polling && unlimited,
            RATE,
            "works by delaying acknowledgements, and with auto_ack or without a prefetch the broker does not wait for them: leave these out, or use polling",
        )?;
        if !self.polling {
            return refuse(
                !self.polling_interval.is_zero(),
                "polling_interval (--polling-interval)",
                "is the time between two basic.get, and consumers do not poll: add polling, or leave it out",
            );
        }
        refuse(
            self.prefetch != Self::default().prefetch || self.global_qos,
            "prefetch (--prefetch)",
            "limits deliveries of basic.consume, and with `polling` there are none: leave one of the two out",
        )?;
        refuse(
            !self.consumer_args.is_empty(),
            "consumer_args (--consumer-args)",
            "are arguments of basic.consume, which `polling` does not use: leave one of the two out",
        )?;
        refuse(
            self.is_of_type("stream"),
            "polling (--polling)",
            "a stream does not support basic.get: leave one of the two out",
        )
    }

    /// Validates the settings for the early end.
    pub(super) fn validate_exit(&self, plan: &Plan<Self>) -> Result<(), Invalid> {
        const EXIT: &str = "exit_when (--exit-when)";
        const EACH: &str = "cmessages (--cmessages)";
        refuse(
            self.cmessages == Some(0),
            EACH,
            "must be at least 1: raise it, or leave it out",
        )?;
        let conditions = [
            (EXIT, self.exit_when.is_some()),
            (EACH, self.cmessages.is_some()),
        ];
        for (setting, is_set) in conditions {
            refuse(
                consumers(plan) == 0 && is_set,
                setting,
                "applies to consumers, and the plan has none: add some, or leave it out",
            )?;
        }
        let is_idle = self.exit_when == Some(ExitWhen::Idle);
        let is_usual = self.exit_idle_after == Self::default().exit_idle_after;
        refuse(
            self.exit_idle_after.is_zero() || (!is_idle && !is_usual),
            "exit_idle_after (--exit-idle-after)",
            "applies to `exit_when = \"idle\"` and must be longer than 0: give both, or leave it out",
        )?;
        if self.exit_when != Some(ExitWhen::Empty) {
            return Ok(());
        }
        refuse(
            producers(plan) > 0,
            EXIT,
            "a run with producers ends by itself once everything published was consumed: leave it out, or drain with --producers 0",
        )?;
        refuse(
            !self.predeclared,
            EXIT,
            "a queue that the run declares is purged first: use an existing one with predeclared",
        )?;
        refuse(
            self.is_of_type("stream"),
            EXIT,
            "a stream keeps consumed messages and never becomes empty: use idle",
        )
    }

    /// Validates exclusive queues. Other connections may only publish to an exclusive queue; the broker refuses every
    /// other use (AMQP 0-9-1, queue.declare, exclusive).
    pub(super) fn validate_exclusive(&self, plan: &Plan<Self>) -> Result<(), Invalid> {
        let is_replicated = self.is_of_type("quorum") || self.is_of_type("stream");
        refuse(
            is_replicated && self.global_qos,
            "global_qos (--global-qos)",
            "quorum and stream queues support only a prefetch per consumer: leave it out",
        )?;
        if !self.exclusive {
            return Ok(());
        }
        refuse(
            self.predeclared,
            EXCLUSIVE,
            "an exclusive queue must be declared by its connection, and predeclared declares nothing: leave one of the two out",
        )?;
        refuse(
            is_replicated,
            EXCLUSIVE,
            "quorum and stream queues cannot be exclusive: leave one of the two out",
        )?;
        let (owned, queues) = (owned_queues(plan)?, self.queues().len());
        refuse(
            owned < queues,
            EXCLUSIVE,
            &format!(
                "only {owned} of {queues} exclusive queues have a consumer to declare them: use at least as many consumers as queues"
            ),
        )
    }
}

/// Returns how many queues have a connection that consumes from them. None may have two.
fn owned_queues(plan: &Plan<Settings>) -> Result<usize, Invalid> {
    let layout = Layout::new(plan, &WorkerRange::all(1));
    let queues = plan.driver.queues().len() as u64;
    let mut owners = HashMap::new();
    for connection in 0..layout.connections() {
        for client in layout.clients(connection) {
            let Client::Consumer(number) = client else {
                continue;
            };
            let queue = u64::from(number) % queues;
            if *owners.entry(queue).or_insert(connection) != connection {
                let problem = format!(
                    "two connections would consume from `{}`, and an exclusive queue belongs to one: use a queue for each consumer (--queue-pattern), or all consumers on one connection (--channels)",
                    plan.driver.queue_of(queue)
                );
                return Err(wrong(EXCLUSIVE, problem));
            }
        }
    }
    Ok(owners.len())
}
