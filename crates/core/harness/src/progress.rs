//! Shows the progress of a run on stderr: a live line on a terminal, otherwise a line every ten seconds; nothing with
//! `--quiet`.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use load::collector::RunSecond;
use load::driver::{Description, Phases};
use load::plan::Plan;
use load::recorder::{OK, SECOND_NS, STARTED};
use measure::result::Lifetime;
use measure::spec::{CounterRole, Spec};
use measure::tally::{Distribution, Series, Tally};

use crate::live::{End, LiveSecond, Phase};
use crate::output;

mod expected_end;
mod line;
mod step_line;

use expected_end::{Durations, ExpectedEnd};
pub use line::{columns, compact, log_line, render as render_line};
pub use step_line::StepLine;

/// Seconds between two lines of a log.
pub const LOG_INTERVAL: u64 = 10;

/// The progress of a run.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
    /// True while stderr is a log that gets a line every ten seconds.
    is_log: bool,
    expected: ExpectedEnd,
    response: Series,
    /// The series that together last as long as an operation; if absent, the response does.
    lifetime: Option<Lifetime>,
    draining: bool,
    /// The opening of connections before the load; absent once the load has begun.
    opening: Option<OpeningProgress>,
    last: LiveSecond,
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
    /// Creates the progress of a run; nothing is shown with `quiet`.
    #[must_use]
    pub fn new<D>(plan: &Plan<D>, description: &Description, quiet: bool) -> Self {
        let is_terminal = output::is_screen(&std::io::stderr());
        let target = if quiet || !is_terminal {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is well formed"));
        let expected = ExpectedEnd::new(plan);
        Self {
            bar,
            quiet,
            is_log: !quiet && !is_terminal,
            last: LiveSecond {
                second: 0,
                phase: Phase::Opening,
                end: End::AtMost(0),
                latest: 0,
                started: 0,
                ok: 0,
                failed: 0,
                open: 0,
                rate: 0,
                p50_ns: None,
                p99_ns: None,
                connections: None,
            },
            expected,
            response: description.response,
            lifetime: description.audit_inputs.lifetime.clone(),
            draining: false,
            opening: None,
        }
    }

    /// Shows the current step before the load begins.
    pub fn step(&self, what: &str) {
        self.show(what.chars().take(columns()).collect());
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

    /// Shows one more second. `total` is the run so far. Returns the run's state after the second.
    pub fn add(&mut self, run_second: &RunSecond, phases: &Phases, total: &Tally) -> &LiveSecond {
        let tally = &run_second.tally;
        let last = &mut self.last;
        last.second = run_second.second + 1;
        last.rate = tally.counted(STARTED);
        last.started += last.rate;
        last.ok += tally.counted(OK);
        last.failed += tally.errors.values().sum::<u64>();
        last.open = run_second.open();
        let of_second = tally.distribution(self.response);
        last.p50_ns = of_second.quantile(0.5);
        last.p99_ns = of_second.quantile(0.99);
        self.opened(tally);
        self.last.phase = if self.draining {
            Phase::Drain
        } else {
            expected_end::phase(phases, run_second.second * SECOND_NS + SECOND_NS / 2)
        };
        let begin = Duration::from_nanos(phases.begin.saturating_sub(phases.origin));
        self.last.latest = self.expected.latest(begin);
        let durations = self.durations(total);
        self.last.end = self.expected.end(self.last.second, begin, durations);
        self.show(line::render(&self.last, columns()));
        if self.is_log && self.last.second.is_multiple_of(LOG_INTERVAL) {
            output::note(&log_line(&self.last));
        }
        &self.last
    }

    /// Returns the durations of whole operations, once some have ended.
    fn durations(&self, total: &Tally) -> Option<Durations> {
        let response = total.distribution(self.response);
        let parts: Vec<&Distribution> = match &self.lifetime {
            Some(lifetime) => total
                .series()
                .filter(|(name, _)| lifetime.series.iter().any(|part| part == name))
                .map(|(_, values)| values)
                .collect(),
            None => vec![response],
        };
        let sum = |quantile| -> Option<u64> {
            let parts = parts.iter().map(|part| part.quantile(quantile));
            parts.sum()
        };
        Some(Durations {
            median: Duration::from_nanos(sum(0.5)?),
            p99: Duration::from_nanos(sum(0.99)?),
        })
    }

    /// Counts the opened connections, until the first operation has started.
    fn opened(&mut self, tally: &Tally) {
        if self.last.started > 0 {
            self.opening = None;
        }
        self.last.connections = self.opening.as_mut().map(|opening| {
            let counters = opening.counters.iter();
            opening.open += counters.map(|name| tally.counted(name)).sum::<u64>();
            (opening.open, opening.planned)
        });
    }

    fn show(&self, line: String) {
        self.bar.set_message(line);
        self.bar.tick();
    }

    /// Prints a line above the live one, unless `quiet`.
    pub fn above(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| output::note(text));
        }
    }

    /// Prints the line that a driver has for every second. A log then needs no other lines.
    pub fn above_second(&mut self, text: &str, on_stdout: bool) {
        self.is_log = false;
        if on_stdout {
            // The report names a disk that is full.
            let _ = self.bar.suspend(|| output::print(text));
        } else {
            self.above(text);
        }
    }

    /// Prints once that nothing is started any more and how to end the run, and shows the draining in the live line
    /// from now on. The run ends at the latest in the second `latest`.
    pub fn draining(&mut self, text: &str, latest: u64) {
        self.draining = true;
        self.expected.interrupt(latest);
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

    use load::plan::Timeline;
    use measure::spec::{CounterSpec, SeriesRole, SeriesSpec};

    use super::*;

    static SPEC: Spec = Spec {
        series: Cow::Borrowed(&[
            SeriesSpec::new("first", SeriesRole::Headline),
            SeriesSpec::new("rest", SeriesRole::Main),
        ]),
        counters: Cow::Borrowed(&[CounterSpec::new("opened", "opened", CounterRole::Opened)]),
        ..Spec::UNKNOWN
    };

    /// Returns the progress of a load whose operations consist of these series.
    fn progress(lifetime: &[&str]) -> Progress {
        let timeline = Timeline::new(Duration::from_secs(1), Duration::ZERO);
        let plan = Plan::new("p", timeline, Vec::new(), ());
        let mut description = Description::new(&plan, &SPEC, String::new(), Series(0), 0);
        description.audit_inputs.lifetime = Some(Lifetime {
            series: lifetime.iter().map(|part| (*part).to_owned()).collect(),
            ..Lifetime::default()
        });
        Progress::new(&plan, &description, true)
    }

    #[test]
    fn an_operation_lasts_as_long_as_all_of_its_parts() {
        let progress = progress(&["first", "rest"]);
        let mut total = Tally::new(&SPEC.series);
        total.record(Series(0), 1_000_000);
        assert_eq!(progress.durations(&total), None, "none has ended");
        total.record(Series(1), 2_000_000_000);
        let median = progress.durations(&total).unwrap().median;
        assert_eq!(median.as_millis() / 10, 200);
    }

    #[test]
    fn connections_are_counted_until_the_load_begins() {
        let mut progress = progress(&["first"]);
        let mut tally = Tally::new(&[]);
        progress.opened(&tally);
        assert_eq!(progress.last.connections, None);
        progress.count_opening(Some(1_000_000), &SPEC);
        tally.count("opened", 20_000);
        progress.opened(&tally);
        assert_eq!(progress.last.connections, Some((20_000, 1_000_000)));
        progress.opened(&tally);
        assert_eq!(progress.last.connections, Some((40_000, 1_000_000)));
        progress.last.started = 1;
        progress.opened(&tally);
        assert_eq!(progress.last.connections, None);
    }
}
