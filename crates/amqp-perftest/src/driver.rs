//! The driver: validates the plan, prepares topology, bodies and connections, and settles the messages at the end.

use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock};

use anyhow::Context as _;
use load::driver::{Bounds, Driver, Target, Worker};
use load::plan::{Group, Invalid, Plan};
use load::recorder;
use load::schedule::Share;
use measure::audit::{Facts, Lifetime};
use measure::result::RunResult;
use measure::tally::{Series, Tally};
use measure::warning::Warning;
use subject::headroom::require_ports;

use crate::churn::{self, ChurnClient};
use crate::connect::Opened;
use crate::layout::Layout;
use crate::nodes::Nodes;
use crate::outcome::{self, count};
use crate::run::Run;
use crate::settings::{self, Engine, PRODUCERS, Settings};
use crate::topology::Leftovers;
use crate::{connect, lapin, listener, report, series, topology, warnings, wire};
use amqp_client::{Session, SessionError};

/// Longest iteration of an engine's loop. At its end the loop accounts for the messages received.
const LONGEST_TURN_NS: u64 = 25_000_000;
/// A run, and the connections that its workers take.
#[derive(Debug)]
pub struct Perftest {
    run: Run,
    /// Connections of the engine `wire` by number, until their worker takes them.
    connections: Mutex<Vec<Option<Opened>>>,
    /// Connections of the engine `lapin`.
    dialer: OnceLock<lapin::Dialer>,
    /// The broker's process, if it is visible on this machine.
    listener: OnceLock<Option<u32>>,
}

impl Driver for Perftest {
    const NAME: &'static str = "amqp-perftest";
    const PROTOCOL: &'static str = "amqp";
    const SERIES: &'static [&'static str] = series::NAMES;
    // Metrics of our broker, and of RabbitMQ's plugin `rabbitmq_prometheus`.
    const AUDIT: &'static [(&'static str, &'static str)] = &[
        ("broker_messages_published_total", count::WRITTEN),
        ("broker_messages_delivered_total", count::DELIVERED),
        ("rabbitmq_global_messages_received_total", count::WRITTEN),
        ("rabbitmq_global_messages_delivered_total", count::DELIVERED),
    ];
    const ACTIVE_METRIC: &'static str = "broker_queue_messages";
    const ERRORS: &'static [&'static str] = outcome::ERRORS;
    const ASKED_FOR: &'static [&'static str] = &[];
    const OF_A_FAULT: &'static [&'static str] = outcome::OF_A_FAULT;
    const EXHAUSTED: &'static [&'static str] = outcome::EXHAUSTED;
    const SHARDS: bool = false;
    type Config = Settings;

    fn validate(plan: &Plan<Settings>) -> Result<(), Invalid> {
        Settings::validate(plan)
    }

    fn sentence(plan: &Plan<Settings>) -> String {
        Settings::sentence(plan)
    }

    fn response(plan: &Plan<Settings>) -> Series {
        if plan.driver.churn.is_some() {
            return series::CHURN;
        }
        match (settings::consumers(plan), plan.driver.confirms) {
            (1.., _) => series::END_TO_END,
            (0, Some(_)) => series::CONFIRM,
            (0, None) => series::PUBLISH,
        }
    }

    fn is_open_loop(plan: &Plan<Settings>) -> bool {
        settings::group(plan, PRODUCERS).is_some_and(Group::is_open_loop)
    }

    fn records(&self, series: Series) -> bool {
        match series {
            series::CHURN | series::OPEN => self.run.plan.driver.churn.is_some(),
            series::END_TO_END => settings::consumers(&self.run.plan) > 0,
            series::CONFIRM => self.run.plan.driver.confirms.is_some(),
            _ => series == Self::response(&self.run.plan),
        }
    }

    /// Returns the facts for the audit. A message is open from its write until it is accounted for, which is one loop
    /// iteration after its arrival. A run without producers also consumes messages written before it. Producers and
    /// consumers are not users that are either busy or thinking.
    fn facts(plan: &Plan<Settings>) -> Facts {
        let settings = &plan.driver;
        let response = series::NAMES[Self::response(plan).0];
        let writes = settings::producers(plan) > 0;
        let ends_early = settings.cmessages.is_some() || settings.exit_when.is_some();
        let facts = plan.facts();
        Facts {
            lifetime: writes.then(|| Lifetime {
                from_due: true,
                counted_late_ns: LONGEST_TURN_NS,
                ..Lifetime::new(response)
            }),
            users: None,
            load_s: facts.load_s.filter(|_| !ends_early),
            ..facts
        }
    }

    fn line(second: &Tally, total: &Tally) -> Option<String> {
        Some(report::line(second, total))
    }

    fn summary(result: &RunResult) -> Option<String> {
        Some(report::block(result))
    }

    fn doubts(plan: &Plan<Settings>, total: &Tally) -> Vec<Warning> {
        warnings::warnings(plan, total)
    }

    /// Returns the tolerance between a counter of the driver and one of the broker. A lost connection drops data that
    /// the broker or the driver had not read yet. Messages may still be under way when the run ends.
    fn bounds(name: &str, plan: &Plan<Settings>, total: &Tally) -> Bounds {
        let lost = total.counted(count::DISCONNECTS) + total.counted(count::CHANNELS_CLOSED) > 0;
        let unread = [
            recorder::UNFINISHED,
            count::FOREIGN,
            count::GIVEN_BACK,
            count::DUPLICATED,
        ];
        let unread = unread.iter().any(|name| total.counted(name) > 0);
        let settings = &plan.driver;
        let leaves_some = settings::producers(plan) == 0
            || settings.cmessages.is_some()
            || settings.exit_when.is_some();
        match name {
            count::WRITTEN => Bounds {
                daemon_less: lost,
                daemon_more: false,
            },
            _ => Bounds {
                daemon_less: false,
                daemon_more: lost || unread || leaves_some,
            },
        }
    }

    fn descriptors(plan: &Plan<Settings>) -> u64 {
        Layout::from_plan(plan).connections()
    }

    fn setup(plan: &Plan<Settings>, target: &Target) -> anyhow::Result<Self> {
        let nodes = Nodes::of_run(target.urls(), &plan.driver)?
            .context("the daemon's manifest has no `url`")?;
        let peers = target.urls().collect::<BTreeSet<_>>().len() as u64;
        require_ports(Self::descriptors(plan), peers)?;
        Ok(Self {
            run: Run::new(plan, nodes)?,
            connections: Mutex::new(Vec::new()),
            dialer: OnceLock::new(),
            listener: OnceLock::new(),
        })
    }

    /// Declares the topology of the run and opens all of its connections, so that the time a broker takes for each
    /// falls outside the load. The run itself verifies every message.
    fn check(&self) -> anyhow::Result<()> {
        let run = &self.run;
        let settings = &run.plan.driver;
        let explain = |error: SessionError| run.nodes.node(0, 0).explain(&error);
        let mut session = run
            .nodes
            .first(|node| Session::open(node, settings.heartbeat))
            .map_err(|(node, error)| node.explain(&error))?;
        // The process is looked up only here; the run does not depend on it.
        let _ = self
            .listener
            .set(listener::process_of(session.stream.tcp()));
        if run.declares() {
            topology::declare(&mut session, settings, Leftovers::Purge).map_err(explain)?;
        }
        session.close();
        if let Some(churn) = settings.churn {
            let mut client = ChurnClient::new(run.nodes.node(0, 0), settings, churn, 0);
            return client.once().map(drop).map_err(explain).map_err(Into::into);
        }
        if settings.engine.chosen() == Engine::Lapin {
            let dialer = lapin::Dialer::start(&run.nodes, settings, run.layout, &run.bodies);
            let _ = self.dialer.set(dialer.map_err(explain)?);
            return Ok(());
        }
        let opened = connect::open_all(&run.nodes, settings, run.layout)?;
        *self
            .connections
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()) = opened;
        Ok(())
    }

    fn daemon_pid(&self) -> Option<u32> {
        self.listener.get().copied().flatten()
    }

    /// Runs the engine on the worker's share. The last worker settles what is left.
    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        let run = &self.run;
        let (record, workers) = (worker.record.clone(), worker.share.of);
        let worked = match (run.plan.driver.churn, self.dialer.get()) {
            (Some(churn), _) => churn::work(run, churn, worker).await,
            (None, Some(dialer)) => lapin::work(run, dialer, worker).await,
            (None, None) => wire::work(run, self.take(worker.share), worker),
        };
        if run.ledger.leave(workers) {
            run.settle(&record);
        }
        worked
    }
}

impl Perftest {
    /// Takes the connections of a worker.
    fn take(&self, share: Share) -> Vec<Opened> {
        let mut connections = self
            .connections
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let numbers = self.run.layout.worker_connections(share.index, share.of);
        numbers
            .filter_map(|number| connections.get_mut(number as usize)?.take())
            .collect()
    }
}
