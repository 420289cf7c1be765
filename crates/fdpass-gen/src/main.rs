//! `fdpass-gen`: a load generator for streaming daemons that take over client sockets.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::cli::main::<fdpass_gen::driver::FdPass>(
        fdpass_gen::cli::job,
        fdpass_gen::reference::json,
    )
}
