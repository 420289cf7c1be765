//! Every option of a run has an environment variable: the program's name and its own.

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::Cli;

const PREFIX: &str = "AMQP_PERFTEST_";

/// The command line with these variables. Options that all drivers share know no driver's name: they are given theirs
/// here. A flag takes `1`, `true`, `yes` and `on`, and their opposites.
pub(super) fn command() -> Command {
    Cli::command().mut_args(|arg| {
        let arg = match arg.get_long().map(variable) {
            // Their values would stand in --help, and one has a password.
            Some(name) => arg.env(name).hide_env_values(true),
            None => arg,
        };
        match is_flag(&arg) {
            true => arg.value_parser(BoolishValueParser::new()),
            false => arg,
        }
    })
}

fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

fn variable(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_uppercase())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Options without a variable: they ask the program something, and no run follows.
    const EXCEPT: [&str; 2] = ["help", "version"];

    #[test]
    fn every_option_has_a_variable_of_its_own_by_which_it_is_found() {
        let mut command = command();
        command.build();
        let mut seen = BTreeSet::new();
        for option in command.get_opts().chain(command.get_arguments()) {
            let Some(long) = option.get_long().filter(|long| !EXCEPT.contains(long)) else {
                continue;
            };
            let name = option.get_env().map(|name| name.to_string_lossy());
            let expected = variable(long);
            assert_eq!(name.as_deref(), Some(expected.as_str()), "--{long}");
            seen.insert(long.to_owned());
        }
        for option in ["rate", "warmup", "threads", "plan", "polling", "quiet"] {
            assert!(seen.contains(option), "--{option} is an option");
        }
    }

    #[test]
    fn a_variable_written_beside_an_option_is_the_one_that_it_has() {
        for option in Cli::command().get_arguments() {
            if let (Some(long), Some(name)) = (option.get_long(), option.get_env()) {
                assert_eq!(name.to_string_lossy(), variable(long), "--{long}");
            }
        }
    }
}
