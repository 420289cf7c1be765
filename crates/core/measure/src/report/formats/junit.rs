//! JUnit XML, as Jenkins, GitLab and others read it: a test suite for each plan, and a test case for each condition of
//! each run.
//!
//! - A missed threshold is a failure, with the measured value and the bound. So are operations that failed unexpectedly.
//! - An INVALID run is an error of its case `verdict`. A SUSPECT run passes, with its warnings as output: on a shared
//!   machine most runs are SUSPECT.
//! - A level that could not be measured is skipped, with the reason.

use std::fmt::Write as _;

use crate::report::conditions::{self, Condition, Outcome, Reason};
use crate::report::distinct;
use crate::suite::{Suite, Unreached};

/// Renders the conditions of a suite.
pub fn render(suite: &Suite) -> String {
    let conditions = conditions::of_suite(suite);
    let mut names = distinct(
        conditions
            .iter()
            .map(|condition| conditions::plan(condition.run)),
    );
    if names.is_empty() {
        names.push(&suite.name);
    }
    let first = names[0];
    let suites: Vec<TestSuite<'_>> = names
        .into_iter()
        .map(|name| TestSuite {
            name,
            conditions: conditions
                .iter()
                .filter(|condition| conditions::plan(condition.run) == name)
                .collect(),
            // What is not measured has no plan of its own.
            unreached: if name == first { &suite.unreached } else { &[] },
        })
        .collect();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"drover\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\">\n",
        suites.iter().map(TestSuite::tests).sum::<usize>(),
        suites.iter().map(TestSuite::failures).sum::<usize>(),
        suites.iter().map(TestSuite::errors).sum::<usize>(),
        suites.iter().map(TestSuite::seconds).sum::<f64>(),
    );
    suites.iter().for_each(|suite| suite.write(&mut xml));
    xml.push_str("</testsuites>\n");
    xml
}

/// The conditions of the runs of one plan.
#[derive(Debug)]
struct TestSuite<'a> {
    name: &'a str,
    conditions: Vec<&'a Condition<'a>>,
    unreached: &'a [Unreached],
}

impl TestSuite<'_> {
    fn tests(&self) -> usize {
        self.conditions.len() + self.unreached.len()
    }

    fn failures(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::NotMet(_)))
    }

    fn errors(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Invalid(_)))
    }

    fn count(&self, is_counted: fn(&Outcome) -> bool) -> usize {
        let outcomes = self.conditions.iter().map(|condition| &condition.outcome);
        outcomes.filter(|outcome| is_counted(outcome)).count()
    }

    fn seconds(&self) -> f64 {
        self.conditions
            .iter()
            .map(|condition| seconds(condition))
            .sum()
    }

    fn write(&self, xml: &mut String) {
        // Writing to a string can't fail.
        let _ = write!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
            escaped(self.name),
            self.tests(),
            self.failures(),
            self.errors(),
            self.unreached.len(),
            self.seconds(),
        );
        if let Some(first) = self.conditions.first() {
            // In UTC and to the second, because the format has no time zone.
            let started = first.run.started_at.get(..19).unwrap_or_default();
            let _ = write!(
                xml,
                " timestamp=\"{}\" hostname=\"{}\"",
                escaped(started),
                escaped(&first.run.machine.hostname)
            );
        }
        xml.push_str(">\n");
        for condition in &self.conditions {
            let name = format!("{}: {}", condition.run_name(), condition.name);
            let class = class(self.name, &condition.run.daemon.name);
            let body = body(&condition.outcome);
            case(xml, &class, &name, seconds(condition), &body);
        }
        for missed in self.unreached {
            let (class, name) = (
                class(self.name, &missed.daemon),
                format!("level {}", missed.level),
            );
            let body = format!("<skipped message=\"{}\"/>", escaped(&missed.reason));
            case(xml, &class, &name, 0.0, &body);
        }
        xml.push_str("  </testsuite>\n");
    }
}

/// Returns the time of a test case. The case `verdict` has that of its run, so that the sum is right.
fn seconds(condition: &Condition<'_>) -> f64 {
    match condition.name.as_str() {
        "verdict" => condition.run.wall_s,
        _ => 0.0,
    }
}

/// Returns the class of a daemon's cases. A point separates packages, so that it can't be in a name.
fn class(plan: &str, daemon: &str) -> String {
    format!("{}.{}", plan.replace('.', "_"), daemon.replace('.', "_"))
}

fn body(outcome: &Outcome) -> String {
    let element = |name: &str, kind: &str, reason: &Reason| {
        format!(
            "<{name} type=\"{kind}\" message=\"{}\">{}</{name}>",
            escaped(&reason.message),
            escaped(&reason.detail)
        )
    };
    match outcome {
        Outcome::Met => String::new(),
        Outcome::Doubtful(reason) => {
            format!(
                "<system-out>{}\n{}</system-out>",
                escaped(&reason.message),
                escaped(&reason.detail)
            )
        }
        Outcome::NotMet(reason) => element("failure", "not met", reason),
        Outcome::Invalid(reason) => element("error", "INVALID", reason),
    }
}

fn case(xml: &mut String, class: &str, name: &str, seconds: f64, body: &str) {
    let _ = write!(
        xml,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.3}\"",
        escaped(class),
        escaped(name)
    );
    let _ = match body {
        "" => writeln!(xml, "/>"),
        body => writeln!(xml, ">{body}</testcase>"),
    };
}

/// Escapes a text for an element or an attribute. XML has no way to write control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // A reader turns a plain line end in an attribute into a space.
            '\n' => escaped.push_str("&#10;"),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_xml_cannot_hold_are_replaced() {
        assert_eq!(
            escaped("a<b> & \"c\"\n\u{1b}[31m\u{ffff}"),
            "a&lt;b&gt; &amp; &quot;c&quot;&#10;\u{fffd}[31m\u{fffd}"
        );
    }
}
