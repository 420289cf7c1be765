//! The command `null-broker`.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use harness::cli::exit_with;
use load::plan::Invalid;
use null_broker::Mode;

/// Serve AMQP 0-9-1 with a minimal broker, to measure the maximum rate of a driver on this machine
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Listen on this address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5672")]
    listen: SocketAddr,
    /// Pass messages on through queues (queue), drop them (discard), or send consumers messages without end (stream)
    #[arg(
        long,
        value_name = "MODE",
        default_value = "queue",
        env = "NULL_BROKER_MODE"
    )]
    mode: Mode,
}

fn main() -> ExitCode {
    let Options { listen, mode } = Options::parse();
    let served = null_broker::serve(listen, mode).map_err(|error| {
        let problem = format!("{error}: if the port is in use, name another one");
        Invalid::new(format!("--listen {listen}"), problem).into()
    });
    exit_with(served.map(|()| true))
}
