//! `fdpass-gen`: hands over client sockets to a streaming daemon and measures the streams that come back.

use std::process::ExitCode;

fn main() -> ExitCode {
    fdpass_gen::main(build_version::version!())
}
