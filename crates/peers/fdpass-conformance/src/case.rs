//! A case: its name, its needs, and its function.

use super::subject::Subject;

/// A required behaviour of a daemon.
#[derive(Debug)]
pub(crate) struct Case {
    /// A short, unique name.
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    /// Runs the case: returns an error with the observation if it fails, or [`Skip`](harness::verify::conformance::Skip).
    pub(crate) run: fn(&Subject<'_>) -> anyhow::Result<()>,
}

impl Case {
    pub(crate) const fn new(
        name: &'static str,
        needs: Needs,
        run: fn(&Subject<'_>) -> anyhow::Result<()>,
    ) -> Self {
        Self { name, needs, run }
    }
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
    /// Set if the daemon has ended afterwards.
    pub(crate) ends: bool,
    /// Time limit in seconds.
    pub(crate) seconds: u64,
}

/// Any daemon, and 10 s.
pub(crate) const NOTHING: Needs = Needs {
    settings: &[],
    launch: false,
    metrics: false,
    ends: false,
    seconds: 10,
};
/// A fresh daemon.
pub(crate) const FRESH: Needs = Needs::launch(&[]);
pub(crate) const FRESH_WITH_METRICS: Needs = Needs {
    metrics: true,
    ..FRESH
};
/// Streams of 0.9 s, long enough for events while they are open.
pub(crate) const OPEN: Needs = Needs {
    settings: &[("DAEMON_MESSAGE_DELAY", "50ms")],
    ..NOTHING
};

impl Needs {
    /// Returns the needs of a case with its own daemon and these variables.
    pub(crate) const fn launch(settings: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            settings,
            launch: true,
            ..NOTHING
        }
    }

    /// Returns why the case cannot run here, or `None` if it can.
    pub(crate) fn missing(&self, launched: bool, metrics: bool) -> Option<&'static str> {
        if self.launch && !launched {
            return Some("it needs a daemon with its own settings: use --daemon");
        }
        (self.metrics && !metrics).then_some("it needs a metrics page")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_skipped_where_its_needs_are_not_met() {
        let missing = |needs: Needs, launched, metrics| needs.missing(launched, metrics).is_some();
        let metrics = Needs {
            metrics: true,
            ..NOTHING
        };
        assert!(!missing(NOTHING, false, false) && !missing(OPEN, false, false));
        assert!(missing(FRESH, false, true) && !missing(FRESH, true, false));
        assert!(missing(metrics, true, false) && !missing(metrics, false, true));
        assert!(missing(FRESH_WITH_METRICS, true, false));
        assert!(!missing(FRESH_WITH_METRICS, true, true));
    }
}
