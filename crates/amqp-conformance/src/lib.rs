//! Functional cases for AMQP 0-9-1 brokers, run from outside, over the wire.
//!
//! The reference is the specification and, where it leaves room or RabbitMQ extends it, the behaviour of RabbitMQ 3.10.
//! `cases` lists the cases by area; they are written with `wire`, `connection`, `channel` and `client`.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use amqp_client::Broker;
use anyhow::anyhow;
use clap::Args;
use harness::cli::{Failure, lines_of_files, of_the_daemon};
use harness::conformance::{Finished, Options, Report};
use harness::launcher::{self, Launcher, remark};
use harness::output;
use load::plan::Invalid;
use subject::daemon::Daemon;

mod case;
mod cases;
mod channel;
mod client;
mod connection;
mod method;

mod values;
mod wire;

use case::{Case, Scope};

/// The protocol's name in the manifests of daemons.
const PROTOCOL: &str = "amqp";
/// The number of cases that run at a time: most of their time is waiting, above all the 3 s that RabbitMQ waits after a
/// refused login.
const THREADS: NonZeroUsize = NonZeroUsize::new(8).expect("it is not 0");

/// Options of the command.
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    /// Launch this daemon, named by its folder in daemons/
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "uri",
        required_unless_present = "uri"
    )]
    daemon: Option<String>,
    /// Test a broker that is already running: amqp://user:password@host:port/vhost
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Runs the selected cases. Returns true if none failed.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with the broker's answers.
pub fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
    let options = &typed.options;
    let cases = options.select(cases::all(), |case| &case.name)?;
    let report = match (&typed.daemon, &typed.uri) {
        (Some(name), _) => on_launched(name, options.quiet, &cases)?,
        (None, Some(uri)) => {
            let uri = lines_of_files("--uri", vec![uri.clone()])?.remove(0);
            let broker = Broker::parse(&uri)?;
            Report {
                subject: ("broker", Scope::new(&broker).address()),
                cases: finish_all(&broker, &cases),
                version: None,
            }
        }
        (None, None) => {
            let problem = "name a daemon to launch, or the address of a running broker (--uri)";
            return Err(Invalid::new("--daemon", problem).into());
        }
    };
    report.print(options.format);
    Ok(report.is_passed())
}

fn on_launched(name: &str, quiet: bool, cases: &[Case]) -> Result<Report, Failure> {
    let prepared =
        launcher::prepare(&launcher::root()?, name, PROTOCOL, quiet).map_err(of_the_daemon)?;
    remark(quiet, &format!("{} cases on {name}", cases.len()));
    let launcher = Launcher::new().map_err(Failure::Run)?;
    let daemon = launcher.start(&prepared, &[]).map_err(of_the_daemon)?;
    let broker = broker_of(&daemon)?;
    let report = Report {
        subject: ("broker", name.to_owned()),
        version: prepared.version().map(str::to_owned),
        cases: finish_all(&broker, cases),
    };
    let death = launcher.death(&daemon, !report.is_passed());
    // The driver's runs cover how a daemon stops.
    launcher.stop(daemon);
    match death {
        None => Ok(report),
        Some(death) if report.is_passed() => Err(Failure::Run(anyhow!(death))),
        Some(death) => {
            output::remark(&format!("error: {death}"));
            Ok(report)
        }
    }
}

fn broker_of(daemon: &Daemon) -> Result<Broker, Failure> {
    let url = daemon.endpoint().url.as_deref();
    let missing = || {
        Invalid::new(
            "url",
            "is missing in the daemon's manifest: see daemons/README.md",
        )
    };
    Ok(Broker::parse(url.ok_or_else(missing)?)?)
}

/// Runs the cases, several at a time. Returns them in the order of the list.
fn finish_all(broker: &Broker, cases: &[Case]) -> Vec<Finished> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut finished = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(case) = cases.get(at)
        {
            finished.push((at, finish(broker, case)));
        }
        finished
    };
    let mut finished: Vec<(usize, Finished)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS.get()).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a case fails without a panic"))
            .collect()
    });
    finished.sort_by_key(|(at, _)| *at);
    finished.into_iter().map(|(_, finished)| finished).collect()
}

fn finish(broker: &Broker, case: &Case) -> Finished {
    Finished::run(&case.name, [], || {
        let scope = Scope::new(broker);
        let outcome = (case.run)(&scope);
        scope.clean();
        outcome
    })
}
