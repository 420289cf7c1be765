//! The command `amqp-conformance`.

use std::process::ExitCode;

use amqp_conformance::ConformanceArgs;
use clap::Parser;
use harness::cli::exit_with;
use harness::verify::EXIT_CODES;

/// Run functional cases against an AMQP 0-9-1 broker and report those that it fails.
///
/// Each case tests one rule of AMQP 0-9-1 or, where the specification leaves room, the behaviour of RabbitMQ 3.10,
/// including reply codes. The broker must accept the user guest from this machine. The cases delete only what they have
/// declared.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    conformance: ConformanceArgs,
}

fn main() -> ExitCode {
    exit_with(amqp_conformance::run(&Cli::parse().conformance))
}
