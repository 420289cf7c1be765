//! One worker's share of the load: agents that do one operation after the other.

pub(crate) mod wire;

use std::cell::RefCell;

use load::driver::Worker;
use load::event_loop::{self, Operation, Operations};
use load::recorder::Recorder;

use crate::agent::{Agent, Role};
use crate::ledger::Ledger;
use crate::settings::BULK;
use crate::shared::Shared;
use crate::spec;

/// Runs one worker's share of the load.
pub(crate) async fn work(shared: &Shared, worker: Worker) -> anyhow::Result<()> {
    shared.begin();
    let record = worker.record.clone();
    let ledger = RefCell::new(Ledger::default());
    for issue in shared.issues() {
        ledger.borrow_mut().histories.was_ready(&issue);
    }
    let groups = shared.plan.groups.iter();
    let agents: Vec<u64> = groups
        .map(|group| shared.settings().agents_of(group))
        .collect();
    let load = Load {
        shared,
        ledger: &ledger,
        record: &record,
    };
    event_loop::operations(&load, worker, spec::OPERATION, &agents).await?;
    shared.leave(ledger.into_inner(), &record)
}

#[derive(Debug)]
struct Load<'a> {
    shared: &'a Shared,
    ledger: &'a RefCell<Ledger>,
    record: &'a Recorder,
}

impl<'a> Operations for Load<'a> {
    type Client = Agent<'a>;

    /// An agent that fails to connect tries again with each operation, which then fails.
    async fn open(&self, number: u64, group: usize) -> Result<Agent<'a>, &'static str> {
        let role = if self.shared.plan.groups[group].name == BULK {
            Role::Bulk
        } else {
            Role::Agent
        };
        let record = self.record.clone();
        let mut agent = Agent::new(self.shared, self.ledger, record, number as u32, role);
        let _ = agent.open().await;
        Ok(agent)
    }

    async fn run(&self, agent: &mut Agent<'a>, operation: &Operation) -> Result<(), &'static str> {
        agent.operate(operation.is_measured()).await
    }

    /// An agent remembers what it has sent, and connects again by itself.
    fn survives(&self, _failure: &'static str) -> bool {
        true
    }
}
