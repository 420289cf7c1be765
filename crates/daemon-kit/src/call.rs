//! The command line: options, their environment variables, and error messages.

use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

/// The exit code for wrong usage. Failures of the daemon itself exit with 1.
pub const WRONG_CALL: u8 = 2;

/// Parses the options of this process. `--help` and `--version` print their text and end the process.
///
/// # Errors
/// The exit code for wrong usage. The error message was already printed to stderr.
pub fn options<O: Parser>() -> Result<O, ExitCode> {
    O::try_parse().map_err(|error| {
        if !error.use_stderr() {
            // --help and --version.
            error.exit();
        }
        // A closed stderr leaves no way to report the error.
        let _ = write!(io::stderr(), "{}", name_variable::<O>(&error));
        ExitCode::from(WRONG_CALL)
    })
}

/// Adds the name of the environment variable to clap's error message: the user may have set the variable rather than
/// the flag.
#[must_use]
pub fn name_variable<O: CommandFactory>(error: &clap::Error) -> String {
    let message = error.render().to_string();
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return message;
    };
    let mut command = O::command();
    // Arguments can be formatted only after the build.
    command.build();
    let variable = command
        .get_arguments()
        .find(|known| known.to_string() == *argument)
        .and_then(clap::Arg::get_env);
    match variable {
        Some(name) => format!(
            "{message}\nIt can also be set by the environment variable {}.\n",
            name.to_string_lossy()
        ),
        None => message,
    }
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
