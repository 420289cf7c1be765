//! Shows the live line on stderr: on a terminal only, and not with `--quiet`.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::spec::{CounterRole, Spec};
use measure::tally::Tally;
use measure::units;

use crate::output;
use load::collector::RunSecond;
use load::recorder::{OK, STARTED};

/// The live line that shows the progress of a run.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
    draining: bool,
    /// The opening of connections before the load; absent once the load has begun.
    opening: Option<OpeningProgress>,
    started: u64,
    ok: u64,
    failed: u64,
}

/// The connections opened before the load.
#[derive(Debug)]
struct OpeningProgress {
    planned: u64,
    open: u64,
    /// The counters of opened connections.
    counters: Vec<&'static str>,
}

impl Progress {
    /// Creates a line for a run of `planned`, hidden if stderr is not a terminal or with `quiet`.
    #[must_use]
    pub fn new(planned: Duration, quiet: bool) -> Self {
        let hidden = quiet || !std::io::stderr().is_terminal();
        let target = if hidden {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(planned.as_secs().max(1)), target);
        let style = ProgressStyle::with_template("{wide_bar:.dim} {pos}/{len} s  {msg}")
            .expect("the template is well formed");
        bar.set_style(style.progress_chars("━╸ "));
        Self {
            bar,
            quiet,
            draining: false,
            opening: None,
            started: 0,
            ok: 0,
            failed: 0,
        }
    }

    /// Shows the current step before the load begins.
    pub fn step(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }

    /// Counts connections up to `connections` until the load begins.
    pub fn count_opening(&mut self, connections: Option<u64>, spec: &'static Spec) {
        let counters = spec.counters_with(CounterRole::Opened);
        let counters: Vec<&str> = counters.map(|counter| counter.name.as_ref()).collect();
        self.opening = connections.map(|planned| OpeningProgress {
            planned,
            open: 0,
            counters,
        });
    }

    /// Shows one more second.
    pub fn add(&mut self, run_second: &RunSecond, response: Option<u64>) {
        let started = run_second.tally.counted(STARTED);
        self.started += started;
        self.ok += run_second.tally.counted(OK);
        self.failed += run_second.tally.errors.values().sum::<u64>();
        let second = run_second.second + 1;
        // A run lasts longer than its plan while the last operations drain.
        if self.bar.length().is_some_and(|length| second > length) {
            self.bar.set_length(second);
        }
        self.bar.set_position(second);
        if let Some(message) = self.opened(&run_second.tally) {
            self.bar.set_message(message);
            return;
        }
        let p99 = response.map_or_else(|| "–".to_owned(), units::duration);
        let draining = match self.draining {
            true => "draining, Ctrl-C ends now  ",
            false => "",
        };
        self.bar.set_message(format!(
            "{draining}started {} (+{started}/s)  open {}  ok {}  failed {}  p99 {p99}",
            units::count(self.started),
            units::count(run_second.open()),
            units::count(self.ok),
            units::count(self.failed),
        ));
    }

    /// Returns the message about the opening of connections, until the first operation has started.
    fn opened(&mut self, tally: &Tally) -> Option<String> {
        let opening = self.opening.as_mut()?;
        let counters = opening.counters.iter();
        opening.open += counters.map(|name| tally.counted(name)).sum::<u64>();
        if self.started > 0 {
            self.opening = None;
            return None;
        }
        let [planned, open] = [opening.planned, opening.open].map(units::count);
        Some(format!("opening connections: {open} of {planned}"))
    }

    /// Prints a line above the live one, unless `quiet`.
    pub fn above(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| output::note(text));
        }
    }

    /// Prints once that nothing is started any more and how to end the run, and shows the draining in the live line
    /// from now on.
    pub fn draining(&mut self, text: &str) {
        self.draining = true;
        self.above(text);
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use measure::spec::CounterSpec;

    use super::*;

    static SPEC: Spec = Spec {
        counters: Cow::Borrowed(&[CounterSpec::new("opened", "opened", CounterRole::Opened)]),
        ..Spec::UNKNOWN
    };

    #[test]
    fn connections_are_counted_until_the_load_begins() {
        let mut progress = Progress::new(Duration::from_secs(1), true);
        let mut tally = Tally::new(&[]);
        assert_eq!(progress.opened(&tally), None);
        progress.count_opening(Some(1_000_000), &SPEC);
        tally.count("opened", 20_000);
        let message = progress.opened(&tally);
        assert_eq!(message.unwrap(), "opening connections: 20,000 of 1,000,000");
        let message = progress.opened(&tally);
        assert_eq!(message.unwrap(), "opening connections: 40,000 of 1,000,000");
        progress.started = 1;
        assert_eq!(progress.opened(&tally), None);
    }
}
