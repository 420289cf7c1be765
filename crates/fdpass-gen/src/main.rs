//! `fdpass-gen`: hands over client sockets to a streaming daemon and measures the streams that come back.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::cli::main::<fdpass_gen::driver::FdPass>()
}
