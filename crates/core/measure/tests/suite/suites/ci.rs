//! Formats for CI systems.

use std::io::Write as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;
use measure::report::{github, junit};
use measure::suite::Suite;
use measure::warning::{Severity, Verdict, Warning};

use crate::suites::small;
use test_kit::skip;

/// Counts tests, failures, errors and skipped tests with a public parser, and prints the failures.
const COUNT: &str = "
import sys, junitparser
suites = junitparser.JUnitXml.fromfile(sys.stdin)
for suite in suites:
    cases = list(suite)
    kinds = [type(result).__name__ for case in cases for result in case.result]
    assert len(cases) == suite.tests, (len(cases), suite.tests)
    assert suite.failures == kinds.count('Failure') and suite.errors == kinds.count('Error')
    assert suite.skipped == kinds.count('Skipped') and suite.name
    print(suite.name, suite.tests, suite.failures, suite.errors, suite.skipped)
    for case in cases:
        for result in case.result:
            print(case.classname, '|', case.name, '|', type(result).__name__, '|', result.message)
assert suites.tests == sum(suite.tests for suite in suites)
";

/// Returns what a public parser finds in a file; `None` without the parser.
fn parsed(xml: &str) -> Option<String> {
    // Debian's Python has the package, another Python in the path may not.
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", COUNT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    python.stdin.take()?.write_all(xml.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("No module named 'junitparser'") {
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Returns the small suite with a suspect run, and with texts that need to be escaped.
fn doubtful() -> Suite {
    let mut suite = small();
    let run = &mut suite.results[1];
    run.warnings = vec![Warning::generator_cpu_bound(Severity::Suspect, 90.0, 1, 10)];
    run.verdict = Verdict::Suspect;
    suite.unreached[0].reason = "<50 % of \"files\" & ports:\nraise, the limit".to_owned();
    suite
}

#[test]
fn a_public_parser_reads_the_junit_file_and_its_counts() {
    let Some(found) = parsed(&junit::render(&doubtful())) else {
        return skip("junitparser for /usr/bin/python3 (`scripts/setup` installs it)");
    };
    assert_snapshot!(found, @r#"
    fdpass-gen 25 2 1 1
    fdpass-gen.go-streaming | level 10000, run 1: first_byte.p99 <= 50ms | Failure | measured 61.2ms, required first_byte.p99 <= 50ms
    fdpass-gen.go-streaming | level 10000, run 1: verdict | Error | INVALID: a worker of the driver used 97 % of a core: it may be the bottleneck
    fdpass-gen.go-streaming | level 100, run 2: operations succeed | Failure | 42 of 100 operations failed: lost 40, reset 2
    fdpass-gen.python-streaming | level 100000 | Skipped | <50 % of "files" & ports: raise, the limit
    "#);
    let empty = Suite {
        name: "empty".to_owned(),
        ..Suite::default()
    };
    assert_eq!(parsed(&junit::render(&empty)).unwrap(), "empty 0 0 0 0\n");
}

#[test]
fn annotations_are_escaped() {
    assert_snapshot!(github::render(&doubtful()), @r#"
    ::error title=drover%3A first_byte.p99 <= 50ms::fdpass-gen, go-streaming, level 10000, run 1: measured 61.2ms, required first_byte.p99 <= 50ms
    ::error title=drover%3A invalid run::fdpass-gen, go-streaming, level 10000, run 1: INVALID: a worker of the driver used 97 %25 of a core: it may be the bottleneck
    ::error title=drover%3A operations succeed::fdpass-gen, go-streaming, level 100, run 2: 42 of 100 operations failed: lost 40, reset 2
    ::warning title=drover%3A suspect run::fdpass-gen, go-streaming, level 100, run 1: SUSPECT: a worker of the driver used 90 %25 of a core over the run, and more than 85 %25 in 1 of 10 seconds: it may be the bottleneck
    ::warning title=drover%3A not measured::python-streaming at level 100000: <50 %25 of "files" & ports:%0Araise, the limit
    "#);
}

#[test]
fn at_most_ten_annotations_of_a_severity_are_written_and_the_last_counts_the_rest() {
    let mut suite = small();
    suite.unreached = vec![suite.unreached[0].clone(); 30];
    let commands = github::render(&suite);
    let of = |severity: &str| {
        let lines = commands.lines().filter(|line| line.starts_with(severity));
        lines.collect::<Vec<_>>()
    };
    let warnings = of("::warning ");
    assert_eq!(warnings.len(), 10, "{commands}");
    assert!(warnings[9].contains("21 warnings more"), "{commands}");
    assert!(of("::notice").is_empty() && !of("::error ").is_empty());
}

#[test]
fn a_suite_that_met_everything_is_a_notice() {
    let mut suite = small();
    suite.unreached.clear();
    for run in &mut suite.results {
        run.thresholds.clear();
        run.warnings.clear();
        run.verdict = Verdict::Valid;
        run.errors.clear();
    }
    let commands = github::render(&suite);
    assert!(
        commands.starts_with("::notice title=drover%3A measured::"),
        "{commands}"
    );
    assert_eq!(commands.lines().count(), 1);
}
