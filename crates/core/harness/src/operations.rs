//! The shortest way to a driver: a protocol whose clients do one operation after the other. The command line, the plan,
//! the check and the loop are the same for all of them.

use std::fmt::Debug;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use load::driver::{Checked, Description, Driver, Target, Worker};
use load::duration;
use load::event_loop::{self, Operation, Operations};
use load::plan::{Group, Invalid, Plan, Timeline};
use load::workers::WorkerRange;
use measure::spec::Spec;
use measure::tally::Series;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cli::{self, DriverCli, Program, only_group, set_duration};
use crate::failure::Failure;

/// The series of the response time, which is the first of the protocol.
const RESPONSE: Series = Series(0);
/// Limit of an operation of the check.
const CHECK_LIMIT: Duration = Duration::from_secs(10);
/// Descriptors that a rate needs at least: a client is opened whenever none is free.
const DESCRIPTORS: u64 = 100;

/// A protocol whose clients do one operation after the other. Client `number` belongs to the target's address with that
/// index, modulo their number.
pub trait Protocol: Operations + Debug + Send + Sync + Sized + 'static {
    /// Its names, series, errors and counters. The first series is the response time, which the loop records.
    const SPEC: &'static Spec;
    /// The texts of its help, and its default daemon.
    const PROGRAM: Program;
    /// Its settings: the table `driver` of a plan. Each is an option too.
    type Settings: clap::Args
        + Serialize
        + DeserializeOwned
        + Clone
        + PartialEq
        + Debug
        + Send
        + Sync
        + 'static;

    /// Builds everything that operations send.
    ///
    /// # Errors
    /// Something that can't be prepared, such as an address.
    fn setup(settings: &Self::Settings, target: &Target) -> anyhow::Result<Self>;
}

/// Runs the whole program of a protocol.
#[must_use]
pub fn main<P: Protocol>() -> ExitCode {
    cli::main::<Simple<P>>()
}

/// The driver of a protocol.
#[derive(Debug)]
struct Simple<P> {
    protocol: P,
    addresses: Vec<String>,
    /// Clients of each group; 0 in one with a rate.
    clients: Vec<u64>,
}

/// Further options: running daemons, and those that shape the load.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
struct LoadOptions {
    /// Use these running daemons
    #[arg(value_name = "URL", conflicts_with = "daemon")]
    urls: Vec<String>,
    /// Set the number of clients; each begins its next operation when the last has ended (closed loop)
    #[arg(short, long, value_name = "N", conflicts_with = "rate")]
    connections: Option<u64>,
    /// Start this many operations per second (open loop) [default: 100]
    #[arg(short = 'R', long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Measure for this long [default: 10s]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,
}

/// Commands other than a run: there are none.
#[derive(Debug, clap::Subcommand)]
enum NoCommand {}

impl<P: Protocol> Driver for Simple<P> {
    const SPEC: &'static Spec = P::SPEC;
    type Config = P::Settings;
    type Shared = ();

    fn validate(plan: &mut Plan<P::Settings>) -> Result<Description, Invalid> {
        let clients: u64 = plan.groups.iter().map(|group| group.clients).sum();
        let open = clients.max(DESCRIPTORS);
        let sentence = plan.load_sentence();
        Ok(Description::new(plan, P::SPEC, sentence, RESPONSE, open))
    }

    fn setup(
        plan: &Plan<P::Settings>,
        target: &Target,
        _workers: &WorkerRange,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            protocol: P::setup(&plan.driver, target)?,
            addresses: target.addresses.iter().map(ToString::to_string).collect(),
            clients: plan.groups.iter().map(|group| group.clients).collect(),
        })
    }

    /// Runs an operation on each daemon before the load.
    fn check(&self) -> anyhow::Result<Checked> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        for (number, address) in self.addresses.iter().enumerate() {
            let operation = async {
                let mut client = self.protocol.open(number as u64, 0).await?;
                self.protocol.run(&mut client, &Operation::CHECK).await
            };
            let ended =
                runtime.block_on(async { tokio::time::timeout(CHECK_LIMIT, operation).await });
            let outcome = ended.unwrap_or(Err("timeout"));
            outcome.map_err(|kind| anyhow!("an operation on {address} failed: {kind}"))?;
        }
        Ok(Checked::default())
    }

    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        event_loop::operations(&self.protocol, worker, RESPONSE, &self.clients).await
    }
}

impl<P: Protocol> DriverCli for Simple<P> {
    type Options = LoadOptions;
    type Command = NoCommand;
    const PROGRAM: Program = P::PROGRAM;

    fn plan(options: &LoadOptions, settings: P::Settings) -> Plan<P::Settings> {
        let mut group = Group::new("all", options.connections.unwrap_or(0));
        if options.connections.is_none() {
            group.rate = Some(100.0);
        }
        let timeline = Timeline::new(Duration::from_secs(10), Duration::from_secs(5));
        Plan::new("command-line", timeline, vec![group], settings)
    }

    fn apply(options: &LoadOptions, plan: &mut Plan<P::Settings>) -> Result<(), Invalid> {
        if let Some(rate) = options.rate {
            only_group(plan, "--rate", "rate", |group| group.rate.is_some())?.rate = Some(rate);
        }
        if let Some(connections) = options.connections {
            let closed = |group: &Group| group.rate.is_none();
            only_group(plan, "--connections", "clients", closed)?.clients = connections;
        }
        match options.duration {
            Some(duration) => set_duration(plan, duration),
            None => Ok(()),
        }
    }

    fn target(options: &LoadOptions) -> Result<Option<Target>, Failure> {
        let urls = options.urls.clone();
        Ok((!urls.is_empty()).then(|| Target::of_urls(urls)))
    }

    fn run_command(command: NoCommand) -> Result<bool, Failure> {
        match command {}
    }
}
