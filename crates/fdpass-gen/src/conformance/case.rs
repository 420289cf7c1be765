//! One case: its name, what it needs, and the function that looks.

use crate::handoff::SocketType;

use super::subject::Subject;

/// Something that a daemon must do.
#[derive(Debug)]
pub(crate) struct Case {
    /// A few words, different from those of all others.
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    /// Passes, is passed over with [`Skip`](harness::conformance::Skip), or fails with what was seen.
    pub(crate) look: fn(&Subject<'_>) -> anyhow::Result<()>,
}

/// What a case needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// Variables of a launched daemon, which then is one for this case alone; one that runs is taken as it is.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// A daemon that was launched for this case alone.
    pub(crate) launch: bool,
    /// A metrics page.
    pub(crate) metrics: bool,
    /// One type of socket.
    pub(crate) only_on: Option<SocketType>,
    /// The daemon has ended afterwards.
    pub(crate) ends: bool,
    /// How long it may take.
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
    /// A daemon that can be asked what it counts.
    pub(crate) const METRICS: Self = Self {
        metrics: true,
        ..Self::NOTHING
    };

    /// A daemon of its own with these variables.
    pub(crate) const fn launch(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            settings,
            launch: true,
            ..Self::NOTHING
        }
    }

    /// Why it can't be looked at here, if so.
    pub(crate) fn missing(
        &self,
        kind: SocketType,
        launched: bool,
        metrics: bool,
    ) -> Option<&'static str> {
        if self.only_on.is_some_and(|only| only != kind) {
            return Some("it is about the other type of socket");
        }
        if self.launch && !launched {
            return Some("it needs a daemon with settings of its own: use --daemon");
        }
        (self.metrics && !metrics).then_some("it needs a metrics page")
    }
}
