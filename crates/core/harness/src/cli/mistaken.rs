//! Words of a command line that probably mean something else.

use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use load::driver::{Address, Target};
use load::plan::Invalid;
use measure::similar::similar;
use subject::manifest;

/// Refuses an address that is the name of a daemon, a plan or a command.
pub(super) fn check_target(
    target: Option<&Target>,
    commands: &clap::Command,
) -> Result<(), Invalid> {
    let addresses = target.map_or(&[][..], |target| &target.addresses);
    for address in addresses {
        let word = match address {
            Address::Url(url) => url.clone(),
            Address::Socket(path) => path.display().to_string(),
        };
        if let Some(meant) = meaning(&word, commands) {
            return Err(Invalid::new(word, format!("is not an address: {meant}")));
        }
    }
    Ok(())
}

/// Adds to an error of clap what an unexpected word may mean. `foreign` are options of other tools, each with the way to
/// say it here.
pub(super) fn explain(error: &mut clap::Error, commands: &clap::Command, foreign: &[(&str, &str)]) {
    let word = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand]
        .into_iter()
        .find_map(|kind| match error.get(kind) {
            Some(ContextValue::String(word)) => Some(word.clone()),
            _ => None,
        });
    let Some(word) = word else { return };
    let named = foreign.iter().find(|(option, _)| *option == word);
    let meant = match named {
        Some((_, answer)) => Some((*answer).to_owned()),
        // Clap advises to pass a short option as a value, which nobody means.
        None if word.starts_with('-') && !word.starts_with("--") => {
            Some("--help lists all options".to_owned())
        }
        None => meaning(&word, commands),
    };
    let Some(meant) = meant else { return };
    let tip = ContextValue::StyledStrs(vec![StyledStr::from(meant)]);
    error.insert(ContextKind::Suggested, tip);
}

/// Says what a word without the signs of an address may mean.
fn meaning(word: &str, commands: &clap::Command) -> Option<String> {
    if word.ends_with(".toml") && !word.contains("://") {
        return Some(format!("did you mean the plan --plan {word}?"));
    }
    let is_option_or_address = word.starts_with('-') || word.contains(['/', ':', '@']);
    if is_option_or_address || Path::new(word).exists() {
        return None;
    }
    let root = manifest::find_root();
    let daemons = root.map(|root| manifest::names(&root)).unwrap_or_default();
    if let Some(daemon) = similar(word, daemons.iter().map(String::as_str)) {
        return Some(format!("did you mean --daemon {daemon}?"));
    }
    let commands = commands.get_subcommands().map(clap::Command::get_name);
    let command = similar(word, commands)?;
    Some(format!("did you mean the command {command}?"))
}
