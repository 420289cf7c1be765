//! Shows steps before a run that take a while: builds, and waits for locks.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use subject::daemon::Step;

use super::line::columns;
use crate::output;

/// Seconds between two lines of a log.
const LOG_INTERVAL: u64 = 10;

/// A line on stderr for each step, and for its time: on a terminal one that changes, in a log one every ten seconds.
#[derive(Debug)]
pub struct StepLine {
    bar: ProgressBar,
    quiet: bool,
    is_terminal: bool,
    /// The step, by its purpose and command, and the part of its time that were printed last.
    printed: Option<(String, u64)>,
}

impl StepLine {
    /// Creates a line; with `quiet`, only steps that take ten seconds are shown, once.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let is_terminal = output::is_screen(&std::io::stderr());
        let target = if !quiet && is_terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is well formed"));
        Self {
            bar,
            quiet,
            is_terminal,
            printed: None,
        }
    }

    /// Shows a step, at its begin and as its time goes on.
    pub fn show(&mut self, step: &Step<'_>) {
        if let Some(line) = self.due(step) {
            self.bar.suspend(|| output::note(&line));
        }
        if step.elapsed.as_secs() > 0 {
            let now = output::shown(&now(step));
            self.bar
                .set_message(now.chars().take(columns()).collect::<String>());
            self.bar.tick();
        }
    }

    /// Returns the line that is to be printed now, if there is one.
    fn due(&mut self, step: &Step<'_>) -> Option<String> {
        let part = match step.elapsed.as_secs() / LOG_INTERVAL {
            0 if self.quiet => return None,
            // A silence that lasts is explained.
            _ if self.quiet => 1,
            _ if self.is_terminal => 0,
            part => part,
        };
        let name = format!("{} {}", step.what, step.command.unwrap_or_default());
        let printed = Some((name, part));
        if self.printed == printed {
            return None;
        }
        self.printed = printed;
        let line = if part == 0 { begin(step) } else { now(step) };
        Some(output::shown(&line))
    }
}

impl Drop for StepLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns the line at the begin of a step.
fn begin(step: &Step<'_>) -> String {
    match (step.command, step.detail) {
        (Some(command), _) => format!("{}: {command}", step.what),
        (None, "") => step.what.to_owned(),
        (None, holder) => format!("{}: {holder}", step.what),
    }
}

/// Returns the line about the time of a step: `building http-daemon: 34 s, Compiling hyper v1.12.0`.
fn now(step: &Step<'_>) -> String {
    let detail = match step.detail {
        "" => String::new(),
        detail => format!(", {detail}"),
    };
    format!("{}: {} s{detail}", step.what, step.elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the lines that are printed when a step takes these seconds, outside of a terminal.
    fn lines<const N: usize>(quiet: bool, step: &mut Step<'_>, seconds: [u64; N]) -> Vec<String> {
        let mut line = StepLine::new(quiet);
        line.is_terminal = false;
        let due = seconds.into_iter().filter_map(|elapsed| {
            step.elapsed = Duration::from_secs(elapsed);
            line.due(step)
        });
        due.collect()
    }

    #[test]
    fn a_quiet_line_names_a_step_once_that_takes_ten_seconds() {
        let mut step = Step {
            what: "building http-daemon",
            command: Some("cargo build"),
            elapsed: Duration::ZERO,
            detail: "",
        };
        let seconds = [0, 9, 10, 19, 20, 100];
        assert_eq!(
            lines(true, &mut step, seconds),
            ["building http-daemon: 10 s"]
        );
        assert_eq!(lines(false, &mut step, seconds).len(), 4);
    }

    #[test]
    fn a_step_is_shown_with_its_time_and_its_last_line() {
        let mut step = Step {
            what: "building http-daemon",
            command: Some("cargo build"),
            elapsed: Duration::from_millis(34_900),
            detail: "Compiling hyper v1.12.0",
        };
        assert_eq!(begin(&step), "building http-daemon: cargo build");
        assert_eq!(
            now(&step),
            "building http-daemon: 34 s, Compiling hyper v1.12.0"
        );
        step.detail = "";
        assert_eq!(now(&step), "building http-daemon: 34 s");
        (step.what, step.command, step.detail) = ("waiting for the build", None, "pid 7");
        assert_eq!(begin(&step), "waiting for the build: pid 7");
    }
}
