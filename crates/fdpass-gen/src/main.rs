//! `fdpass-gen`: a load generator for streaming daemons that take over client sockets.

use std::process::ExitCode;

fn main() -> ExitCode {
    fdpass_gen::cli::main()
}
