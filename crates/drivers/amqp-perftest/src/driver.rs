//! The driver: validates the plan, prepares topology, bodies and connections, and settles the messages at the end.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use load::driver::{
    Checked, Description, Driver, Findings, SharedOperations, SharedProgress, Target, Worker,
};
use load::plan::{Group, Invalid, Plan};
use load::reconciliation::Reconciliation;
use load::workers::WorkerRange;
use measure::result::{AuditInputs, Lifetime, RunResult};
use measure::spec::Spec;
use measure::tally::{Series, Tally};
use subject::headroom::require_ports;

use crate::connect::{OpenedSession, Reserved};
use crate::engine::churn::{self, ChurnClient};
use crate::engine::{lapin, wire};
use crate::layout::Layout;
use crate::ledger::{LedgerLine, MergedLedger, QueueDepth};
use crate::nodes::Nodes;
use crate::settings::{self, Engine, PRODUCERS, Settings};
use crate::shared::{Shared, note_unknown};
use crate::spec::{self, SPEC};
use crate::topology::Leftovers;
use crate::{connect, findings, summary, topology};
use amqp_client::Session;

/// Longest iteration of an engine's loop. At its end the loop accounts for the messages received.
const LONGEST_TURN_NS: u64 = 25_000_000;

/// A run, and the connections that its workers take.
#[derive(Debug)]
pub struct Perftest {
    run: Arc<Shared>,
    /// Connections of the engine `wire`.
    connections: OnceLock<Reserved<OpenedSession>>,
    /// Connections of the engine `lapin`.
    dialer: OnceLock<lapin::Dialer>,
}

impl Driver for Perftest {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;
    type Shared = Self;

    /// Describes the load. A message is open from its write until it is accounted for, which is one loop iteration
    /// after its arrival. A run without producers also consumes messages written before it. Producers and consumers are
    /// not users that are either busy or thinking.
    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        Settings::validate(plan)?;
        let settings = &plan.driver;
        if plan.deadline.is_some() && settings.churn.is_none() {
            let problem = "a message that waits in its producer for confirms is due, and is published: leave it out, or open connections at a rate (--churn)";
            return Err(Invalid::new("deadline (--deadline)", problem));
        }
        let sentence = Settings::sentence(plan);
        let connections = Layout::new(plan, &WorkerRange::all(1)).connections();
        let response = response(plan);
        let description = Description::new(plan, &SPEC, sentence, response, connections);
        let inputs = description.audit_inputs;
        let writes = settings::producers(plan) > 0;
        let ends_early = settings.cmessages.is_some() || settings.exit_when.is_some();
        Ok(Description {
            is_open_loop: settings::group(plan, PRODUCERS).is_some_and(Group::is_open_loop),
            audit_inputs: AuditInputs {
                lifetime: inputs.lifetime.filter(|_| writes).map(|lifetime| Lifetime {
                    from_due: true,
                    counted_late_ns: LONGEST_TURN_NS,
                    ..lifetime
                }),
                users: None,
                load_s: inputs.load_s.filter(|_| !ends_early),
                idle_tail_s: idle_tail_s(plan),
                ..inputs
            },
            objective_series: match response {
                spec::CHURN => vec![spec::CHURN, spec::OPEN],
                _ => vec![response],
            },
            writes_durably: writes && settings.is_persistent(),
            shares_operations: settings.churn.is_none() && settings::consumers(plan) > 0,
            ..description
        })
    }

    fn uses_series(&self, series: Series) -> bool {
        match series {
            spec::CHURN | spec::OPEN => self.run.plan.driver.churn.is_some(),
            spec::END_TO_END => settings::consumers(&self.run.plan) > 0,
            spec::CONFIRM => self.run.plan.driver.confirms.is_some(),
            _ => series == response(&self.run.plan),
        }
    }

    fn live_line(second: &Tally, total: &Tally) -> Option<String> {
        Some(summary::line(second, total))
    }

    const SUMMARY_IS_READ: bool = true;

    fn summary(result: &RunResult) -> Option<String> {
        Some(summary::block(result))
    }

    fn findings(plan: &Plan<Settings>, total: &Tally) -> Findings {
        findings::findings(plan, total)
    }

    fn setup(
        plan: &Plan<Settings>,
        target: &Target,
        workers: &WorkerRange,
    ) -> anyhow::Result<Self> {
        let nodes = Nodes::of_run(target.urls(), &plan.driver)?
            .context("the daemon's manifest has no `url`")?;
        let peers = target.urls().collect::<BTreeSet<_>>().len() as u64;
        let run = Shared::new(plan, nodes, workers)?;
        if run.plan.driver.churn.is_none() {
            run.layout.require_even()?;
        }
        require_ports(run.connections().count() as u64, peers)?;
        Ok(Self {
            run: Arc::new(run),
            connections: OnceLock::new(),
            dialer: OnceLock::new(),
        })
    }

    /// Declares the topology of the run, in the first of several shards, and opens the connections of this process, so
    /// that the time a broker takes for each falls outside the load. The run itself verifies every message.
    fn check(&self) -> anyhow::Result<Checked> {
        let run = &self.run;
        let settings = &run.plan.driver;
        let (node, mut session) = run
            .nodes
            .first(|node| Session::open(node, settings.heartbeat))
            .map_err(|(node, error)| node.explain(&error))?;
        let checked = Checked::default();
        if run.declares() && run.workers.shard.index == 0 {
            topology::declare(&mut session, settings, Leftovers::Purge)
                .map_err(|error| node.explain(&error))?;
        }
        session.close();
        if let Some(churn) = settings.churn {
            // A client of its own for each shard: they check at the same time.
            let number = run.workers.shard.index;
            let mut client = ChurnClient::new(Arc::clone(run), churn, number);
            client
                .once()
                .map_err(|error| run.nodes.node(number, 0).explain(&error))?;
            return Ok(checked);
        }
        if run.workers.count > 0 {
            self.connect()?;
        }
        Ok(checked)
    }

    /// Opens the connections of this process: the one that checked the broker has none, as it has no workers.
    fn learn(&self, _learned: serde_json::Value) -> anyhow::Result<()> {
        match self.run.plan.driver.churn {
            Some(_) => Ok(()),
            None => self.connect(),
        }
    }

    /// Runs the engine on the worker's share. The last worker settles what is left, if no other process has workers.
    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        let run = &self.run;
        run.begin(&worker);
        let (record, workers) = (worker.record.clone(), worker.share.of);
        let worked = match (self.connections.get(), self.dialer.get()) {
            (Some(connections), _) => wire::work(run, connections, worker),
            (None, Some(dialer)) => lapin::work(run, dialer, worker).await,
            (None, None) => churn::work(run, worker).await,
        };
        if run.workers.is_all() && run.ledger.leave(workers) {
            run.settle(&record);
        }
        worked
    }
}

/// A message is written by one process and may be consumed by another.
impl SharedOperations<Self> for Perftest {
    fn open(driver: &Self) -> Option<i64> {
        driver.run.ledger.open(driver.run.publishers())
    }

    fn progress(driver: &Self, progress: SharedProgress) {
        driver.run.progress(progress);
    }

    fn ledger(driver: &Self) -> anyhow::Result<String> {
        let part = LedgerLine::Part(driver.run.ledger_part());
        Ok(serde_json::to_string(&part)?)
    }

    /// Deletes what the check has declared. Unacknowledged messages return to their queues a moment after the last
    /// connection is closed, and the number of them is not known here: it waits for that moment.
    fn clean_up(driver: &Self) -> anyhow::Result<Option<String>> {
        if !driver.run.declares() {
            return Ok(None);
        }
        let messages = driver.run.clean_up(if driver.run.ends_at_arrival() {
            u64::MAX
        } else {
            0
        });
        let depth = LedgerLine::Queues(QueueDepth { messages });
        Ok(Some(serde_json::to_string(&depth)?))
    }

    fn reconcile(
        plan: &Plan<Settings>,
        ledgers: &mut dyn Iterator<Item = anyhow::Result<String>>,
        is_complete: bool,
        total: &Tally,
    ) -> anyhow::Result<Reconciliation> {
        let mut merged = MergedLedger::default();
        for line in ledgers {
            match serde_json::from_str(&line?).context("reading a ledger")? {
                LedgerLine::Part(part) => merged.add(part),
                LedgerLine::Queues(queues) => merged.add_queues(queues),
            }
        }
        let consume_only = settings::producers(plan) == 0;
        if let Some(why) = merged.why_unknown(is_complete).filter(|_| !consume_only) {
            note_unknown(why);
        }
        let may_drop = plan.driver.dropping_argument().is_some();
        Ok(merged.reconcile(consume_only, is_complete, may_drop, total))
    }
}

impl Perftest {
    /// Opens the connections of this process.
    fn connect(&self) -> anyhow::Result<()> {
        let run = &self.run;
        if run.plan.driver.engine.chosen() == Engine::Lapin {
            let _ = self.dialer.set(lapin::Dialer::start(run)?);
        } else {
            let _ = self.connections.set(connect::open_all(run)?);
        }
        Ok(())
    }
}

/// Returns the series of the response time: the last that the plan can measure.
fn response(plan: &Plan<Settings>) -> Series {
    if plan.driver.churn.is_some() {
        return spec::CHURN;
    }
    match (settings::consumers(plan), plan.driver.confirms) {
        (1.., _) => spec::END_TO_END,
        (0, Some(_)) => spec::CONFIRM,
        (0, None) => spec::PUBLISH,
    }
}

/// Returns the seconds at the end of the load in which perhaps nothing is published, because consumers end with the last
/// message. After a random start delay, a producer publishes once in an interval of its own.
fn idle_tail_s(plan: &Plan<Settings>) -> f64 {
    let Some(group) = settings::group(plan, PRODUCERS) else {
        return 0.0;
    };
    match group.rate {
        Some(rate) if !plan.driver.random_start_delay.is_zero() => {
            settings::producers(plan) as f64 / rate
        }
        _ => group.idle_tail_s(plan.planned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use load::plan::Timeline;

    use super::*;

    /// The consumers are clients without a rate, and yet the run ends with the last message.
    #[test]
    fn a_low_rate_is_idle_after_its_last_message() {
        let tail = |rate, delay_s| {
            let producers = Group {
                rate,
                ..Group::new(PRODUCERS, u64::from(rate.is_none()))
            };
            let groups = vec![producers, Group::new(settings::CONSUMERS, 1)];
            let settings = Settings {
                producers: rate.map(|_| 4),
                random_start_delay: Duration::from_secs(delay_s),
                ..Settings::default()
            };
            let timeline = Timeline::new(Duration::from_secs(8), Duration::ZERO);
            let mut plan = Plan::new("test", timeline, groups, settings);
            let description = Perftest::validate(&mut plan).unwrap();
            description.audit_inputs.idle_tail_s
        };
        assert_eq!(tail(Some(2.0), 0), 0.5);
        assert_eq!(tail(Some(2.0), 1), 2.0);
        assert_eq!(tail(None, 0), 0.0);
    }
}
