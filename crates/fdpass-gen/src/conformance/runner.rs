//! Runs cases in turn on one type of socket, each on a healthy daemon.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use harness::launcher::Launcher;
use harness::verify::conformance::{Finished, Skip, Source};
use subject::daemon::{Daemon, Endpoint};

use super::case::Case;
use super::subject::Subject;
use crate::client::after;
use crate::handoff::{HandoffEndpoint, SocketType};

/// Default settings of a launched daemon: streams of 18 events, and short.
const USUAL: [(&str, &str); 2] = [
    ("DAEMON_MESSAGE_COUNT", "18"),
    ("DAEMON_MESSAGE_DELAY", "2ms"),
];

/// The state of a run on one type of socket.
#[derive(Debug)]
pub(crate) struct CaseRunner<'a> {
    source: &'a Source<'a, Endpoint>,
    kind: SocketType,
    // Dropped before the launcher, whose runtime it needs to its end.
    daemon: Option<Daemon>,
    launcher: Launcher,
}

impl<'a> CaseRunner<'a> {
    pub(crate) fn new(source: &'a Source<'a, Endpoint>, kind: SocketType) -> anyhow::Result<Self> {
        Ok(Self {
            source,
            kind,
            daemon: None,
            launcher: Launcher::new()?,
        })
    }

    /// Runs all cases.
    pub(crate) fn run(&mut self, cases: &[&'static Case]) -> Vec<Finished> {
        let labels = [("socket_type", self.kind.name())];
        let finish = |case: &&'static Case| Finished::run(case.name, labels, || self.attempt(case));
        let finished = cases.iter().map(finish).collect();
        self.stop();
        finished
    }

    fn attempt(&mut self, case: &Case) -> anyhow::Result<()> {
        let (launched, metrics) = match &self.source {
            Source::Launched(prepared) => (true, prepared.manifest().metrics.is_some()),
            Source::Running(endpoint) => (false, endpoint.metrics.is_some()),
        };
        if let Some(reason) = case.needs.missing(self.kind, launched, metrics) {
            return Err(Skip(reason).into());
        }
        let is_own = case.needs.launch || !case.needs.settings.is_empty();
        if is_own {
            self.stop();
        }
        self.launch(case.needs.settings)?;
        let outcome = self.check(case);
        let daemon = self.daemon.as_ref().filter(|_| !case.needs.ends);
        let death = daemon.and_then(|daemon| self.launcher.death(daemon, outcome.is_err()));
        let has_failed = outcome.as_ref().is_err_and(|error| !error.is::<Skip>());
        if is_own || death.is_some() || has_failed {
            self.stop();
        }
        match (death, outcome) {
            (None, outcome) => outcome,
            (Some(death), Err(error)) => Err(anyhow!("{death}\n{error:#}")),
            (Some(death), Ok(())) => Err(anyhow!(death)),
        }
    }

    /// Launches a daemon with further variables, unless a healthy one is left of the previous case.
    fn launch(&mut self, variables: &[(&str, &str)]) -> anyhow::Result<()> {
        if let Source::Launched(prepared) = self.source
            && self.daemon.is_none()
        {
            let kind = [("DAEMON_SOCKET_TYPE", self.kind.name())];
            let variables = [&kind[..], &USUAL, variables].concat();
            self.daemon = Some(self.launcher.start(prepared, &variables)?);
        }
        Ok(())
    }

    /// Runs the case, and checks that the daemon serves the next one.
    fn check(&self, case: &Case) -> anyhow::Result<()> {
        let endpoint = match (self.source, &self.daemon) {
            (Source::Running(endpoint), _) => Some(endpoint),
            (Source::Launched(_), daemon) => daemon.as_ref().map(Daemon::endpoint),
        };
        let socket = endpoint.and_then(|endpoint| endpoint.socket.as_deref());
        let socket = socket.context("the daemon's manifest does not use {socket}")?;
        let subject = Subject {
            launcher: &self.launcher,
            kind: self.kind,
            endpoint: HandoffEndpoint::new(socket, self.kind)?,
            metrics: endpoint.and_then(|endpoint| endpoint.metrics.as_deref()),
            daemon: self.daemon.as_ref(),
            until: after(Duration::from_secs(case.needs.seconds)),
        };
        (case.run)(&subject)?;
        if case.needs.launch {
            // This daemon is not used again, and its capacity may be exhausted.
            Ok(())
        } else {
            subject.goes_on()
        }
    }

    fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            self.launcher.stop(daemon);
        }
    }
}

impl Drop for CaseRunner<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
