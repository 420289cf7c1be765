//! What came out, as TAP or JSON.

use std::fmt::Write as _;

use serde::Serialize;

/// What is written to stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Test Anything Protocol, version 14.
    Tap,
    /// One JSON object.
    Json,
}

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Passed,
    Failed,
}

/// A case that has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Finished {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// Why it failed; empty where it passed.
    pub(super) detail: String,
    pub(super) ms: u64,
}

/// All cases of a broker.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) broker: String,
    pub(super) version: Option<String>,
    pub(super) cases: Vec<Finished>,
}

impl Report {
    /// Whether no case failed.
    pub(super) fn is_passed(&self) -> bool {
        self.count(Outcome::Failed) == 0
    }

    fn count(&self, outcome: Outcome) -> usize {
        let ended = self.cases.iter().filter(|case| case.outcome == outcome);
        ended.count()
    }

    /// The whole of stdout.
    pub(super) fn render(&self, format: Format) -> String {
        match format {
            Format::Tap => self.tap(),
            Format::Json => {
                serde_json::to_string_pretty(self).expect("names, numbers and text are JSON")
            }
        }
    }

    /// <https://testanything.org/tap-version-14-specification.html>
    fn tap(&self) -> String {
        let version = self.version.as_deref().unwrap_or("version unknown");
        let mut tap = format!(
            "TAP version 14\n# {}, {}\n1..{}\n",
            one_line(&self.broker),
            one_line(version),
            self.cases.len()
        );
        for (at, case) in self.cases.iter().enumerate() {
            tap.push_str(&case.tap(at + 1));
        }
        let [passed, failed] =
            [Outcome::Passed, Outcome::Failed].map(|outcome| self.count(outcome));
        // Writing to a string can't fail.
        let _ = writeln!(tap, "# passed {passed}, failed {failed}");
        tap
    }
}

impl Finished {
    fn tap(&self, number: usize) -> String {
        let name = escaped(&self.name);
        match self.outcome {
            Outcome::Passed => format!("ok {number} - {name}\n"),
            Outcome::Failed => format!("not ok {number} - {name}\n{}", self.diagnostics()),
        }
    }

    /// A YAML document; the message is a literal block, so that a log keeps its lines.
    fn diagnostics(&self) -> String {
        let mut yaml = format!("  ---\n  duration_ms: {}\n  message: |\n", self.ms);
        for line in self.detail.lines() {
            // Nothing that YAML refuses, or that ends a line for it.
            let _ = writeln!(yaml, "    {}", one_line(line));
        }
        yaml + "  ...\n"
    }
}

/// Control characters as they are written in a string.
fn one_line(text: &str) -> String {
    let is_odd = |c: char| c.is_control() || matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}');
    text.chars()
        .map(|c| {
            if is_odd(c) {
                c.escape_default().to_string()
            } else {
                c.to_string()
            }
        })
        .collect()
}

/// A `#` would begin a directive.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('#', "\\#")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let case = |name: &str, outcome, detail: &str| Finished {
            name: name.to_owned(),
            outcome,
            detail: detail.to_owned(),
            ms: 12,
        };
        Report {
            broker: "some-daemon".to_owned(),
            version: Some("some-daemon 1.0".to_owned()),
            cases: vec![
                case("topic a.# matches", Outcome::Passed, ""),
                case("two", Outcome::Failed, "it said:\n  a\u{1b}b # c"),
            ],
        }
    }

    #[test]
    fn tap_has_a_plan_and_diagnostics() {
        let expected = "TAP version 14\n# some-daemon, some-daemon 1.0\n1..2\nok 1 - topic a.\\# matches\n\
            not ok 2 - two\n  ---\n  duration_ms: 12\n  message: |\n    it said:\n      \
            a\\u{1b}b # c\n  ...\n# passed 1, failed 1\n";
        assert_eq!(report().render(Format::Tap), expected);
    }

    #[test]
    fn json_has_the_broker_above_its_cases() {
        let json: serde_json::Value = serde_json::from_str(&report().render(Format::Json)).unwrap();
        assert_eq!(json["broker"], "some-daemon");
        assert_eq!(json["version"], "some-daemon 1.0");
        assert_eq!(
            json["cases"][0],
            serde_json::json!({"name": "topic a.# matches", "outcome": "passed", "detail": "", "ms": 12})
        );
        assert_eq!(json["cases"][1]["outcome"], "failed");
    }

    #[test]
    fn one_failure_is_a_failure() {
        let mut report = report();
        assert!(!report.is_passed());
        report.cases.remove(1);
        assert!(report.is_passed());
    }
}
