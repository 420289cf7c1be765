//! The help of each driver: `-h` on a screen or two, and `--help` with a unit for each number.

use std::process::Command;

use crate::docs::programs;
use crate::support::{assert_contains, ends_with, shown};

/// Most lines of the short help, which is 100 columns wide where stdout is not a terminal.
const LINES: usize = 64;

/// Returns the help of each driver, if all are built.
fn helps(option: &str) -> Vec<String> {
    let drivers = programs::drivers();
    if !programs::are_built(&drivers) {
        return Vec::new();
    }
    let help = |driver: &String| {
        let output = Command::new(programs::path(driver)).arg(option).output();
        let output = output.unwrap();
        ends_with(&output, 0);
        shown(&output)
    };
    drivers.iter().map(help).collect()
}

#[test]
fn the_short_help_fits_a_screen_or_two_and_has_examples_and_defaults() {
    for help in helps("-h") {
        let lines = help.lines().count();
        assert!(lines <= LINES, "{lines} lines:\n{help}");
        let parts = ["Examples:", "[default", "--plan", "--daemon", "`--help`"];
        assert_contains(&help, &parts);
    }
}

#[test]
fn the_long_help_has_every_option_in_a_group_and_no_history() {
    for help in helps("--help") {
        let mut heading = "";
        for line in help.lines() {
            if !line.starts_with(' ') && line.ends_with(':') {
                heading = line;
            }
            let Some((_, option)) = line.split_once("--").filter(|_| is_option(line)) else {
                continue;
            };
            let name = option.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
            let name = name.take(1).collect::<String>();
            let own = ["help", "version", "socket", "url", "uri", "verbose"];
            let is_grouped = heading != "Options:" || own.contains(&&*name);
            assert!(is_grouped, "--{name} belongs to no group");
            // A number without a unit is a count.
            let says_its_value = !option.contains("<VALUE>");
            assert!(says_its_value, "--{name} does not say what its value is");
        }
        for word in [
            "formerly",
            "no longer",
            "used to be",
            "as before",
            "the reference",
        ] {
            assert!(!help.contains(word), "{word:?} is in:\n{help}");
        }
        assert_contains(&help, &["Exit codes:", "Environment:", "Precedence:"]);
    }
}

/// Returns true for the line that begins an option: `  -q, --quiet` or `      --rate <RATE>`.
fn is_option(line: &str) -> bool {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    (indent == 6 && text.starts_with("--")) || (indent == 2 && text.starts_with('-'))
}
