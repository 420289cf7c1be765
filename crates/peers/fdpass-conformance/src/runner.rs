//! Runs cases in turn on one type of socket, each on a healthy daemon.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use harness::launcher::Launcher;
use harness::verify::conformance::{Finished, Skip, Source};
use subject::daemon::{Daemon, Endpoint};

use super::case::Case;
use super::subject::Subject;
use fdpass_client::handoff::SocketType;

/// Default settings of a launched daemon: streams of 18 events, and short.
const USUAL: [(&str, &str); 2] = [
    ("DAEMON_MESSAGE_COUNT", "18"),
    ("DAEMON_MESSAGE_DELAY", "2ms"),
];

/// The state of a run on one type of socket.
#[derive(Debug)]
struct CaseRunner<'a> {
    source: &'a Source<'a, Endpoint>,
    kind: SocketType,
    // Dropped before the launcher, whose runtime it needs to its end.
    daemon: Option<Daemon>,
    launcher: Launcher,
}

/// Runs all cases on one type of socket.
pub(crate) fn run(
    source: &Source<'_, Endpoint>,
    kind: SocketType,
    cases: &[&'static Case],
) -> anyhow::Result<Vec<Finished>> {
    let mut runner = CaseRunner {
        source,
        kind,
        daemon: None,
        launcher: Launcher::new()?,
    };
    let labels = [("socket_type", kind.name())];
    let finish = |case: &&'static Case| Finished::run(case.name, labels, || runner.attempt(case));
    Ok(cases.iter().map(finish).collect())
}

impl CaseRunner<'_> {
    fn attempt(&mut self, case: &Case) -> anyhow::Result<()> {
        let (launched, metrics) = match &self.source {
            Source::Launched(prepared) => (true, prepared.manifest().metrics.is_some()),
            Source::Running(endpoint) => (false, endpoint.metrics.is_some()),
        };
        if let Some(reason) = case.needs.missing(launched, metrics) {
            return Err(Skip(reason).into());
        }
        let is_own = case.needs.launch || !case.needs.settings.is_empty();
        if is_own {
            self.stop();
        }
        // A healthy daemon of the previous case is used again.
        if let Source::Launched(prepared) = self.source
            && self.daemon.is_none()
        {
            let kind = [("DAEMON_SOCKET_TYPE", self.kind.name())];
            let variables = [&kind[..], &USUAL, case.needs.settings].concat();
            self.daemon = Some(self.launcher.start(prepared, &variables)?);
        }
        let outcome = self.check(case);
        let has_failed = outcome.as_ref().is_err_and(|error| !error.is::<Skip>());
        let daemon = self.daemon.as_ref().filter(|_| !case.needs.ends);
        let death = daemon.and_then(|daemon| self.launcher.death(daemon, has_failed));
        if is_own || death.is_some() || has_failed {
            self.stop();
        }
        match (death, outcome) {
            (None, outcome) => outcome,
            (Some(death), Err(error)) => Err(anyhow!("{death}\n{error:#}")),
            (Some(death), Ok(())) => Err(anyhow!(death)),
        }
    }

    /// Runs the case, and checks that the daemon serves the next one.
    fn check(&self, case: &Case) -> anyhow::Result<()> {
        let endpoint = match (self.source, &self.daemon) {
            (Source::Running(endpoint), _) => endpoint,
            (Source::Launched(_), daemon) => daemon.as_ref().context("no daemon")?.endpoint(),
        };
        let limit = Duration::from_secs(case.needs.seconds);
        let daemon = self.daemon.as_ref();
        let subject = Subject::new(&self.launcher, self.kind, endpoint, daemon, limit)?;
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
