//! Words of a command line that probably mean something else.

use std::path::Path;

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use load::driver::{Address, Target};
use load::plan::Invalid;
use measure::similar::similar;
use subject::manifest;

/// Refuses an address that is the name of a daemon, a plan or a command.
pub(super) fn check_target(target: Option<&Target>, commands: &Command) -> Result<(), Invalid> {
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

/// Options by their purpose: as they are typed for other tools or drivers, and as they may be named here, the best first.
const PURPOSES: [(&[&str], &[&str]); 13] = [
    (
        &["-d", "-z", "--time", "--duration", "--hold"],
        &["duration", "hold"],
    ),
    (
        &[
            "-c",
            "-u",
            "--clients",
            "--connections",
            "--concurrency",
            "--users",
            "--vus",
            "--agents",
            "--rooms",
        ],
        &["connections", "agents", "rooms", "producers"],
    ),
    (
        &["-r", "-R", "--rate", "--rps", "--qps"],
        &["rate", "heartbeats-per-sec"],
    ),
    (
        &[
            "-n",
            "--count",
            "--requests",
            "--messages",
            "--message-count",
        ],
        &["requests", "ops", "messages", "pmessages"],
    ),
    (
        &["--timeout"],
        &[
            "timeout",
            "stream-timeout",
            "ack-timeout",
            "confirm-timeout",
        ],
    ),
    (
        &["-h", "-p", "--host", "--port", "--socket", "--uri", "--url"],
        &["url", "socket", "uri", "urls"],
    ),
    (&["-t"], &["threads"]),
    (&["-k", "--insecure"], &["tls-insecure"]),
    (&["-v", "--verbose", "--debug"], &["full"]),
    (&["-o", "--json"], &["output"]),
    (&["--csv", "--html"], &["format"]),
    (&["--config"], &["plan"]),
    (&["--dry-run"], &["print-plan"]),
];

/// Adds to an error of clap what its word may mean. `known` are words with an answer of their own, as they are typed:
/// options of other tools, and values that are missing.
pub fn explain(error: &mut clap::Error, commands: &Command, known: &[(&str, &str)]) {
    let word = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand]
        .into_iter()
        .find_map(|kind| match error.get(kind) {
            Some(ContextValue::String(word)) => Some(word.clone()),
            Some(ContextValue::Strings(words)) => words.first().cloned(),
            _ => None,
        });
    let is_mistaken = matches!(
        error.kind(),
        ErrorKind::UnknownArgument
            | ErrorKind::InvalidSubcommand
            | ErrorKind::MissingRequiredArgument
    );
    let Some(word) = word.filter(|_| is_mistaken) else {
        return;
    };
    let answer = known.iter().find(|(known, _)| *known == word);
    let answer = answer.map(|(_, answer)| (*answer).to_owned());
    let meant = answer.or_else(|| purpose(&word, commands).or_else(|| meaning(&word, commands)));
    let Some(meant) = meant else {
        // Clap advises to pass an unknown option as a value, which nobody means.
        if word.starts_with('-') && error.get(ContextKind::SuggestedArg).is_none() {
            suggest(error, "--help lists all options");
        }
        return;
    };
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
        error.remove(kind);
    }
    suggest(error, &meant);
}

fn suggest(error: &mut clap::Error, tip: &str) {
    let tips = vec![StyledStr::from(tip.to_owned())];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// Says what a word that is unknown here may mean.
fn meaning(word: &str, commands: &Command) -> Option<String> {
    let program = commands.get_name();
    let has = |option| commands.get_arguments().any(|arg| arg.get_id() == option);
    if word.ends_with(".toml") && !word.contains("://") {
        return Some(if has("plan") {
            format!("did you mean the plan --plan {word}?")
        } else {
            format!("did you mean {program} run {word}?")
        });
    }
    if word.starts_with('-') || word.contains(['/', ':', '@']) || Path::new(word).exists() {
        return None;
    }
    let root = manifest::find_root().ok().filter(|_| has("daemon"));
    let daemons = root.map(|root| manifest::names(&root)).unwrap_or_default();
    if let Some(daemon) = similar(word, daemons.iter().map(String::as_str)) {
        return Some(format!("did you mean --daemon {daemon}?"));
    }
    let commands = commands.get_subcommands().map(Command::get_name);
    let command = similar(word, commands)?;
    Some(format!("did you mean {program} {command}?"))
}

/// Names the option that has the purpose of `word`: an option of another program, or an address.
fn purpose(word: &str, commands: &Command) -> Option<String> {
    let typed = if word.contains("://") { "--url" } else { word };
    let (_, names) = PURPOSES
        .iter()
        .find(|(typed_as, _)| typed_as.contains(&typed))?;
    let option = names.iter().find_map(|name| {
        let mut arguments = commands.get_arguments();
        arguments.find(|arg| arg.get_long().unwrap_or(arg.get_id().as_str()) == *name)
    })?;
    let help = option
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let name = match option.get_long() {
        Some(long) => format!("--{long}"),
        None => format!("the address alone, without {typed}"),
    };
    Some(format!("use {name}: {help}"))
}
