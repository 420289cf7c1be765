//! The command line: options with their variables, and what is wrong with them.

use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

/// The exit code of a wrong call, as opposed to 1: what was called went wrong.
pub const WRONG_CALL: u8 = 2;

/// Reads the options of this process; `--help` and `--version` are answered and end it.
///
/// # Errors
/// What to exit with after a wrong call. What is wrong has been said on stderr.
pub fn options<O: Parser>() -> Result<O, ExitCode> {
    O::try_parse().map_err(|error| {
        if !error.use_stderr() {
            // --help and --version.
            error.exit();
        }
        // Nothing can be done about a stderr that is gone.
        let _ = write!(io::stderr(), "{}", name_variable::<O>(&error));
        ExitCode::from(WRONG_CALL)
    })
}

/// Adds the name of the variable to clap's complaint: who set the variable did not type the option.
#[must_use]
pub fn name_variable<O: CommandFactory>(error: &clap::Error) -> String {
    let complaint = error.render().to_string();
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return complaint;
    };
    let mut command = O::command();
    // Arguments cannot be written out before.
    command.build();
    let variable = command
        .get_arguments()
        .find(|known| known.to_string() == *argument)
        .and_then(clap::Arg::get_env);
    match variable {
        Some(name) => format!("{complaint}\nIts variable is {}.\n", name.to_string_lossy()),
        None => complaint,
    }
}

/// Reads host and port; a host with several addresses stands for its first.
///
/// # Errors
/// What is wrong, with an `example` of what is right.
pub fn parse_address(text: &str, example: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}; write host and port, for instance {example}"))?;
    found
        .next()
        .ok_or_else(|| "this host has no address".to_owned())
}
