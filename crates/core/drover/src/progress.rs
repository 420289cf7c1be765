//! Shows the progress of a suite on stderr: one line for each run that has ended, and on a terminal one that changes.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use harness::live::LiveSecond;
use harness::output;
use harness::progress::{LOG_INTERVAL, columns, log_line};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use load::clock;
use measure::units;

use crate::estimate;
use crate::live_run::LiveRun;
use crate::record::{RunId, Running};

/// The progress line.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Hidden if stderr is not a terminal.
    bar: ProgressBar,
}

/// The load of the current run, as its driver leaves it in the run's folder.
#[derive(Debug)]
pub(crate) struct LiveView {
    run: LiveRun,
    /// The second of the run in which it was read.
    read_s: u64,
    /// The last ten seconds with a line in the log.
    logged: u64,
}

impl LiveView {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            run: LiveRun::new(folder),
            read_s: 0,
            logged: 0,
        }
    }
}

/// The known facts about a run before it has ended.
#[derive(Debug, Clone)]
pub(crate) struct RunProgress {
    /// Its number in the suite.
    pub(crate) number: usize,
    /// Runs in all; unknown for a search.
    pub(crate) total: Option<usize>,
    pub(crate) id: RunId,
    /// Number of repetitions of each run.
    pub(crate) repeat: u32,
    /// Number of this attempt: earlier ones were INVALID.
    pub(crate) attempt: u32,
    /// Estimated duration of the run.
    pub(crate) about: Duration,
    /// Estimated duration of the runs after it; unknown for a search.
    pub(crate) after: Option<Duration>,
    pub(crate) began: u64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let target = if output::is_screen(&io::stderr()) {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{msg}").expect("the template is well formed");
        bar.set_style(style);
        Self { bar }
    }

    /// Prints a line that stays.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| output::note(text));
    }

    /// Shows the current run: on a terminal in one line, in a log with a line every ten seconds of its load.
    pub(crate) fn show(&self, now: &RunProgress, live: &mut LiveView) {
        let elapsed_s = now.elapsed().as_secs();
        if live.read_s != elapsed_s {
            live.read_s = elapsed_s;
            live.run.refresh();
        }
        let second = live.run.seconds.back();
        let part = second.map_or(0, |second| second.second / LOG_INTERVAL);
        if part > live.logged {
            live.logged = part;
            if let (Some(second), false) = (second, output::is_screen(&io::stderr())) {
                self.say(&log_line(second));
            }
        }
        self.bar.set_message(now.line(columns(), second));
        self.bar.tick();
    }

    /// Prints how the run has ended.
    pub(crate) fn ended(&self, now: &RunProgress, how: &str) {
        let took = estimate::format_time(now.elapsed());
        let left = now.left(Duration::ZERO);
        let left = left.map_or(String::new(), |left| format!(" · {left}"));
        self.say(&format!("{} · {took} · {how}{left}", now.which()));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl RunProgress {
    /// Returns the run as the record of the suite shows it to programs that watch it.
    pub(crate) fn running(&self) -> Running {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Running {
            id: self.id.clone(),
            number: self.number,
            attempt: self.attempt,
            pid: std::process::id(),
            began_unix_s: now.unwrap_or_default().as_secs(),
            about_s: self.about.as_secs(),
            after_s: self.after.map(|after| after.as_secs()),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(clock::now().saturating_sub(self.began))
    }

    fn which(&self) -> String {
        describe_run(&self.running(), self.total, self.repeat)
    }

    /// Returns the live line, at most `width` columns wide: parts that do not fit are left out whole.
    fn line(&self, width: usize, second: Option<&LiveSecond>) -> String {
        let elapsed = self.elapsed();
        let left = self.left(self.about.saturating_sub(elapsed));
        let (elapsed, about) = (
            estimate::format_time(elapsed),
            estimate::format_time(self.about),
        );
        let mut parts = parts_of_run(&self.running(), self.total, self.repeat);
        // Before the load, and after it, only the time is known.
        parts.push((
            1,
            second.map_or_else(|| format!("{elapsed} of about {about}"), LiveSecond::time),
        ));
        parts.extend(left.map(|left| (4, left)));
        let is_too_wide = |parts: &[(u8, String)]| joined(parts).chars().count() > width;
        while is_too_wide(&parts)
            && let Some(least) = parts.iter().map(|(rank, _)| *rank).max()
        {
            parts.retain(|(rank, _)| *rank != least);
        }
        joined(&parts)
    }

    fn left(&self, of_this: Duration) -> Option<String> {
        let left = self.after? + of_this;
        (!left.is_zero()).then(|| format!("about {} left", estimate::format_time(left)))
    }
}

/// Identifies a run: `run 14 of 36 · go-streaming · 10,000 · 2nd of 3`
pub(crate) fn describe_run(run: &Running, total: Option<usize>, repeat: u32) -> String {
    joined(&parts_of_run(run, total, repeat))
}

/// Returns the parts that identify a run, each with its rank: parts of the highest rank are left out first.
fn parts_of_run(run: &Running, total: Option<usize>, repeat: u32) -> Vec<(u8, String)> {
    let of = total.map_or(String::new(), |total| format!(" of {total}"));
    let again = match (total, run.id.run) {
        (Some(_), number) if repeat > 1 => Some(format!("{} of {repeat}", ordinal(number))),
        (None, number) if number > 1 => Some(format!("{} time", ordinal(number))),
        _ => None,
    };
    let attempt = (run.attempt > 1).then(|| format!("attempt {}", run.attempt));
    [
        (0, Some(format!("run {}{of}", run.number))),
        (2, Some(run.id.daemon.clone())),
        (3, Some(describe_level(&run.id.level))),
        (6, again),
        (5, attempt),
    ]
    .into_iter()
    .filter_map(|(rank, part)| Some((rank, part?)))
    .collect()
}

fn joined(parts: &[(u8, String)]) -> String {
    let texts: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
    texts.join(" · ")
}

/// Returns the name of a level, with thousands separators if it is a number.
pub(crate) fn describe_level(level: &str) -> String {
    level
        .parse()
        .map_or_else(|_| level.to_owned(), |level: u64| units::count(level))
}

fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(total: Option<usize>, run: u32) -> RunProgress {
        RunProgress {
            number: 14,
            total,
            id: RunId {
                daemon: "go-streaming".to_owned(),
                level: "10000".to_owned(),
                run,
            },
            repeat: 3,
            attempt: 1,
            about: Duration::from_secs(120),
            after: total.map(|_| Duration::from_secs(2400)),
            began: clock::now(),
        }
    }

    #[test]
    fn the_line_says_which_run_it_is_and_what_is_left() {
        assert_eq!(
            now(Some(36), 2).line(100, None),
            "run 14 of 36 · go-streaming · 10,000 · 2nd of 3 · 0s of about 2m00s · about 42 min left"
        );
        assert_eq!(
            now(None, 2).line(100, None),
            "run 14 · go-streaming · 10,000 · 2nd time · 0s of about 2m00s"
        );
        assert_eq!(
            now(Some(36), 2).line(79, None),
            "run 14 of 36 · go-streaming · 10,000 · 0s of about 2m00s · about 42 min left"
        );
        assert_eq!(
            now(Some(36), 2).line(40, None),
            "run 14 of 36 · 0s of about 2m00s"
        );
        assert_eq!(
            [1, 3, 4, 11, 22].map(ordinal),
            ["1st", "3rd", "4th", "11th", "22nd"]
        );
    }
}
