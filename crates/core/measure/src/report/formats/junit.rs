//! JUnit XML, as Jenkins, GitLab and others read it: a test suite for each plan, and a test case for each condition of
//! each run.
//!
//! - A missed threshold is a failure, with the measured value and the bound. So are operations that failed unexpectedly.
//! - An INVALID run is an error of its case `verdict`. A SUSPECT run passes, with its warnings as output: on a shared
//!   machine most runs are SUSPECT.
//! - A level that could not be measured is skipped, with the reason.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::report::conditions::{self, Condition, Outcome, Reason};
use crate::report::{distinct, plain};
use crate::suite::{Suite, Unreached};

/// Renders the conditions of a suite.
pub fn render(suite: &Suite) -> String {
    let conditions = conditions::of_suite(suite);
    let plans = conditions
        .iter()
        .map(|condition| conditions::plan(condition.run));
    let mut plans = distinct(plans);
    if plans.is_empty() {
        plans.push(&suite.name);
    }
    let mut report = Report::new("drover");
    for plan in &plans {
        let mut conditions = conditions
            .iter()
            .filter(|condition| conditions::plan(condition.run) == *plan)
            .peekable();
        let mut cases = TestSuite::new(*plan);
        if let Some(first) = conditions.peek() {
            cases.timestamp = first.run.started_at.parse().ok();
            let hostname = first.run.machine.hostname.as_str();
            cases.extra.insert("hostname".into(), hostname.into());
        }
        cases.add_test_cases(conditions.map(|condition| case(plan, condition)));
        // What is not measured has no plan of its own.
        if report.test_suites.is_empty() {
            let unreached = suite.unreached.iter();
            cases.add_test_cases(unreached.map(|missed| skipped(plan, missed)));
        }
        cases.time = Some(cases.test_cases.iter().filter_map(|case| case.time).sum());
        report.add_test_suite(cases);
    }
    let times = report.test_suites.iter().filter_map(|suite| suite.time);
    report.time = Some(times.sum());
    plain(&report.to_string().expect("every text is valid in XML"))
}

/// Returns the test case of a condition. The case `verdict` has the time of its run, so that the sum is right.
fn case(plan: &str, condition: &Condition<'_>) -> TestCase {
    let status = match &condition.outcome {
        Outcome::Met | Outcome::Doubtful(_) => TestCaseStatus::success(),
        Outcome::NotMet(reason) => non_success(NonSuccessKind::Failure, "not met", reason),
        Outcome::Invalid(reason) => non_success(NonSuccessKind::Error, "INVALID", reason),
    };
    let name = format!("{}: {}", condition.run_name(), condition.name);
    let mut case = TestCase::new(name, status);
    case.set_classname(class(plan, &condition.run.daemon.name));
    if condition.name == "verdict" {
        case.set_time(Duration::from_secs_f64(condition.run.wall_s));
    }
    if let Outcome::Doubtful(reason) = &condition.outcome {
        case.set_system_out(format!("{}\n{}", reason.message, reason.detail));
    }
    case
}

fn non_success(kind: NonSuccessKind, name: &str, reason: &Reason) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(name);
    status.set_message(reason.message.as_str());
    status.set_description(reason.detail.as_str());
    status
}

fn skipped(plan: &str, missed: &Unreached) -> TestCase {
    let mut status = TestCaseStatus::skipped();
    status.set_message(missed.reason.as_str());
    // Again, because a reader turns the line ends of a message into spaces.
    status.set_description(missed.reason.as_str());
    let mut case = TestCase::new(format!("level {}", missed.level), status);
    case.set_classname(class(plan, &missed.daemon));
    case
}

/// Returns the class of a daemon's cases. A point separates packages, so that it can't be in a name.
fn class(plan: &str, daemon: &str) -> String {
    format!("{}.{}", plan.replace('.', "_"), daemon.replace('.', "_"))
}
