//! The driver: its contract with the harness.

use load::driver::{Checked, Description, Driver, Findings, Target, Worker};
use load::plan::{Invalid, Plan};
use load::workers::WorkerRange;
use measure::result::{AuditInputs, RunResult};
use measure::spec::Spec;
use measure::tally::{Series, Tally};

use crate::engine::{sdk, wire};
use crate::roles::Users;
use crate::settings::{Mode, Settings};
use crate::shared::Shared;
use crate::spec::SPEC;
use crate::{check, findings, spec, summary};

/// The load on one server, or on several nodes of it.
#[derive(Debug)]
pub struct PresenceLoad {
    shared: Shared,
}

impl Driver for PresenceLoad {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;
    type Shared = ();

    fn spec(plan: &Plan<Settings>) -> &'static Spec {
        spec::for_plan(plan)
    }

    /// Describes the load. Users that wait between two heartbeats are not busy, so they are no users of the audit.
    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        plan.driver.read_secrets()?;
        Settings::validate(plan)?;
        let settings = &plan.driver;
        let connections = settings.connections();
        let sentence = Settings::sentence(plan);
        let description = Description::new(
            plan,
            spec::for_plan(plan),
            sentence,
            spec::HEARTBEAT,
            connections,
        );
        let inputs = description.audit_inputs;
        let users = settings.population().users();
        Ok(Description {
            audit_inputs: AuditInputs {
                users: None,
                tick_ns: settings.tick_ns(),
                held: findings::is_undisturbed(plan).then_some(users),
                steady_from_s: inputs
                    .steady_from_s
                    .filter(|_| findings::is_undisturbed(plan)),
                ..inputs
            },
            objective_series: vec![spec::HEARTBEAT, spec::SERVICE],
            longest: settings.ack_timeout,
            opening: Some(settings.opening()),
            busy_waits: settings.timer == crate::settings::Timer::Spin,
            open_at_once: users,
            announcement: (settings.conversation.is_none()).then(|| summary::announcement(plan)),
            ..description
        })
    }

    fn uses_series(&self, series: Series) -> bool {
        let settings = self.shared.settings();
        match series {
            spec::RECONNECT => !findings::is_undisturbed(&self.shared.plan),
            spec::PROPAGATION => settings.users_per_room > 1 || self.shared.everybody.is_some(),
            _ => true,
        }
    }

    fn live_line(second: &Tally, total: &Tally) -> Option<String> {
        summary::line(second, total)
    }

    const SUMMARY_IS_READ: bool = true;

    fn summary(result: &RunResult) -> Option<String> {
        summary::render(result)
    }

    fn findings(plan: &Plan<Settings>, total: &Tally) -> Findings {
        findings::findings(plan, total)
    }

    fn setup(
        plan: &Plan<Settings>,
        target: &Target,
        workers: &WorkerRange,
    ) -> anyhow::Result<Self> {
        let mut shared = Shared::new(plan, target)?;
        shared.share(workers)?;
        Ok(Self { shared })
    }

    /// Joins a room of its own with two users at every server: a heartbeat of one must reach both, and its leave the
    /// other.
    fn check(&self) -> anyhow::Result<Checked> {
        for server in &self.shared.servers {
            check::before_run(server, &self.shared)?;
        }
        Ok(Checked::default())
    }

    async fn work(&self, mut worker: Worker) -> anyhow::Result<()> {
        let Some(users) = Users::new(&self.shared, &mut worker) else {
            return Ok(());
        };
        match self.shared.settings().mode {
            Mode::Protocol => wire::run(users, worker),
            Mode::Sdk => sdk::run(users, worker).await,
        }
    }
}
