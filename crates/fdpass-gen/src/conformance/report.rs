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
pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// A case that has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Finished {
    pub(crate) name: &'static str,
    pub(crate) socket_type: &'static str,
    pub(crate) outcome: Outcome,
    /// Why it failed or was passed over; empty where it passed.
    pub(crate) detail: String,
    pub(crate) ms: u64,
}

/// All cases of a daemon.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) daemon: String,
    pub(crate) version: Option<String>,
    pub(crate) cases: Vec<Finished>,
}

impl Report {
    /// Whether no case failed.
    pub(crate) fn is_passed(&self) -> bool {
        self.count(Outcome::Failed) == 0
    }

    fn count(&self, outcome: Outcome) -> usize {
        let ended = self.cases.iter().filter(|case| case.outcome == outcome);
        ended.count()
    }

    /// The whole of stdout.
    pub(crate) fn render(&self, format: Format) -> String {
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
            one_line(&self.daemon),
            one_line(version),
            self.cases.len()
        );
        for (at, case) in self.cases.iter().enumerate() {
            tap.push_str(&case.tap(at + 1));
        }
        let [passed, failed, skipped] =
            [Outcome::Passed, Outcome::Failed, Outcome::Skipped].map(|outcome| self.count(outcome));
        // Writing to a string can't fail.
        let _ = writeln!(tap, "# passed {passed}, failed {failed}, skipped {skipped}");
        tap
    }
}

impl Finished {
    fn tap(&self, number: usize) -> String {
        let what = format!("{number} - {}: {}", self.socket_type, escaped(self.name));
        match self.outcome {
            Outcome::Passed => format!("ok {what}\n"),
            Outcome::Skipped => {
                format!("ok {what} # SKIP {}\n", escaped(&one_line(&self.detail)))
            }
            Outcome::Failed => format!("not ok {what}\n{}", self.diagnostics()),
        }
    }

    /// A YAML document; the message is a literal block, so that a log keeps its lines.
    fn diagnostics(&self) -> String {
        let mut yaml = format!(
            "  ---\n  socket_type: {}\n  duration_ms: {}\n  message: |\n",
            self.socket_type, self.ms
        );
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
        let case = |name, outcome, detail: &str| Finished {
            name,
            socket_type: "stream",
            outcome,
            detail: detail.to_owned(),
            ms: 12,
        };
        Report {
            daemon: "some-daemon".to_owned(),
            version: Some("some-daemon 1.0".to_owned()),
            cases: vec![
                case("one", Outcome::Passed, ""),
                case("two", Outcome::Failed, "it said:\n  a\u{1b}b # c"),
                case("three", Outcome::Skipped, "not #here"),
            ],
        }
    }

    #[test]
    fn tap_has_a_plan_directives_and_diagnostics() {
        let expected = "TAP version 14\n# some-daemon, some-daemon 1.0\n1..3\nok 1 - stream: one\n\
            not ok 2 - stream: two\n  ---\n  socket_type: stream\n  duration_ms: 12\n  message: |\n    it said:\n      \
            a\\u{1b}b # c\n  ...\nok 3 - stream: three # SKIP not \\#here\n# passed 1, failed 1, skipped 1\n";
        assert_eq!(report().render(Format::Tap), expected);
    }

    #[test]
    fn json_has_the_daemon_above_its_cases() {
        let json: serde_json::Value = serde_json::from_str(&report().render(Format::Json)).unwrap();
        assert_eq!(json["daemon"], "some-daemon");
        assert_eq!(json["version"], "some-daemon 1.0");
        assert_eq!(
            json["cases"][0],
            serde_json::json!({"name": "one", "socket_type": "stream", "outcome": "passed", "detail": "", "ms": 12})
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
