//! Functional cases for a daemon, tested from outside: their selection, their outcomes, and output as TAP or JSON.
//!
//! The driver defines what a case tests; this module knows only names and outcomes.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write as _};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::ensure;
use clap::Args;
use serde::{Serialize, Serializer};
use subject::daemon::{Daemon, Prepared};

use crate::cli::lines_of_files;
use crate::failure::Failure;
use crate::launcher::{self, Launcher, note};
use crate::output;
use load::clock;
use load::plan::Invalid;

/// Options of every `conformance` command.
#[derive(Debug, Args)]
pub struct Options {
    /// Test what runs at this address already; @FILE reads it from a file
    #[arg(value_name = "ADDRESS", conflicts_with = "daemon")]
    addresses: Vec<String>,
    /// Launch this daemon, named by its folder in daemons/
    #[arg(long, value_name = "NAME")]
    daemon: Option<String>,
    /// Set the output format on stdout
    #[arg(long, value_enum, default_value = "tap")]
    format: Format,
    /// Run only cases whose name contains these words
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Hide notes on stderr
    #[arg(long, short)]
    quiet: bool,
}

impl Options {
    /// Returns the addresses of the running daemon: those after the command, and the values of the driver's own option.
    ///
    /// # Errors
    /// A file of addresses that can't be read.
    pub fn addresses(&self, option: &str, typed: &[String]) -> Result<Vec<String>, Invalid> {
        lines_of_files(option, [&self.addresses, typed].concat())
    }
}

/// The functional cases for the daemons of a protocol.
#[derive(Debug)]
pub struct Suite<C> {
    /// The protocol's name in the manifests of daemons.
    pub protocol: &'static str,
    /// The protocol's word for a daemon, which is its key in JSON.
    pub subject: &'static str,
    /// The cases.
    pub cases: Vec<C>,
    /// Returns the name of a case.
    pub name: fn(&C) -> &str,
}

/// The daemon that cases test.
#[derive(Debug)]
pub enum Source<'a, R> {
    /// A daemon to launch.
    Launched(&'a Prepared),
    /// The address of a running daemon.
    Running(R),
}

impl<C> Suite<C> {
    /// Has `finish` run the selected cases on the daemon that the options name, or on the `running` one, which has a
    /// name and an address. Prints the report. Returns true if no case failed.
    ///
    /// # Errors
    /// A wrong call, or a failure that has nothing to do with a daemon's answers.
    pub fn run<R>(
        mut self,
        options: &Options,
        running: Option<(String, R)>,
        finish: impl FnOnce(Source<'_, R>, &[C]) -> Result<Vec<Finished>, Failure>,
    ) -> Result<bool, Failure> {
        self.select(options.only.as_deref())?;
        let cases = &self.cases;
        let (name, version, cases) = match (&options.daemon, running) {
            (Some(name), _) => {
                let root = launcher::root()?;
                let prepared = launcher::prepare(&root, name, self.protocol, options.quiet)?;
                note(options.quiet, &format!("{} cases on {name}", cases.len()));
                let version = prepared.version().map(str::to_owned);
                let finished = finish(Source::Launched(&prepared), cases)?;
                (name.clone(), version, finished)
            }
            (None, Some((name, running))) => (name, None, finish(Source::Running(running), cases)?),
            (None, None) => {
                let problem = "name a daemon to launch, or give the address of a running one";
                return Err(Invalid::new("--daemon", problem).into());
            }
        };
        let report = CaseReport {
            subject: (self.subject, name),
            version,
            cases,
        };
        output::print(&report.render(options.format))?;
        Ok(report.is_passed())
    }

    /// Attempts the cases of these names, one after the other. Returns their number as text.
    ///
    /// # Errors
    /// The failed cases, each with its reason.
    pub fn smoke(
        mut self,
        names: &[&str],
        attempt: impl Fn(&C) -> anyhow::Result<()>,
    ) -> anyhow::Result<String> {
        self.cases.retain(|case| names.contains(&(self.name)(case)));
        let failed = self.cases.iter().filter_map(|case| {
            let error = attempt(case).err()?;
            Some(format!("{}: {error:#}", (self.name)(case)))
        });
        let failed: Vec<String> = failed.collect();
        ensure!(failed.is_empty(), "{}", failed.join("\n  "));
        Ok(format!("{} cases", self.cases.len()))
    }

    /// Keeps the cases whose names contain the words of `--only`, or all cases without it.
    fn select(&mut self, only: Option<&str>) -> Result<(), Failure> {
        let Some(words) = only else { return Ok(()) };
        let names: Vec<&str> = self.cases.iter().map(self.name).collect();
        if !names.iter().any(|name| name.contains(words)) {
            let problem = format!(
                "no case name contains this text; the cases are:\n  {}",
                names.join("\n  ")
            );
            return Err(Invalid::new(format!("--only {words}"), problem).into());
        }
        self.cases.retain(|case| (self.name)(case).contains(words));
        Ok(())
    }
}

/// Returns the URL of a launched daemon.
///
/// # Errors
/// Its manifest has none.
pub fn url(daemon: &Daemon) -> Result<&str, Invalid> {
    let problem = "is missing in the daemon's manifest: see daemons/README.md";
    let url = daemon.endpoint().url.as_deref();
    url.ok_or_else(|| Invalid::new("url", problem))
}

/// Returns the outcomes of cases on these daemons.
///
/// # Errors
/// A daemon has ended by itself, although no case failed.
pub fn survived(
    launcher: &Launcher,
    daemons: &[Daemon],
    cases: Vec<Finished>,
) -> Result<Vec<Finished>, Failure> {
    let is_passed = cases.iter().all(Finished::is_passed);
    for daemon in daemons {
        match launcher.death(daemon, !is_passed) {
            Some(death) if is_passed => return Err(Failure::Run(anyhow::Error::msg(death))),
            Some(death) => output::note(&format!("error: {death}")),
            None => {}
        }
    }
    Ok(cases)
}

/// Asserts that two values are equal; `what` names them in the error.
///
/// # Errors
/// Both values.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a case compares what it has just received"
)]
pub fn expect_eq<T: Debug + PartialEq<U>, U: Debug>(
    what: &str,
    seen: T,
    expected: U,
) -> anyhow::Result<()> {
    ensure!(seen == expected, "{what}: {seen:?}, expected {expected:?}");
    Ok(())
}

/// Calls `run` for each item, on this many threads at a time. Returns the results in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            done.push((index, run(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The output format on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Test Anything Protocol, version 14.
    Tap,
    /// A JSON object.
    Json,
}

/// The outcome of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
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
        case: impl FnOnce() -> anyhow::Result<()>,
    ) -> Self {
        let began = clock::now();
        let (outcome, detail) = match case() {
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

    /// Returns true if the case did not fail.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.outcome != Outcome::Failed
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
struct CaseReport {
    /// The protocol's word for the daemon, and the name or address of this daemon.
    #[serde(flatten, serialize_with = "as_entry")]
    subject: (&'static str, String),
    /// The version that a launched daemon reports.
    version: Option<String>,
    /// The cases in the order in which they are listed.
    cases: Vec<Finished>,
}

fn as_entry<S: Serializer>(
    (key, value): &(&'static str, String),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map([(key, value)])
}

impl CaseReport {
    fn is_passed(&self) -> bool {
        self.cases.iter().all(Finished::is_passed)
    }

    fn count(&self, outcome: Outcome) -> usize {
        let ended = self.cases.iter().filter(|case| case.outcome == outcome);
        ended.count()
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

    fn report() -> CaseReport {
        let stream = [("socket_type", "stream")];
        let mut cases = vec![
            Finished::run("topic a.# matches", [], || Ok(())),
            Finished::run("two", stream, || Err(anyhow!("it said:\n  a\u{1b}b # c"))),
            Finished::run("three", stream, || Err(Skip("not #here").into())),
        ];
        for case in &mut cases {
            case.ms = 12;
        }
        CaseReport {
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
            let mut suite = Suite {
                protocol: "p",
                subject: "daemon",
                cases: vec!["one", "two", "twofold"],
                name: |name| name,
            };
            suite.select(only).map(|()| suite.cases)
        };
        assert_eq!(select(None).unwrap(), ["one", "two", "twofold"]);
        assert_eq!(select(Some("two")).unwrap(), ["two", "twofold"]);
        let refused = select(Some("three")).unwrap_err().to_string();
        assert!(refused.contains("--only three") && refused.contains("twofold"));
    }
    #[test]
    fn results_of_several_threads_are_in_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        for threads in [1, 7] {
            let doubled = in_parallel(threads, &items, |item| 2 * item);
            assert!(doubled.iter().copied().eq((0..100).map(|item| 2 * item)));
        }
    }
}
