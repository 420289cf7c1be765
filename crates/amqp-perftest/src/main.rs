//! `amqp-perftest`: producers and consumers against an AMQP 0-9-1 broker.

use std::process::ExitCode;

fn main() -> ExitCode {
    amqp_perftest::cli::main()
}
