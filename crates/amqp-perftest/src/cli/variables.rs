//! Environment variables of the options: the program's name followed by the option's name.

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::Cli;

const PREFIX: &str = "AMQP_PERFTEST_";

/// Returns the command line with an environment variable for each option. Options shared by all drivers get their
/// variable here, because they do not know the driver's name. Flags accept `1`, `true`, `yes` and `on`, and their
/// opposites.
pub(super) fn command() -> Command {
    let command = Cli::command().mut_arg("output", |output| {
        output.help("Also write the results to this file, as one JSON object")
    });
    command.mut_args(|arg| {
        let arg = match arg.get_long().map(variable) {
            // --help must not show their values: one contains a password.
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

    /// Options without a variable: they print something and start no run.
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
}
