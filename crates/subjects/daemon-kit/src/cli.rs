//! The command line: options, their environment variables, and messages for the user.

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::net::{AddrParseError, SocketAddr, ToSocketAddrs as _};
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command, Parser};

mod config_file;

pub use self::config_file::value_or_file;
use self::config_file::{CONFIG, GENERATE};

/// The exit code for wrong usage. Failures of the daemon itself exit with 1.
const WRONG_CALL: u8 = 2;

/// The command line of a daemon.
///
/// The environment variable of an option is derived from its name: with the prefix `BROKER`, the one of
/// `--max-connections` is `BROKER_MAX_CONNECTIONS`. An option may name another one.
pub trait DaemonOptions: Parser {
    /// The prefix of the variables, without the underscore.
    const VARIABLE_PREFIX: &'static str;

    /// Returns the command, with the options for its configuration file and the variables of its options.
    #[must_use]
    fn with_variables() -> Command {
        let config = "Read settings from this TOML file. An option takes precedence over its environment variable, and the variable over the file";
        let generate = "Write the settings of this call, with their explanations, to a new TOML file for --config, and end";
        let command = Self::command().next_help_heading(None::<&'static str>);
        let command = command.arg(config_file::option(CONFIG, config));
        let command = command.mut_args(|argument| {
            let argument = match (argument.get_long(), argument.get_env()) {
                (Some(name), None) => {
                    let name = name.replace('-', "_").to_uppercase();
                    argument.env(format!("{}_{name}", Self::VARIABLE_PREFIX))
                }
                _ => argument,
            };
            // They may be passwords.
            argument.hide_env_values(true)
        });
        command.arg(config_file::option(GENERATE, generate))
    }

    /// Parses arguments; the first is the program.
    ///
    /// # Errors
    /// A wrong option or variable, or a request for help or the version.
    fn parse_with_variables<A>(arguments: impl IntoIterator<Item = A>) -> Result<Self, clap::Error>
    where
        A: Into<OsString> + Clone,
    {
        Self::parse_by(Self::with_variables(), arguments)
    }

    /// Parses arguments by a command made of [`with_variables`](Self::with_variables).
    ///
    /// # Errors
    /// As [`parse_with_variables`](Self::parse_with_variables).
    fn parse_by<A>(
        mut command: Command,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self, clap::Error>
    where
        A: Into<OsString> + Clone,
    {
        let mut matches = command.try_get_matches_from_mut(arguments)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }
}

/// Parses the options of this process. `--help` and `--version`, which is `version`, print their text and end the
/// process.
///
/// # Errors
/// The exit code: for wrong usage, whose error message was already printed to stderr, or of `--generate-config`.
pub fn parse_args<O: DaemonOptions>(version: &'static str) -> Result<O, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut command = O::with_variables().version(version);
    let name = command.get_name().to_owned();
    if let Some(path) = config_file::file_of(CONFIG, &command, &words) {
        command = config_file::with_file(command, &path).map_err(|problem| {
            let prefix = O::VARIABLE_PREFIX;
            let problem = format!("--config ({prefix}_CONFIG) {}: {problem}", path.display());
            wrong_call(&name, &problem)
        })?;
    }
    if let Some(path) = config_file::file_of(GENERATE, &command, &words) {
        let command = command.mut_args(|arg| arg.required(false));
        let given = command.clone().try_get_matches_from(words);
        let given = given.map_err(|error| refuse::<O>(&error))?;
        let written = config_file::generate(&command, &given, &path);
        written.map_err(|problem| wrong_call(&name, &problem))?;
        return Err(ExitCode::SUCCESS);
    }
    O::parse_by(command, words).map_err(|error| refuse::<O>(&error))
}

/// Prints an error of clap. Help and the version are printed as well, and end the process.
fn refuse<O: DaemonOptions>(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        error.exit();
    }
    // A closed stderr leaves no way to report the error.
    let _ = write!(io::stderr(), "{}", name_variable::<O>(error));
    ExitCode::from(WRONG_CALL)
}

/// Adds the name of the environment variable to clap's error message: the user may have set the variable rather than
/// the flag. Replaces what the standard library says about numbers and addresses by what to write.
#[must_use]
pub fn name_variable<O: DaemonOptions>(error: &clap::Error) -> String {
    let mut message = error.render().to_string();
    if let Some(source) = error.source()
        && let Some(remedy) = remedy(source)
    {
        message = message.replace(&source.to_string(), remedy);
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return message;
    };
    let mut command = O::with_variables();
    // Arguments can be formatted only after the build.
    command.build();
    let variable = command
        .get_arguments()
        .find(|known| known.to_string() == *argument)
        .and_then(Arg::get_env);
    match variable {
        Some(name) => format!(
            "{message}\nIt can also be set by the environment variable {}.\n",
            name.to_string_lossy()
        ),
        None => message,
    }
}

fn remedy(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if error.is::<AddrParseError>() {
        return Some("write an IP address, such as 127.0.0.1 or ::1");
    }
    let number = error.downcast_ref::<ParseIntError>()?;
    Some(match number.kind() {
        IntErrorKind::PosOverflow => "write a smaller number",
        IntErrorKind::Zero => "write a whole number above 0",
        _ => "write a whole number, such as 1",
    })
}

/// Options of several daemons. Each sets its own defaults with `#[command(mut_arg(…))]`.
#[derive(Debug, Clone, Args)]
pub struct CommonOptions {
    /// Serve /metrics and /healthz on this address
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_metrics_address)]
    pub metrics_addr: Option<SocketAddr>,

    /// Let clients finish for up to this long after SIGTERM, SIGINT or SIGHUP, such as 10s; a second signal ends them at once
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_grace)]
    pub shutdown_grace: Duration,
}

fn parse_metrics_address(text: &str) -> Result<SocketAddr, String> {
    parse_address(text, "127.0.0.1:9090")
}

/// Parses a duration, or a number of seconds.
fn parse_grace(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => {
            parse_duration(text).map_err(|_| "write a duration, such as 10s or 1m30s".to_owned())
        }
    }
}

/// Parses a duration of one or more numbers, each with its unit: `50ms`, `1m30s`, `1.5h`. Only zero needs no unit.
///
/// # Errors
/// An explanation with examples, for the user.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| {
        format!("`{text}` is not a duration: write for instance 50ms, 5625ms, 1m30s or 0")
    })
}

/// Parses host and port. For a host with several addresses, the first one is used.
///
/// # Errors
/// The problem, with an `example` of a valid address.
pub fn parse_address(text: &str, example: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}: write HOST:PORT, for example {example}"))?;
    found
        .next()
        .ok_or_else(|| "the host has no address: check its name".to_owned())
}

/// Prints a message for the user on stderr, after the name of the program.
pub fn print_note(program: &str, message: impl Display) {
    // A closed stderr cannot be handled.
    let _ = writeln!(io::stderr(), "{program}: {message}");
}

/// Parses the path of a Unix socket.
pub fn socket_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.as_os_str().as_encoded_bytes().starts_with(b"@") {
            return Err(
                "abstract sockets (@…) are not supported: name a file, for instance /run/daemon.sock",
            );
        }
        Ok(path)
    })
}

/// Prints an error in options, and returns its exit code.
#[must_use]
pub fn wrong_call(program: &str, message: &str) -> ExitCode {
    print_note(program, message);
    ExitCode::from(WRONG_CALL)
}

/// Prints an error, if there is one, and returns the exit code of the process.
#[must_use]
pub fn exit_code(program: &str, result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_note(program, format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::num::NonZeroU64;

    use super::*;

    /// Test options.
    #[derive(Debug, Parser)]
    #[command(mut_arg("metrics_addr", |address| address.default_value("127.0.0.1:9090")))]
    struct Options {
        #[command(flatten)]
        common: CommonOptions,
        #[arg(long, default_value = "5")]
        max_connections: NonZeroU64,
        #[arg(long)]
        bind: Option<IpAddr>,
        #[arg(long, env = "OTHER_NAME")]
        socket: Option<String>,
    }

    impl DaemonOptions for Options {
        const VARIABLE_PREFIX: &'static str = "TEST_DAEMON";
    }

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        let all = ["test-daemon"].iter().chain(arguments);
        Options::parse_with_variables(all).map_err(|error| name_variable::<Options>(&error))
    }

    #[test]
    fn variables_have_the_names_of_the_options() {
        let command = Options::with_variables();
        let mut variables: Vec<_> = command
            .get_arguments()
            .filter_map(|argument| argument.get_env()?.to_str())
            .collect();
        variables.sort_unstable();
        assert_eq!(
            variables,
            [
                "OTHER_NAME",
                "TEST_DAEMON_BIND",
                "TEST_DAEMON_CONFIG",
                "TEST_DAEMON_MAX_CONNECTIONS",
                "TEST_DAEMON_METRICS_ADDR",
                "TEST_DAEMON_SHUTDOWN_GRACE"
            ]
        );
    }

    #[test]
    fn the_help_names_variables_without_their_values() {
        let command = Options::with_variables();
        let mut variables = command.get_arguments().filter(|it| it.get_env().is_some());
        assert!(variables.all(Arg::is_hide_env_values_set));
    }

    #[test]
    fn an_error_names_the_option_the_variable_and_a_remedy() {
        let number = |remedy| ["--max-connections", "TEST_DAEMON_MAX_CONNECTIONS", remedy];
        for (arguments, words) in [
            (
                ["--metrics-addr", "9090"],
                [
                    "--metrics-addr",
                    "TEST_DAEMON_METRICS_ADDR",
                    "127.0.0.1:9090",
                ],
            ),
            (
                ["--shutdown-grace", "soon"],
                ["--shutdown-grace", "TEST_DAEMON_SHUTDOWN_GRACE", "10s"],
            ),
            (["--max-connections", "many"], number("a whole number")),
            (["--max-connections", "1e9"], number("a whole number")),
            (["--max-connections", "0"], number("above 0")),
            (
                ["--max-connections", "99999999999999999999"],
                number("smaller"),
            ),
            (
                ["--bind", "here"],
                ["--bind", "TEST_DAEMON_BIND", "127.0.0.1 or"],
            ),
        ] {
            let error = parse(&arguments).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn a_daemon_sets_the_defaults_of_the_common_options() {
        let options = parse(&[]).unwrap();
        assert_eq!(
            options.common.metrics_addr,
            Some(SocketAddr::from(([127, 0, 0, 1], 9090)))
        );
        assert_eq!(options.common.shutdown_grace, Duration::from_secs(10));
        assert_eq!((options.max_connections.get(), options.socket), (5, None));
    }

    #[test]
    fn the_grace_period_is_a_duration_or_a_number_of_seconds() {
        for (text, millis) in [
            ("10", 10_000),
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("5ms", 5),
        ] {
            let options = parse(&["--shutdown-grace", text]).unwrap();
            assert_eq!(options.common.shutdown_grace.as_millis(), millis, "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("5625ms", 5_625_000_000),
            ("1.5s", 1_500_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("7µs", 7_000),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_nanos(), nanos, "{text}");
        }
        for text in ["", "5", "ms", "-1s", "1.2.3s", "1e3s", "s1"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("50ms"), "{text}: {error}");
        }
    }
}
