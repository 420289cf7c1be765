//! Runs cases one after the other on one type of socket, each on a daemon that is in order.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use harness::conformance::{Finished, Skip};
use harness::daemon::{Daemon, Prepared};
use harness::launcher::Launcher;

use super::case::Case;
use super::subject::Subject;
use crate::handoff::SocketType;

/// What a daemon is launched with where a case says nothing else: streams of 18 events, and short.
const USUAL: [(&str, &str); 2] = [
    ("DAEMON_MESSAGE_COUNT", "18"),
    ("DAEMON_MESSAGE_DELAY", "2ms"),
];
/// Where the daemon comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// It is started, and started again when it has died.
    Launched(&'a Prepared),
    /// It runs already.
    Running {
        socket: &'a Path,
        metrics: Option<&'a str>,
    },
}

/// One type of socket.
#[derive(Debug)]
pub(crate) struct Track<'a> {
    place: Place<'a>,
    kind: SocketType,
    // Before the launcher, whose runtime it needs to its end.
    daemon: Option<Daemon>,
    launcher: Launcher,
}

impl<'a> Track<'a> {
    pub(crate) fn new(place: Place<'a>, kind: SocketType) -> anyhow::Result<Self> {
        Ok(Self {
            place,
            kind,
            daemon: None,
            launcher: Launcher::new()?,
        })
    }

    /// Runs all of them.
    pub(crate) fn run(&mut self, cases: &[&'static Case]) -> Vec<Finished> {
        let labels = [("socket_type", self.kind.name())];
        let finish = |case: &&'static Case| Finished::of(case.name, labels, || self.attempt(case));
        let finished = cases.iter().map(finish).collect();
        self.stop();
        finished
    }

    fn attempt(&mut self, case: &Case) -> anyhow::Result<()> {
        let (launched, metrics) = match &self.place {
            Place::Launched(prepared) => (true, prepared.manifest().metrics.is_some()),
            Place::Running { metrics, .. } => (false, metrics.is_some()),
        };
        if let Some(reason) = case.needs.missing(self.kind, launched, metrics) {
            return Err(Skip(reason).into());
        }
        self.launch(case)?;
        let looked = self.look(case);
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

    /// A daemon of its own where the case has settings, else the one of the case before if it is in order.
    fn launch(&mut self, case: &Case) -> anyhow::Result<()> {
        let Place::Launched(prepared) = self.place else {
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

    /// The case, and whether the daemon serves the next one.
    fn look(&self, case: &Case) -> anyhow::Result<()> {
        let endpoint = self.daemon.as_ref().map(Daemon::endpoint);
        let (socket, metrics) = match (self.place, endpoint) {
            (Place::Running { socket, metrics }, _) => (socket, metrics),
            (Place::Launched(_), endpoint) => (
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
        (case.look)(&subject)?;
        if case.needs.launch {
            // Nobody asks this daemon again, and it may have no place left.
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

impl Drop for Track<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}
