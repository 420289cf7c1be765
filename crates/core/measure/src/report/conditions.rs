//! The conditions that runs must meet, for the formats that other programs read: its operations, its thresholds, its
//! verdict.

use crate::exit;
use crate::result::{RunResult, ThresholdResult};
use crate::suite::Suite;
use crate::units;
use crate::warning::{Kind, Severity, Verdict, Warning};

/// A condition of one run.
#[derive(Debug)]
pub(super) struct Condition<'a> {
    pub(super) run: &'a RunResult,
    /// Number of the run among the runs of its daemon at its level, from 1.
    pub(super) repetition: usize,
    /// The condition in words: `first_byte.p99 <= 50ms`.
    pub(super) name: String,
    pub(super) outcome: Outcome,
}

/// The outcome of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The condition is met.
    Met,
    /// The condition is met, with doubts that make a result SUSPECT.
    Doubtful(Reason),
    /// The condition is not met.
    NotMet(Reason),
    /// The run says nothing about the daemon.
    Invalid(Reason),
}

/// The reason for an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    /// One line.
    pub(super) message: String,
    /// Further lines, with what to do; may be empty.
    pub(super) detail: String,
}

impl Condition<'_> {
    /// Names the run: `level 100, run 2`.
    pub(super) fn run_name(&self) -> String {
        format!("level {}, run {}", self.run.level, self.repetition)
    }
}

/// Returns the conditions of all runs of a suite, in their order.
pub(super) fn of_suite(suite: &Suite) -> Vec<Condition<'_>> {
    let results = &suite.results;
    let runs = results.iter().enumerate().map(|(index, run)| {
        let is_same = |other: &&RunResult| {
            (&other.daemon.name, &other.level, plan(other))
                == (&run.daemon.name, &run.level, plan(run))
        };
        (run, results[..=index].iter().filter(is_same).count())
    });
    runs.flat_map(|(run, repetition)| {
        let condition = move |(name, outcome)| Condition {
            run,
            repetition,
            name,
            outcome,
        };
        let thresholds = run.thresholds.iter().map(threshold);
        let operations = ("operations succeed".to_owned(), operations(run));
        let verdict = ("verdict".to_owned(), verdict(run));
        std::iter::once(operations)
            .chain(thresholds)
            .chain([verdict])
            .map(condition)
            .collect::<Vec<_>>()
    })
    .collect()
}

/// Returns the name of a run's plan.
pub(super) fn plan(run: &RunResult) -> &str {
    let name = run.plan.get("name").and_then(|name| name.as_str());
    name.unwrap_or(&run.driver)
}

fn threshold(threshold: &ThresholdResult) -> (String, Outcome) {
    let outcome = match (threshold.met, &threshold.measured) {
        (true, _) => Outcome::Met,
        (false, measured) => Outcome::NotMet(Reason {
            message: match measured {
                Some(measured) => format!("measured {measured}, required {}", threshold.text),
                None => format!("nothing was measured, required {}", threshold.text),
            },
            detail: String::new(),
        }),
    };
    (threshold.text.clone(), outcome)
}

fn operations(run: &RunResult) -> Outcome {
    if !exit::has_failed(run) {
        return Outcome::Met;
    }
    let died = run.warnings.iter().find(|warning| {
        let kinds = [Kind::DaemonDied, Kind::WorkersFailed];
        kinds.contains(&warning.kind)
    });
    let kinds = run.errors.iter().filter(|(_, count)| **count > 0);
    let kinds: Vec<String> = kinds
        .map(|(kind, count)| format!("{kind} {}", units::count(*count)))
        .collect();
    let failed = format!(
        "{} of {} operations failed",
        units::count(run.operations.failed),
        units::count(run.operations.started)
    );
    Outcome::NotMet(match died {
        Some(warning) => Reason {
            message: first_line(&warning.message),
            detail: [failed, kinds.join(", ")].join("\n"),
        },
        None => Reason {
            message: format!("{failed}: {}", kinds.join(", ")),
            detail: String::new(),
        },
    })
}

fn verdict(run: &RunResult) -> Outcome {
    let severity = match run.verdict {
        Verdict::Valid => return Outcome::Met,
        Verdict::Suspect => Severity::Suspect,
        Verdict::Invalid => Severity::Invalid,
    };
    let warnings: Vec<&Warning> = (run.warnings.iter())
        .filter(|warning| warning.severity > Severity::Note)
        .collect();
    let first = warnings
        .iter()
        .find(|warning| warning.severity == severity)
        .map(|warning| first_line(&warning.message));
    let detail: Vec<String> = warnings
        .iter()
        .map(|warning| {
            format!(
                "{}: {}\n  {}",
                warning.severity.name(),
                warning.message,
                warning.hint
            )
        })
        .collect();
    let reason = Reason {
        message: format!("{}: {}", run.verdict, first.unwrap_or_default()),
        detail: detail.join("\n"),
    };
    match run.verdict {
        Verdict::Invalid => Outcome::Invalid(reason),
        Verdict::Valid | Verdict::Suspect => Outcome::Doubtful(reason),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
