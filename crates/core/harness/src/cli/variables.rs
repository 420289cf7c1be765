//! Environment variables of options: the program's name followed by the option's name.

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args as _, Command};
use load::plan::Invalid;
use measure::similar::similar;

use super::common::Common;
use super::renamed;

/// Gives each option an environment variable. Flags accept `1`, `true`, `yes` and `on`, and their opposites. `--help`
/// shows neither names, which follow one rule, nor values, because a value may be a password.
pub(super) fn add(command: Command, program: &str, renamed: &renamed::Names) -> Command {
    command.mut_args(|arg| {
        let Some(option) = arg.get_long() else {
            return arg;
        };
        let variable = renamed::variable(program, option, renamed);
        let arg = arg.env(variable).hide_env(true);
        match arg.get_action() {
            ArgAction::SetTrue => arg.value_parser(BoolishValueParser::new()),
            _ => arg,
        }
    })
}

/// Returns the variable of an option.
pub(super) fn name(program: &str, option: &str) -> String {
    format!("{program}_{option}")
        .replace('-', "_")
        .to_uppercase()
}

/// Returns the variables of a driver that are set and change the load, and not only how it is run and reported.
#[must_use]
pub fn load_variables(program: &str) -> Vec<String> {
    let common = Common::augment_args(Command::new("common"));
    let elsewhere: Vec<String> = common
        .get_opts()
        .filter_map(|option| Some(name(program, option.get_long()?)))
        .collect();
    let set = set_variables(program).into_iter();
    set.filter(|name| !elsewhere.contains(name)).collect()
}

fn set_variables(program: &str) -> Vec<String> {
    let prefix = name(program, "");
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// Refuses a variable that has nearly the name of an option's. Others may belong to something else, such as a service
/// of Kubernetes.
pub(super) fn check(command: &Command, program: &str) -> Result<(), Invalid> {
    let prefix = name(program, "");
    let variables = command
        .get_opts()
        .filter_map(|option| option.get_env()?.to_str());
    let known: Vec<&str> = variables
        .filter_map(|variable| variable.strip_prefix(&prefix))
        .collect();
    for variable in set_variables(program) {
        let option = &variable[prefix.len()..];
        if known.contains(&option) {
            continue;
        }
        if let Some(meant) = similar(option, known.iter().copied()) {
            let problem =
                format!("is of no option: did you mean {prefix}{meant}? Otherwise unset it");
            return Err(Invalid::new(variable, problem));
        }
    }
    Ok(())
}

/// Returns a note on the variables of a program that are set, because nobody sees them in a refused call. `reference` has
/// variables of the reference, each with its option.
pub(super) fn note(program: &str, reference: &[(&str, &str)]) -> Option<String> {
    let mut set = set_variables(program);
    let reference = reference.iter();
    let reference = reference.filter(|(name, _)| std::env::var_os(name).is_some());
    set.extend(reference.map(|(name, option)| format!("{name} (--{option})")));
    (!set.is_empty()).then(|| format!("note: options from the environment: {}", set.join(", ")))
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn every_option_has_a_variable_and_a_positional_argument_has_none() {
        let command = Common::augment_args(Command::new("a-driver"));
        let command = command
            .arg(Arg::new("ramp-up").long("ramp-up"))
            .arg(Arg::new("url"));
        let command = add(command, "a-driver", &[]);
        for option in command.get_opts() {
            let long = option.get_long().unwrap();
            let expected = format!("A_DRIVER_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(option.get_env().unwrap().to_str(), Some(expected.as_str()));
        }
        let of = |id: &str| {
            let mut arguments = command.get_arguments();
            let arg = arguments.find(|arg| arg.get_id() == id).unwrap();
            arg.get_env().and_then(|name| name.to_str())
        };
        assert_eq!(of("ramp-up"), Some("A_DRIVER_RAMP_UP"));
        assert_eq!(of("print_plan"), Some("A_DRIVER_PRINT_PLAN"));
        assert_eq!(of("url"), None);
    }
}
