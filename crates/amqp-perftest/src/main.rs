//! `amqp-perftest`: measures AMQP 0-9-1 brokers.

use std::process::ExitCode;

fn main() -> ExitCode {
    amqp_perftest::cli::main()
}
