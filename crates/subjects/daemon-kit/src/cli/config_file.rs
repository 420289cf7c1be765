//! The configuration file of a daemon. Its keys are the options of the command line, and its sections their headings.

use std::any::TypeId;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use clap::builder::{Resettable, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Table, Value};

/// The option that names the file to read.
pub(super) const CONFIG: &str = "config";
/// The option that names the file to write.
pub(super) const GENERATE: &str = "generate-config";
/// The permission of everybody to write.
const WRITABLE_BY_ALL: u32 = 0o002;

/// Returns one of the two options.
pub(super) fn option(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("FILE")
        .value_parser(ValueParser::path_buf())
        .help(help)
}

/// Returns the value of an option, or for `@FILE` the only line of that file. Values in a file do not appear in process
/// listings.
///
/// # Errors
/// A file that cannot be read, that everybody may write to, or that does not have one line.
pub fn value_or_file(text: &str) -> Result<String, String> {
    let Some(file) = text.strip_prefix('@') else {
        return Ok(text.to_owned());
    };
    let text = read_trusted(Path::new(file)).map_err(|problem| format!("{file}: {problem}"))?;
    let mut lines = text.lines();
    match (lines.next(), lines.next()) {
        (Some(line), None) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(format!("{file}: write one line, the value, and no other")),
    }
}

/// Reads a file that not everybody may write to.
fn read_trusted(path: &Path) -> Result<String, String> {
    let read = || -> io::Result<(u32, String)> {
        let mut file = File::open(path)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok((file.metadata()?.permissions().mode(), text))
    };
    let (mode, text) = read().map_err(|error| {
        format!("cannot be read: {error}: name a text file that this user may read")
    })?;
    if mode & WRITABLE_BY_ALL != 0 {
        return Err("everybody may write to it: take that right away (chmod o-w)".to_owned());
    }
    Ok(text)
}

/// Returns the file that an option names, if it was given. Errors in other options are left for later.
pub(super) fn file_of(name: &str, command: &Command, words: &[OsString]) -> Option<PathBuf> {
    let lenient = command.clone().ignore_errors(true);
    let given = lenient.try_get_matches_from(words).ok()?;
    given.get_one::<PathBuf>(name).cloned()
}

/// Makes the values of a file the defaults of their options.
///
/// # Errors
/// A file that cannot be trusted or read, or the key that is wrong, with the remedy.
pub(super) fn with_file(command: Command, path: &Path) -> Result<Command, String> {
    let with_text = |text: String| {
        let table = text.parse::<Table>().map_err(|error| {
            // Its own text shows the line, which may have a password.
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.unwrap_or_default().split('\n').count();
            format!("line {line}: {}", error.message())
        })?;
        table.into_iter().try_fold(command, with_entry)
    };
    read_trusted(path).and_then(with_text)
}

/// Adds a value, or the values of a section.
fn with_entry(command: Command, (name, value): (String, Value)) -> Result<Command, String> {
    match value {
        Value::Table(section) => section
            .into_iter()
            .try_fold(command, |command, (key, value)| {
                with_value(command, &format!("{name}.{key}"), &value)
            }),
        value => with_value(command, &name, &value),
    }
}

/// Makes a value the default of the option with this key.
fn with_value(command: Command, key: &str, value: &Value) -> Result<Command, String> {
    let Some(arg) = settings(&command).find(|arg| self::key(arg) == key) else {
        let known: Vec<String> = settings(&command).map(self::key).collect();
        return Err(format!(
            "{key} is not a setting: write one of {}",
            known.join(", ")
        ));
    };
    let texts = texts(arg, value).map_err(|remedy| format!("{key}: {remedy}"))?;
    let arg = arg.clone().default_values(texts).required(false);
    // It depends on the machine no more.
    let arg = arg.hide_default_value(false);
    // The environment may replace the value, which must be right nevertheless.
    let alone = Command::new("").arg(arg.clone().env(Resettable::Reset));
    alone.try_get_matches_from([""]).map_err(|error| {
        let message = error.to_string();
        let reason = message.split("\n\nFor more information").next();
        let reason = reason.unwrap_or_default().trim_start_matches("error: ");
        format!("{key}: {}", reason.trim_end())
    })?;
    // `mut_arg` would move it to the end of the help.
    Ok(command.mut_args(|known| {
        if known.get_id() == arg.get_id() {
            arg.clone()
        } else {
            known
        }
    }))
}

/// Returns the options that a file can set.
fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        let elsewhere = [CONFIG, GENERATE, "help", "version"];
        arg.get_long()
            .is_some_and(|long| !elsewhere.contains(&long))
    })
}

/// Returns the section of an option, which is its heading.
fn section(arg: &Arg) -> Option<String> {
    arg.get_help_heading().map(str::to_lowercase)
}

/// Returns the key of an option, after its section: `server.http_port` is the one of `--http-port` below the heading
/// Server, and `cache.enabled` the one of `--cache-enabled` below Cache.
fn key(arg: &Arg) -> String {
    let long = arg.get_long().unwrap_or_default();
    match section(arg) {
        Some(section) => {
            let prefix = format!("{section}-");
            let name = long.strip_prefix(&prefix).unwrap_or(long);
            format!("{section}.{}", name.replace('-', "_"))
        }
        None => long.replace('-', "_"),
    }
}

/// Returns the words for a value on the command line.
fn texts(arg: &Arg, value: &Value) -> Result<Vec<OsString>, &'static str> {
    let text = |value: &Value| match value {
        Value::Boolean(_) if is_bool(arg) => Ok(value.to_string().into()),
        _ if is_bool(arg) => Err("write true or false, without quotes"),
        Value::String(text) => Ok(text.into()),
        Value::Integer(_) | Value::Float(_) => Ok(value.to_string().into()),
        _ => Err("write text in quotes, or a number"),
    };
    match value {
        Value::Array(values) if is_repeatable(arg) => values.iter().map(text).collect(),
        value => text(value).map(|text| vec![text]),
    }
}

fn is_bool(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<bool>()
}

fn is_repeatable(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// Writes the settings of a call to a new file, which only its owner can read.
///
/// # Errors
/// A file that exists or cannot be written, with the remedy.
pub(super) fn generate(command: &Command, given: &ArgMatches, path: &Path) -> Result<(), String> {
    let problem = |problem: &str| format!("--generate-config {}: {problem}", path.display());
    let text = text(command, given).map_err(|error| problem(&error))?;
    let mut new = OpenOptions::new();
    let file = new.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => problem("exists already: name a new file, or remove it"),
        _ => problem(&format!("cannot be written: {error}")),
    })
}

/// Renders the settings of a call: values in use as they are, others as comments.
fn text(command: &Command, given: &ArgMatches) -> Result<String, String> {
    let name = command.get_name();
    let mut text = format!(
        "# Settings of {name}, for {name} --config FILE. An option takes precedence over its environment\n\
        # variable, and the variable over this file.\n"
    );
    let mut settings: Vec<&Arg> = settings(command).collect();
    // Keys without a section come first in TOML. The sort keeps the order of the rest.
    settings.sort_by_key(|arg| section(arg).is_some());
    let mut current = None;
    for arg in settings {
        let section = section(arg);
        if section != current {
            let _ = write!(text, "\n[{}]\n", section.as_deref().unwrap_or_default());
            current = section;
        }
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "\n# {help}");
        let possible = arg.get_possible_values();
        if !possible.is_empty() && !is_bool(arg) {
            let names: Vec<&str> = possible.iter().map(|value| value.get_name()).collect();
            let _ = writeln!(text, "# One of: {}", names.join(", "));
        }
        let key = key(arg);
        let key = key.rsplit('.').next().unwrap_or_default();
        let (value, is_set) = value(arg, given).map_err(|error| format!("{key}: {error}"))?;
        let mark = if is_set { "" } else { "# " };
        let _ = writeln!(text, "{mark}{key} = {value}");
    }
    Ok(text)
}

/// Returns the value of an option, and false if it need not be written: it is absent, or depends on the machine.
fn value(arg: &Arg, given: &ArgMatches) -> Result<(Value, bool), String> {
    let id = arg.get_id().as_str();
    let raw: Vec<&str> = given
        .get_raw(id)
        .into_iter()
        .flatten()
        .map(|text| text.to_str().ok_or("must be UTF-8 to stand in a file"))
        .collect::<Result<_, _>>()?;
    let is_typed = given.value_source(id) != Some(ValueSource::DefaultValue);
    let is_set = !raw.is_empty() && (is_typed || !arg.is_hide_default_value_set());
    let texts = if raw.is_empty() {
        arg.get_value_names()
            .into_iter()
            .flatten()
            .map(|name| name.as_str())
            .collect()
    } else {
        raw
    };
    let mut values = texts.into_iter().map(|text| match text.parse::<i64>() {
        // Leading zeros may mean something.
        Ok(number) if number.to_string() == text => Value::Integer(number),
        _ => Value::String(text.to_owned()),
    });
    let value = if is_bool(arg) {
        Value::Boolean(given.get_one(id).copied().unwrap_or_default())
    } else if is_repeatable(arg) {
        Value::Array(values.collect())
    } else {
        values
            .next()
            .unwrap_or_else(|| Value::String(String::new()))
    };
    Ok((value, is_set))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use clap::{Args, Parser};

    use super::*;
    use crate::cli::DaemonOptions;

    /// Options of all kinds.
    #[derive(Debug, Clone, PartialEq, Parser)]
    #[command(name = "test-daemon")]
    struct Options {
        /// Keep data in this folder
        #[arg(long, value_name = "PATH")]
        data_dir: PathBuf,
        /// Add this host
        #[arg(long = "vhost", default_value = "007,b", value_delimiter = ',')]
        vhosts: Vec<String>,
        /// Take this much memory [default: half]
        #[arg(long, default_value_t = 17, hide_default_value = true)]
        memory: u64,
        /// Begin anyway
        #[arg(long)]
        salvage: bool,
        #[command(flatten)]
        server: Server,
    }

    #[derive(Debug, Clone, PartialEq, Args)]
    #[command(next_help_heading = "Server")]
    struct Server {
        /// Listen on this port
        #[arg(long, default_value_t = 80)]
        http_port: u16,
        /// Log with "quotes" and \backslashes
        #[arg(long, value_name = "LEVEL", value_parser = ["low", "high"])]
        server_level: Option<String>,
    }

    impl DaemonOptions for Options {
        const VARIABLE_PREFIX: &'static str = "FILE_TEST";
    }

    fn words(typed: &str) -> Vec<OsString> {
        let typed = std::iter::once("test-daemon").chain(typed.split_whitespace());
        typed.map(OsString::from).collect()
    }

    /// Returns the text that a call writes, with the options of a file.
    fn generated(file: &str, typed: &str) -> String {
        let command = read(file).unwrap().mut_args(|arg| arg.required(false));
        let given = command.clone().try_get_matches_from(words(typed));
        text(&command, &given.unwrap()).unwrap()
    }

    fn read(file: &str) -> Result<Command, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.toml");
        fs::write(&path, file).unwrap();
        with_file(Options::with_variables(), &path)
    }

    fn parsed(file: &str, typed: &str) -> Options {
        Options::parse_by(read(file).unwrap(), words(typed)).unwrap()
    }

    #[test]
    fn a_generated_file_changes_nothing() {
        let generated = generated("", "");
        let required = "--data-dir d";
        assert_eq!(parsed(&generated, required), parsed("", required));
        for line in [
            "# Keep data in this folder\n# data_dir = \"PATH\"\n",
            "vhost = [\"007\", \"b\"]\n",
            "# memory = 17\n",
            "salvage = false\n\n[server]\n",
            "http_port = 80\n",
            "# One of: low, high\n# level = \"LEVEL\"\n",
        ] {
            assert!(generated.contains(line), "{line} is not in {generated}");
        }
    }

    #[test]
    fn options_are_written_and_read_and_go_before_the_file() {
        let typed =
            "--data-dir a\"b\\c --http-port 5 --server-level high --vhost x --memory 3 --salvage";
        let file = generated("", typed);
        assert_eq!(parsed(&file, ""), parsed("", typed));
        assert_eq!(generated(&file, ""), file);
        let other = parsed(&file, "--http-port 6 --vhost y");
        assert_eq!((other.server.http_port, other.memory), (6, 3));
        assert_eq!(other.vhosts, ["y"]);
    }

    #[test]
    fn a_wrong_entry_is_answered_with_its_key_and_the_remedy() {
        for (file, answer) in [
            ("salvage = 'yes'", ["salvage", "true or false"]),
            ("memory = true", ["memory", "number"]),
            ("memory = 'much'", ["memory", "invalid digit"]),
            ("memory = [1]", ["memory", "number"]),
            ("memory = 1979-05-27", ["memory", "number"]),
            ("vhost = [['a']]", ["vhost", "quotes"]),
            (
                "[server]\nhttp_port = 70000",
                ["server.http_port", "0..=65535"],
            ),
            ("[server]\nlevel = 'x'", ["server.level", "low, high"]),
            ("http_port = 1", ["http_port", "server.http_port"]),
            (
                "[sever]\nhttp_port = 1",
                ["sever.http_port", "server.http_port"],
            ),
            ("config = 'a'", ["config", "data_dir, "]),
            ("memory = 1\na b", ["line 2", "expected"]),
            ("vhost = ['secret', true]", ["vhost: write", "quotes"]),
        ] {
            let error = read(file).unwrap_err();
            let is_named = answer.iter().all(|words| error.contains(words));
            assert!(is_named, "{file}: {error}");
        }
    }

    #[test]
    fn a_file_is_not_replaced_and_is_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.toml");
        let command = Options::with_variables();
        let given = command.clone().try_get_matches_from(words("--data-dir d"));
        let given = given.unwrap();
        generate(&command, &given, &path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = generate(&command, &given, &path).unwrap_err();
        assert!(
            error.contains("new.toml") && error.contains("name a new file"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_everybody_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        fs::write(&path, "a:b,c\n").unwrap();
        let named = format!("@{}", path.display());
        assert_eq!(value_or_file(&named).unwrap(), "a:b,c");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        for error in [
            value_or_file(&named).unwrap_err(),
            with_file(Options::with_variables(), &path).unwrap_err(),
        ] {
            assert!(error.contains("chmod o-w"), "{error}");
        }
        assert_eq!(value_or_file("a@b").unwrap(), "a@b");
        let missing = value_or_file("@/nowhere/users").unwrap_err();
        assert!(missing.contains("/nowhere/users"), "{missing}");
    }
}
