//! Workflow commands of GitHub Actions: an annotation for each condition that was not met. GitHub shows ten of each
//! severity for a step, so that the tenth counts the rest.
//!
//! An INVALID run and a missed threshold are errors. A SUSPECT run and a level that could not be measured are warnings.

use std::fmt::Write as _;

use crate::report::conditions::{self, Condition, Outcome};
use crate::report::facts::counted;
use crate::report::plain;
use crate::suite::Suite;

/// Annotations of one severity that GitHub shows for a step.
const MOST: usize = 10;

/// Renders the annotations of a suite.
pub fn render(suite: &Suite) -> String {
    let conditions = conditions::of_suite(suite);
    let mut errors = Vec::new();
    let mut warnings = Vec::new();
    for condition in &conditions {
        let annotate = |title: &str, message: &str| annotation(condition, title, message);
        match &condition.outcome {
            Outcome::Met => {}
            Outcome::Doubtful(reason) => warnings.push(annotate("suspect run", &reason.message)),
            Outcome::Invalid(reason) => errors.push(annotate("invalid run", &reason.message)),
            Outcome::NotMet(reason) => errors.push(annotate(&condition.name, &reason.message)),
        }
    }
    for missed in &suite.unreached {
        warnings.push(Annotation {
            title: "not measured".to_owned(),
            message: format!(
                "{} at level {}: {}",
                missed.daemon, missed.level, missed.reason
            ),
        });
    }
    let mut commands = String::new();
    write(&mut commands, "error", &errors);
    write(&mut commands, "warning", &warnings);
    if errors.is_empty() {
        let runs = counted(suite.results.len() as u64, "run", "runs");
        let message = format!("{}: {runs}, no condition was missed", suite.name);
        let title = "measured".to_owned();
        write(&mut commands, "notice", &[Annotation { title, message }]);
    }
    commands
}

#[derive(Debug)]
struct Annotation {
    title: String,
    message: String,
}

fn annotation(condition: &Condition<'_>, title: &str, message: &str) -> Annotation {
    Annotation {
        title: title.to_owned(),
        message: format!(
            "{}, {}, {}: {message}",
            conditions::plan(condition.run),
            condition.run.daemon.name,
            condition.run_name()
        ),
    }
}

fn write(commands: &mut String, severity: &str, annotations: &[Annotation]) {
    let is_cut = annotations.len() > MOST;
    let shown = if is_cut { MOST - 1 } else { annotations.len() };
    for Annotation { title, message } in &annotations[..shown] {
        command(commands, severity, title, message);
    }
    if is_cut {
        let rest = counted(
            (annotations.len() - shown) as u64,
            severity,
            &format!("{severity}s"),
        );
        let message = format!("{rest} more: see the job summary, or drover report --format junit");
        command(commands, severity, "more", &message);
    }
}

/// Writes a workflow command: `::error title=drover%3A x::message`.
fn command(commands: &mut String, severity: &str, title: &str, message: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(
        commands,
        "::{severity} title={}::{}",
        property(&format!("drover: {title}")),
        data(message)
    );
}

/// Escapes the message of a workflow command. A line end would end the command.
fn data(text: &str) -> String {
    plain(text).replace('%', "%25").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
