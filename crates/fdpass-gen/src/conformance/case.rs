//! A case: its name, its needs, and its function.

use crate::handoff::SocketType;

use super::daemon_under_test::Subject;

/// A required behaviour of a daemon.
#[derive(Debug)]
pub(crate) struct Case {
    /// A short, unique name.
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    /// Runs the case: returns an error with the observation if it fails, or [`Skip`](harness::verify::conformance::Skip).
    pub(crate) run: fn(&Subject<'_>) -> anyhow::Result<()>,
}

/// The needs of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// Environment variables of a daemon launched for this case alone; a running daemon is used as it is.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// Set if the daemon must be launched for this case alone.
    pub(crate) launch: bool,
    /// Set if a metrics page is needed.
    pub(crate) metrics: bool,
    /// The only type of socket that the case applies to.
    pub(crate) only_on: Option<SocketType>,
    /// Set if the daemon has ended afterwards.
    pub(crate) ends: bool,
    /// Time limit in seconds.
    pub(crate) seconds: u64,
}

impl Needs {
    /// Any daemon, and 10 s.
    pub(crate) const NOTHING: Self = Self {
        settings: &[],
        launch: false,
        metrics: false,
        only_on: None,
        ends: false,
        seconds: 10,
    };
    /// A daemon with a metrics page.
    pub(crate) const METRICS: Self = Self {
        metrics: true,
        ..Self::NOTHING
    };

    /// Returns the needs of a case with its own daemon and these variables.
    pub(crate) const fn launch(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            settings,
            launch: true,
            ..Self::NOTHING
        }
    }

    /// Returns why the case cannot run here, or `None` if it can.
    pub(crate) fn missing(
        &self,
        kind: SocketType,
        launched: bool,
        metrics: bool,
    ) -> Option<&'static str> {
        if self.only_on.is_some_and(|only| only != kind) {
            return Some("it applies to the other type of socket");
        }
        if self.launch && !launched {
            return Some("it needs a daemon with its own settings: use --daemon");
        }
        (self.metrics && !metrics).then_some("it needs a metrics page")
    }
}
