//! Validation of exclusive queues and of the options of a queue's type.

use std::collections::HashMap;

use load::plan::{Invalid, Plan};

use super::Settings;
use crate::layout::{Client, Layout};

impl Settings {
    /// Validates exclusive queues. Other connections may only publish to an exclusive queue; the broker refuses every
    /// other use (AMQP 0-9-1, queue.declare, exclusive).
    pub(super) fn validate_exclusive(plan: &Plan<Self>) -> Result<(), Invalid> {
        let settings = &plan.driver;
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        let replicated = ["quorum", "stream"]
            .into_iter()
            .find(|kind| settings.is_of_type(kind));
        if replicated.is_some() && settings.global_qos {
            return wrong(
                "driver.global_qos (--global-qos)",
                "quorum and stream queues support only a prefetch per consumer: leave it out",
            );
        }
        if !settings.exclusive {
            return Ok(());
        }
        const EXCLUSIVE: &str = "driver.exclusive (--exclusive)";
        if settings.predeclared {
            return wrong(
                EXCLUSIVE,
                "an exclusive queue must be declared by its connection, and predeclared declares nothing: leave one of the two out",
            );
        }
        if replicated.is_some() {
            return wrong(
                EXCLUSIVE,
                "quorum and stream queues cannot be exclusive: leave one of the two out",
            );
        }
        let owned = owners(plan)?;
        let queues = settings.queues().len();
        if owned < queues {
            let problem = format!(
                "only {owned} of {queues} exclusive queues have a consumer to declare them: use at least as many consumers as queues"
            );
            return wrong(EXCLUSIVE, &problem);
        }
        Ok(())
    }
}

/// Returns how many queues have a connection that consumes from them. None may have two.
fn owners(plan: &Plan<Settings>) -> Result<usize, Invalid> {
    let layout = Layout::from_plan(plan);
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
                return Err(Invalid::new("driver.exclusive (--exclusive)", problem));
            }
        }
    }
    Ok(owners.len())
}
