//! A complete driver in one file: it connects over TCP, sends a line, and expects the same line back. The page "Adding
//! a driver" of the book shows it piece by piece.

// ANCHOR: uses
use std::borrow::Cow;
use std::process::ExitCode;

use harness::cli::Program;
use harness::operations::Protocol;
use load::clock;
use load::driver::Target;
use load::event_loop::{Operation, Operations};
use measure::spec::{CounterSpec, ErrorCause, ErrorSpec, SeriesRole, SeriesSpec, Spec};
use measure::tally::Series;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
// ANCHOR_END: uses

// ANCHOR: spec
/// Time from sending the line to its whole answer.
const SERVICE: Series = Series(1);

static SPEC: Spec = Spec {
    driver: Cow::Borrowed("echo-load"),
    protocol: Cow::Borrowed("echo"),
    series: Cow::Borrowed(&[
        SeriesSpec::new("response", SeriesRole::Headline),
        SeriesSpec::new("service", SeriesRole::Main),
    ]),
    errors: Cow::Borrowed(&[
        ErrorSpec::new("connect", ErrorCause::Fault),
        ErrorSpec::new("broken", ErrorCause::Fault),
        ErrorSpec::new("content", ErrorCause::Failure),
    ]),
    counters: Cow::Borrowed(&[CounterSpec::WARMUP]),
    ..Spec::UNKNOWN
};
// ANCHOR_END: spec

// ANCHOR: settings
/// The `[driver]` table of a plan. Each field is an option too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Send this line
    #[arg(long, value_name = "TEXT", default_value = "hello")]
    line: String,
}
// ANCHOR_END: settings

// ANCHOR: driver
#[derive(Debug)]
struct Echo {
    servers: Vec<String>,
    line: Vec<u8>,
}

impl Protocol for Echo {
    const SPEC: &'static Spec = &SPEC;
    const PROGRAM: Program = Program {
        embedded: "echo-python",
        about: "Send lines to an echo server and expect them back",
        examples: &[("--rate 500", "500 lines a second")],
        failed: "a line or the run failed",
        ..Program::UNKNOWN
    };
    type Settings = Settings;

    fn setup(settings: &Settings, target: &Target) -> anyhow::Result<Self> {
        let servers = target.urls().map(|url| url.trim_start_matches("tcp://"));
        Ok(Self {
            servers: servers.map(str::to_owned).collect(),
            line: format!("{}\n", settings.line).into(),
        })
    }
}
// ANCHOR_END: driver

// ANCHOR: operations
impl Operations for Echo {
    type Client = TcpStream;

    async fn open(&self, number: u64, _group: usize) -> Result<TcpStream, &'static str> {
        let server = &self.servers[number as usize % self.servers.len()];
        TcpStream::connect(server).await.map_err(|_| "connect")
    }

    async fn run(&self, stream: &mut TcpStream, operation: &Operation) -> Result<(), &'static str> {
        let sent = clock::now();
        let mut answer = vec![0; self.line.len()];
        stream.write_all(&self.line).await.map_err(|_| "broken")?;
        let read = stream.read_exact(&mut answer).await;
        read.map_err(|_| "broken")?;
        if answer != self.line {
            return Err("content");
        }
        operation.value(SERVICE, clock::now() - sent);
        Ok(())
    }
}

fn main() -> ExitCode {
    harness::operations::main::<Echo>()
}
// ANCHOR_END: operations
