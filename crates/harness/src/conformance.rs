//! Functional cases for a daemon, tested from outside: their selection, their outcomes, and output as TAP or JSON.
//!
//! The driver defines what a case tests; this module knows only names and outcomes.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use clap::Args;
use serde::{Serialize, Serializer};

use crate::cli::Failure;
use crate::output;
use load::clock;
use load::plan::Invalid;

/// Options of every `conformance` command.
#[derive(Debug, Args)]
pub struct Options {
    /// Set the output format on stdout
    #[arg(long, value_enum, default_value = "tap")]
    pub format: Format,
    /// Run only cases whose name contains these words
    #[arg(long, value_name = "WORDS")]
    pub only: Option<String>,
    /// Hide notes on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

impl Options {
    /// Returns the cases that `--only` selects, or all cases without it.
    ///
    /// # Errors
    /// No case has the words of `--only` in its name.
    pub fn select<C>(&self, mut cases: Vec<C>, name: fn(&C) -> &str) -> Result<Vec<C>, Failure> {
        let Some(words) = &self.only else {
            return Ok(cases);
        };
        if !cases.iter().any(|case| name(case).contains(words)) {
            let names: Vec<&str> = cases.iter().map(name).collect();
            let problem = format!(
                "no case name contains this text; the cases are:\n  {}",
                names.join("\n  ")
            );
            return Err(Invalid::new(format!("--only {words}"), problem).into());
        }
        cases.retain(|case| name(case).contains(words));
        Ok(cases)
    }
}

/// The output format on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Test Anything Protocol, version 14.
    Tap,
    /// A JSON object.
    Json,
}

/// The outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The daemon did what it must.
    Passed,
    /// The daemon did not do what it must.
    Failed,
    /// The case says nothing about the daemon.
    Skipped,
}

/// An error that marks a case as skipped, with the reason.
#[derive(Debug)]
pub struct Skip(pub &'static str);

impl fmt::Display for Skip {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Skip {}

/// A case that has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finished {
    name: String,
    #[serde(flatten)]
    labels: BTreeMap<&'static str, &'static str>,
    outcome: Outcome,
    /// The reason why the case failed or was skipped; empty if it passed.
    detail: String,
    ms: u64,
}

impl Finished {
    /// Runs a case and measures its duration. Labels distinguish cases of the same name: they are keys of their own in
    /// JSON, and precede the name in TAP.
    pub fn run<const N: usize>(
        name: &str,
        labels: [(&'static str, &'static str); N],
        look: impl FnOnce() -> anyhow::Result<()>,
    ) -> Self {
        let began = clock::now();
        let (outcome, detail) = match look() {
            Ok(()) => (Outcome::Passed, String::new()),
            Err(error) => match error.downcast_ref::<Skip>() {
                Some(skip) => (Outcome::Skipped, skip.to_string()),
                None => (Outcome::Failed, format!("{error:#}")),
            },
        };
        Self {
            name: name.to_owned(),
            labels: labels.into(),
            outcome,
            detail,
            ms: (clock::now() - began) / 1_000_000,
        }
    }

    fn tap(&self, number: usize) -> String {
        let labels: String = self.labels.values().map(|of| format!("{of}: ")).collect();
        let what = format!("{number} - {labels}{}", escaped(&self.name));
        match self.outcome {
            Outcome::Passed => format!("ok {what}\n"),
            Outcome::Skipped => {
                format!("ok {what} # SKIP {}\n", escaped(&one_line(&self.detail)))
            }
            Outcome::Failed => format!("not ok {what}\n{}", self.diagnostics()),
        }
    }

    /// Returns a YAML document. The message is a literal block, so that a log keeps its lines.
    fn diagnostics(&self) -> String {
        let mut yaml = "  ---\n".to_owned();
        // Writing to a string can't fail.
        for (key, value) in &self.labels {
            let _ = writeln!(yaml, "  {key}: {value}");
        }
        let _ = writeln!(yaml, "  duration_ms: {}\n  message: |", self.ms);
        for line in self.detail.lines() {
            // No character that YAML refuses or treats as a line break.
            let _ = writeln!(yaml, "    {}", one_line(line));
        }
        yaml + "  ...\n"
    }
}

/// All cases of a daemon.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The protocol's word for the daemon, which is its key in JSON, and the name or address of this daemon.
    #[serde(flatten, serialize_with = "as_entry")]
    pub subject: (&'static str, String),
    /// The version that a launched daemon reports.
    pub version: Option<String>,
    /// The cases in the order in which they are listed.
    pub cases: Vec<Finished>,
}

fn as_entry<S: Serializer>(
    (key, value): &(&'static str, String),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map([(key, value)])
}

impl Report {
    /// Returns true if no case failed.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.count(Outcome::Failed) == 0
    }

    fn count(&self, outcome: Outcome) -> usize {
        let ended = self.cases.iter().filter(|case| case.outcome == outcome);
        ended.count()
    }

    /// Writes the report to stdout.
    pub fn print(&self, format: Format) {
        output::tell(&self.render(format));
    }

    fn render(&self, format: Format) -> String {
        match format {
            Format::Tap => self.tap(),
            Format::Json => {
                serde_json::to_string_pretty(self).expect("names, numbers and text are JSON")
            }
        }
    }

    /// Renders the report as TAP, <https://testanything.org/tap-version-14-specification.html>.
    fn tap(&self) -> String {
        let version = self.version.as_deref().unwrap_or("version unknown");
        let mut tap = format!(
            "TAP version 14\n# {}, {}\n1..{}\n",
            one_line(&self.subject.1),
            one_line(version),
            self.cases.len()
        );
        for (at, case) in self.cases.iter().enumerate() {
            tap.push_str(&case.tap(at + 1));
        }
        let [passed, failed, skipped] =
            [Outcome::Passed, Outcome::Failed, Outcome::Skipped].map(|outcome| self.count(outcome));
        let _ = writeln!(tap, "# passed {passed}, failed {failed}, skipped {skipped}");
        tap
    }
}

/// Escapes control characters, so that the text stays on one line.
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

/// Escapes `#`, which would begin a TAP directive, and the backslash.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('#', "\\#")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn report() -> Report {
        let stream = [("socket_type", "stream")];
        let mut cases = vec![
            Finished::run("topic a.# matches", [], || Ok(())),
            Finished::run("two", stream, || Err(anyhow!("it said:\n  a\u{1b}b # c"))),
            Finished::run("three", stream, || Err(Skip("not #here").into())),
        ];
        for case in &mut cases {
            case.ms = 12;
        }
        Report {
            subject: ("broker", "some-daemon".to_owned()),
            version: Some("some-daemon 1.0".to_owned()),
            cases,
        }
    }

    #[test]
    fn tap_has_a_plan_directives_and_diagnostics() {
        let expected = "TAP version 14\n# some-daemon, some-daemon 1.0\n1..3\nok 1 - topic a.\\# matches\n\
            not ok 2 - stream: two\n  ---\n  socket_type: stream\n  duration_ms: 12\n  message: |\n    it said:\n      \
            a\\u{1b}b # c\n  ...\nok 3 - stream: three # SKIP not \\#here\n# passed 1, failed 1, skipped 1\n";
        assert_eq!(report().render(Format::Tap), expected);
    }

    #[test]
    fn json_has_the_daemon_above_its_cases_in_the_order_of_a_reader() {
        let expected = r#"{"broker":"some-daemon","version":"some-daemon 1.0","cases":[{"name":"topic a.# matches","outcome":"passed","detail":"","ms":12},{"name":"two","socket_type":"stream","outcome":"failed","detail":"it said:\n  a\u001bb # c","ms":12},{"name":"three","socket_type":"stream","outcome":"skipped","detail":"not #here","ms":12}]}"#;
        assert_eq!(serde_json::to_string(&report()).unwrap(), expected);
    }

    #[test]
    fn one_failure_is_a_failure() {
        let mut report = report();
        assert!(!report.is_passed());
        report.cases.remove(1);
        assert!(report.is_passed());
    }

    #[test]
    fn words_select_the_cases_that_have_them_and_are_refused_where_none_has() {
        let select = |only: Option<&str>| {
            let options = Options {
                format: Format::Tap,
                only: only.map(str::to_owned),
                quiet: true,
            };
            options.select(vec!["one", "two", "twofold"], |name| name)
        };
        assert_eq!(select(None).unwrap(), ["one", "two", "twofold"]);
        assert_eq!(select(Some("two")).unwrap(), ["two", "twofold"]);
        let refused = select(Some("three")).unwrap_err().to_string();
        assert!(refused.contains("--only three") && refused.contains("twofold"));
    }
}
