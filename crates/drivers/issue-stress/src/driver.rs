//! The driver: its contract with the harness.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use issue_rpc::ClientError;
use load::driver::{Checked, Description, Driver, Findings, Target, Worker};
use load::plan::{Invalid, Plan};
use load::workers::WorkerRange;
use measure::spec::Spec;
use measure::tally::{Series, Tally};

use crate::settings::{Scenario, Settings};
use crate::shared::{Service, Shared};
use crate::spec::{self, SPEC};
use crate::{check, engine, findings};

/// The time that all agents have to connect.
const OPENING: Duration = Duration::from_secs(60);

/// The load on one issue daemon.
#[derive(Debug)]
pub struct IssueStress {
    shared: Shared,
}

impl Driver for IssueStress {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;
    type Shared = ();

    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        Settings::validate(plan)?;
        let sentence = Settings::sentence(plan);
        let agents = Settings::agents(plan);
        Ok(Description {
            longest: plan.driver.timeout,
            opening: Some(OPENING),
            writes_durably: plan.driver.scenario.writes(),
            ..Description::new(plan, &SPEC, sentence, spec::OPERATION, agents)
        })
    }

    fn uses_series(&self, series: Series) -> bool {
        let used: &[Series] = match self.shared.settings().scenario {
            Scenario::ConcurrentAgents
            | Scenario::UniqueIds
            | Scenario::Timeouts
            | Scenario::LeavingClients => &[spec::CREATE],
            Scenario::BatchOperations => &[spec::BATCH],
            Scenario::MixedOperations => &[
                spec::CREATE,
                spec::UPDATE,
                spec::SHOW,
                spec::LIST,
                spec::READY,
            ],
            Scenario::PollingAgents => &[
                spec::CREATE,
                spec::UPDATE,
                spec::READY,
                spec::BATCH,
                spec::CLAIM,
            ],
            Scenario::Update => &[spec::UPDATE],
            Scenario::List => &[spec::LIST],
            Scenario::Ready => &[spec::READY],
            Scenario::Ping => &[spec::PING],
        };
        let writes = self.shared.settings().scenario.writes();
        series == spec::OPERATION || used.contains(&series) || (series == spec::SYNC && writes)
    }

    fn findings(plan: &Plan<Settings>, total: &Tally) -> Findings {
        findings::findings(plan, total)
    }

    fn setup(
        plan: &Plan<Settings>,
        target: &Target,
        workers: &WorkerRange,
    ) -> anyhow::Result<Self> {
        let shared = Shared::new(plan, target, workers.count)?;
        Ok(Self { shared })
    }

    /// Refuses a database of others, and creates the issues that the load needs.
    fn check(&self) -> anyhow::Result<Checked> {
        check::check(&self.shared).map_err(|error| with_remedy(error, &self.shared.service))
    }

    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        engine::work(&self.shared, worker).await
    }
}

const START_IT: &str = "start it, correct the target, or leave it out to have a daemon launched";

/// Adds to an error that nothing or something else answers at the target what to do about it.
fn with_remedy(error: anyhow::Error, service: &Service) -> anyhow::Error {
    let of_client = match error.downcast_ref() {
        Some(ClientError::NoDaemon { error, .. }) => Some(error),
        _ => None,
    };
    let io = of_client.or_else(|| error.root_cause().downcast_ref());
    let socket = match service {
        Service::Daemon(socket) => Some(socket.as_path()),
        Service::Peer(peer) => peer.socket(),
    };
    let remedy = match io.map(io::Error::kind) {
        _ if socket.is_some_and(Path::is_dir) => {
            "this is a folder: give the path of the socket in it"
        }
        _ if socket.is_some_and(|path| path.as_os_str().is_empty()) => {
            "the path is empty: give the path of a socket"
        }
        Some(ErrorKind::PermissionDenied) => {
            "let this user connect (permissions of the socket and its folder), or run as the user of the daemon"
        }
        Some(ErrorKind::InvalidInput) => {
            "a socket has a path of 1 to 107 bytes, and a port is from 1 to 65535: correct the target"
        }
        Some(ErrorKind::ConnectionRefused | ErrorKind::NotFound) => START_IT,
        _ if of_client.is_some() => START_IT,
        _ if matches!(service, Service::Peer(_)) => {
            "check that this is the database that the target names"
        }
        _ if matches!(error.downcast_ref(), Some(ClientError::Unanswered { .. })) => {
            "check that an issue daemon listens there, and that it is not stuck"
        }
        _ => return error,
    };
    let problem = format!("{error:#}: {remedy}");
    Invalid::new("TARGET", problem).into()
}
