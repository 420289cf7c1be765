//! The help of each driver: `-h` on a screen or two, and `--help` with a unit for each number.

use amqp_perftest::driver::Perftest;
use clap::Command;
use fdpass_gen::driver::FdPass;
use harness::cli::command;
use http_load::HttpLoad;
use issue_stress::IssueStress;
use presence_load::PresenceLoad;

/// Lines of the short help.
const LINES: usize = 61;
/// Columns of both.
const COLUMNS: usize = 110;

fn drivers() -> [Command; 5] {
    [
        command::<FdPass>(),
        command::<Perftest>(),
        command::<HttpLoad>(),
        command::<PresenceLoad>(),
        command::<IssueStress>(),
    ]
}

#[test]
fn the_short_help_fits_a_screen_or_two_and_has_examples_and_defaults() {
    let mut long: Vec<String> = Vec::new();
    for mut driver in drivers() {
        let help = driver.render_help().to_string();
        let lines = help.lines().count();
        assert!(lines <= LINES, "{lines} lines:\n{help}");
        // The values of an option stand in one line.
        let is_long =
            |line: &&str| line.chars().count() > COLUMNS && !line.contains("[possible values");
        long.extend(help.lines().filter(is_long).map(str::to_owned));
        for part in ["Examples:", "[default", "--plan", "--daemon", "`--help`"] {
            assert!(help.contains(part), "{part} is not in:\n{help}");
        }
    }
    let long = long.join("\n");
    assert!(long.is_empty(), "more than {COLUMNS} columns:\n{long}");
}

#[test]
fn the_long_help_has_every_option_in_a_group_and_no_history() {
    for mut driver in drivers() {
        let help = driver.render_long_help().to_string();
        for option in driver.get_opts() {
            let name = option.get_long().unwrap();
            assert!(help.contains(&format!("--{name}")), "--{name}");
            let own = ["help", "version", "socket", "url", "uri", "verbose"];
            let is_grouped = option.get_help_heading().is_some() || own.contains(&name);
            assert!(is_grouped, "--{name} belongs to no group");
            // A number without a unit is a count.
            let value = option.get_value_names().unwrap_or_default();
            assert!(
                value.iter().all(|name| name.as_str() != "VALUE"),
                "--{name} does not say what its value is"
            );
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
        for part in ["Exit codes:", "Environment:", "Precedence:"] {
            assert!(help.contains(part), "{part} is not in:\n{help}");
        }
    }
}
