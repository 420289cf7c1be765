//! Runs cases in turn on one type of socket, each on a healthy daemon.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use harness::launcher::Launcher;
use harness::verify::conformance::{Finished, Skip};
use subject::daemon::{Daemon, Prepared};

use super::case::Case;
use super::daemon_under_test::Subject;
use crate::handoff::SocketType;

/// Default settings of a launched daemon: streams of 18 events, and short.
const USUAL: [(&str, &str); 2] = [
    ("DAEMON_MESSAGE_COUNT", "18"),
    ("DAEMON_MESSAGE_DELAY", "2ms"),
];
/// The origin of the daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DaemonSource<'a> {
    /// The daemon is launched, and relaunched after it has died.
    Launched(&'a Prepared),
    /// The daemon is running already.
    Running {
        socket: &'a Path,
        metrics: Option<&'a str>,
    },
}

/// The state of a run on one type of socket.
#[derive(Debug)]
pub(crate) struct CaseRunner<'a> {
    source: DaemonSource<'a>,
    kind: SocketType,
    // Dropped before the launcher, whose runtime it needs to its end.
    daemon: Option<Daemon>,
    launcher: Launcher,
}

impl<'a> CaseRunner<'a> {
    pub(crate) fn new(source: DaemonSource<'a>, kind: SocketType) -> anyhow::Result<Self> {
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
            DaemonSource::Launched(prepared) => (true, prepared.manifest().metrics.is_some()),
            DaemonSource::Running { metrics, .. } => (false, metrics.is_some()),
        };
        if let Some(reason) = case.needs.missing(self.kind, launched, metrics) {
            return Err(Skip(reason).into());
        }
        self.launch(case)?;
        let looked = self.check(case);
        let died = if case.needs.ends {
            None
        } else {
            let daemon = self.daemon.as_ref();
            daemon.and_then(|daemon| self.launcher.death(daemon, looked.is_err()))
        };
        let skipped = looked.as_ref().is_err_and(|error| error.is::<Skip>());
        let of_its_own = case.needs.launch || !case.needs.settings.is_empty();
        if of_its_own || died.is_some() || (looked.is_err() && !skipped) {
            self.stop();
        }
        match (died, looked) {
            (None, looked) => looked,
            (Some(died), Err(error)) => Err(anyhow!("{died}\n{error:#}")),
            (Some(died), Ok(())) => Err(anyhow!(died)),
        }
    }

    /// Launches a separate daemon if the case has settings; otherwise reuses the previous one if it is healthy.
    fn launch(&mut self, case: &Case) -> anyhow::Result<()> {
        let DaemonSource::Launched(prepared) = self.source else {
            return Ok(());
        };
        if case.needs.launch || !case.needs.settings.is_empty() {
            self.stop();
        }
        if self.daemon.is_none() {
            let kind = [("DAEMON_SOCKET_TYPE", self.kind.name())];
            let variables = [&kind[..], &USUAL, case.needs.settings].concat();
            self.daemon = Some(self.launcher.start(prepared, &variables)?);
        }
        Ok(())
    }

    /// Runs the case, and checks that the daemon serves the next one.
    fn check(&self, case: &Case) -> anyhow::Result<()> {
        let endpoint = self.daemon.as_ref().map(Daemon::endpoint);
        let (socket, metrics) = match (self.source, endpoint) {
            (DaemonSource::Running { socket, metrics }, _) => (socket, metrics),
            (DaemonSource::Launched(_), endpoint) => (
                endpoint
                    .and_then(|endpoint| endpoint.socket.as_deref())
                    .context("the daemon's manifest does not use {socket}")?,
                endpoint.and_then(|endpoint| endpoint.metrics.as_deref()),
            ),
        };
        let subject = Subject {
            metrics,
            daemon: self.daemon.as_ref(),
            ..Subject::new(&self.launcher, socket, self.kind, case.needs.seconds)?
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
