//! A complete driver in one file: it connects over TCP, sends a line, and expects the same line back. The page "Adding
//! a driver" of the book shows it piece by piece.

// ANCHOR: uses
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use harness::cli::{DriverCli, Program, only_group, set_duration};
use harness::failure::Failure;
use load::clock;
use load::driver::{Checked, Description, Driver, Target, Worker};
use load::event_loop::{self, AsyncHandler, LoopState, Options};
use load::pacer::Start;
use load::plan::{Group, Invalid, Plan, Timeline};
use load::recorder::WARMUP;
use load::workers::WorkerRange;
use measure::spec::{
    CounterRole, CounterSpec, ErrorCause, ErrorSpec, SeriesRole, SeriesSpec, Spec,
};
use measure::tally::Series;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
// ANCHOR_END: uses

// ANCHOR: spec
/// Time from the instant an operation was due to its whole answer.
const RESPONSE: Series = Series(0);
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
    counters: Cow::Borrowed(&[CounterSpec::new(WARMUP, "warm-up", CounterRole::Warmup)]),
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

/// Further options: running servers, and those that shape the load.
#[derive(Debug, clap::Args)]
struct EchoOptions {
    /// Send lines to this running server, such as 127.0.0.1:7
    #[arg(value_name = "HOST:PORT", conflicts_with = "daemon")]
    server: Option<String>,
    /// Start this many operations per second (open loop) [default: 100]
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Measure for this many seconds [default: 10]
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}
// ANCHOR_END: settings

// ANCHOR: driver
/// The driver.
#[derive(Debug)]
struct Echo {
    servers: Vec<SocketAddr>,
    line: Vec<u8>,
}

impl Driver for Echo {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;
    type Shared = ();

    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        if plan.driver.line.contains('\n') {
            return Err(Invalid::new("driver.line", "has two lines: write one"));
        }
        let sentence = format!("Echo {:?}: {}", plan.driver.line, plan.load_sentence());
        Ok(Description::new(plan, &SPEC, sentence, RESPONSE, 100))
    }

    fn setup(
        plan: &Plan<Settings>,
        target: &Target,
        _workers: &WorkerRange,
    ) -> anyhow::Result<Self> {
        let servers = target.urls().map(|url| {
            let address = url.trim_start_matches("tcp://");
            let parsed = address.parse();
            parsed.with_context(|| format!("{address} is no address: use 127.0.0.1:7"))
        });
        Ok(Self {
            servers: servers.collect::<anyhow::Result<_>>()?,
            line: format!("{}\n", plan.driver.line).into(),
        })
    }

    /// Asks each server once before the load: the time of a wrong answer is worth nothing.
    fn check(&self) -> anyhow::Result<Checked> {
        for server in &self.servers {
            let answer = self
                .ask(server)
                .with_context(|| format!("asking {server}"))?;
            ensure!(answer == self.line, "{server} does not echo");
        }
        Ok(Checked::default())
    }

    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        let state = RefCell::new(LoopState::new(worker, Options::default()));
        let load = Load {
            driver: self,
            state: &state,
            due: RefCell::default(),
            open: Cell::new(0),
            measured: Cell::new(0),
        };
        let next = || Some(load.operate(load.due.borrow_mut().pop_front()?));
        event_loop::run_async(&load, &state, next).await.map(drop)
    }
}

impl Echo {
    /// Sends one line to a server and returns as many bytes of its answer.
    fn ask(&self, server: &SocketAddr) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; self.line.len()];
        let mut stream = std::net::TcpStream::connect(server)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        io::Write::write_all(&mut stream, &self.line)?;
        io::Read::read_exact(&mut stream, &mut answer)?;
        Ok(answer)
    }
}
// ANCHOR_END: driver

// ANCHOR: work
/// One worker's share of the load.
struct Load<'a> {
    driver: &'a Echo,
    state: &'a RefCell<LoopState<()>>,
    /// Operations that have started, and whose future the loop has not taken yet.
    due: RefCell<VecDeque<Start>>,
    /// Operations that have not ended.
    open: Cell<u64>,
    /// Open operations that are measured, and not of the warm-up.
    measured: Cell<u64>,
}

impl Load<'_> {
    /// Performs one operation and records it.
    async fn operate(&self, start: Start) {
        let ended = self.exchange(start).await;
        let now = clock::now();
        let state = &mut *self.state.borrow_mut();
        let record = &state.record;
        match (state.phases.counts(start.at), ended) {
            (true, Ok(sent)) => {
                // From the instant it was due: a late driver and a slow server both count.
                record.value(RESPONSE, now - start.at);
                record.value(SERVICE, now - sent);
                record.ok();
            }
            (true, Err(kind)) => record.error(kind),
            (false, ended) => {
                record.count(WARMUP, 1);
                match ended {
                    Ok(_) => record.ok_of_warmup(1),
                    Err(_) => record.error_of_warmup(),
                }
            }
        }
        self.count_open(start, state, -1);
        // The client of a closed loop goes on with its next operation.
        if let Some(next) = state.next_of_client(start, now) {
            self.count_open(next, state, 1);
            self.due.borrow_mut().push_back(next);
        }
        state.wake();
    }

    /// Sends the line and reads it back. Returns the time of sending, or the kind of the failure.
    async fn exchange(&self, start: Start) -> Result<u64, &'static str> {
        let server = self.driver.servers[start.index as usize % self.driver.servers.len()];
        let mut stream = TcpStream::connect(server).await.map_err(|_| "connect")?;
        let sent = clock::now();
        let mut answer = vec![0; self.driver.line.len()];
        stream
            .write_all(&self.driver.line)
            .await
            .map_err(|_| "broken")?;
        stream.read_exact(&mut answer).await.map_err(|_| "broken")?;
        (answer == self.driver.line)
            .then_some(sent)
            .ok_or("content")
    }

    fn count_open(&self, start: Start, state: &LoopState<()>, by: i64) {
        let add = |count: &Cell<u64>| count.set(count.get().saturating_add_signed(by));
        add(&self.open);
        if state.phases.counts(start.at) {
            add(&self.measured);
        }
    }
}

impl AsyncHandler for Load<'_> {
    type Timer = ();

    fn start(&self, start: Start, state: &mut LoopState<()>) {
        self.count_open(start, state, 1);
        self.due.borrow_mut().push_back(start);
    }

    fn is_idle(&self, _state: &LoopState<()>) -> bool {
        self.open.get() == 0
    }

    fn give_up(&self, state: &mut LoopState<()>) -> anyhow::Result<()> {
        state.record.unfinished_many(self.measured.get());
        Ok(())
    }
}
// ANCHOR_END: work

// ANCHOR: cli
/// Commands other than a run: this driver has none.
#[derive(Debug, clap::Subcommand)]
enum NoCommand {}

impl DriverCli for Echo {
    type Options = EchoOptions;
    type Command = NoCommand;
    const PROGRAM: Program = Program {
        embedded: "echo-python",
        about: "Send lines to an echo server and expect them back",
        examples: &[("--rate 500", "500 lines a second")],
        failed: "a line or the run failed",
        ..Program::UNKNOWN
    };

    fn plan(_options: &EchoOptions, settings: Settings) -> Plan<Settings> {
        let group = Group {
            rate: Some(100.0),
            ..Group::new("open", 0)
        };
        let timeline = Timeline::new(Duration::from_secs(10), Duration::from_secs(5));
        Plan::new("command-line", timeline, vec![group], settings)
    }

    fn apply(options: &EchoOptions, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        if let Some(rate) = options.rate {
            only_group(plan, "--rate", "rate", |group| group.rate.is_some())?.rate = Some(rate);
        }
        match options.seconds {
            Some(seconds) => set_duration(plan, Duration::from_secs(seconds)),
            None => Ok(()),
        }
    }

    fn target(
        options: &EchoOptions,
        _plan: &mut Plan<Settings>,
    ) -> Result<Option<Target>, Failure> {
        let server = options.server.clone();
        Ok(server.map(|server| Target::of_urls(vec![server])))
    }

    fn run_command(command: NoCommand) -> Result<bool, Failure> {
        match command {}
    }
}

fn main() -> ExitCode {
    harness::cli::main::<Echo>()
}
// ANCHOR_END: cli
