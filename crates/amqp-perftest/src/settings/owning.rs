//! What of a plan can't be run about who may use a queue, each with its field and the remedy.

use std::collections::HashMap;

use harness::plan::{Invalid, Plan};

use super::Settings;
use crate::layout::{Client, Layout};

impl Settings {
    /// An exclusive queue is its connection's: whatever another one asks of it but to publish is refused (AMQP 0-9-1,
    /// queue.declare, exclusive).
    pub(super) fn validate_owning(plan: &Plan<Self>) -> Result<(), Invalid> {
        let settings = &plan.driver;
        let wrong = |field: &str, problem: &str| Err(Invalid::new(field, problem));
        let replicated = ["quorum", "stream"]
            .into_iter()
            .find(|kind| settings.is_of_type(kind));
        if replicated.is_some() && settings.global_qos {
            return wrong(
                "driver.global_qos (--global-qos)",
                "quorum and stream queues know the prefetch of each consumer alone: leave it out",
            );
        }
        if !settings.exclusive {
            return Ok(());
        }
        const EXCLUSIVE: &str = "driver.exclusive (--exclusive)";
        if settings.predeclared {
            return wrong(
                EXCLUSIVE,
                "belongs to the connection that declares it, and with predeclared none does: leave one of the two out",
            );
        }
        if replicated.is_some() {
            return wrong(
                EXCLUSIVE,
                "quorum and stream queues outlive any connection: leave one of the two out",
            );
        }
        let owned = owners(plan)?;
        let queues = settings.queues().len();
        if owned < queues {
            let problem = format!(
                "{owned} of {queues} queues have a consumer, whose connection would declare them: have at least as many consumers as queues"
            );
            return wrong(EXCLUSIVE, &problem);
        }
        Ok(())
    }
}

/// How many queues have a connection that consumes from them; none may have two.
fn owners(plan: &Plan<Settings>) -> Result<usize, Invalid> {
    let layout = Layout::of(plan);
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
                    "two connections would consume from `{}`, and it can belong to one alone: have a queue for each consumer (--queue-pattern), or all consumers on one connection (--channels)",
                    plan.driver.queue_of(queue)
                );
                return Err(Invalid::new("driver.exclusive (--exclusive)", problem));
            }
        }
    }
    Ok(owners.len())
}
