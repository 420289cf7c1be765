//! `amqp-perftest conformance`: what an AMQP 0-9-1 broker must answer, case by case, seen from outside.
//!
//! The specification decides, and where it leaves room, or RabbitMQ extends it, what RabbitMQ 3.10 answers. [`cases`]
//! lists the cases by area; `wire`, `connection`, `channel` and `usual` are what they are written with.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::anyhow;
use clap::Args;
use harness::cli::{Failure, lines_of_files, of_the_daemon};
use harness::conformance::{Finished, Options, Report};
use harness::daemon::Daemon;
use harness::driver::Driver as _;
use harness::launcher::{self, Launcher, remark};
use harness::output;
use harness::plan::Invalid;

mod case;
mod cases;
mod channel;
mod connection;
mod method;
mod usual;
mod values;
mod wire;

use crate::driver::Perftest;
use crate::session::Broker;
use case::{Case, Scope};

/// Cases at a time: most of their time is waiting, the 3 s before all that RabbitMQ waits after a refused login.
const THREADS: NonZeroUsize = NonZeroUsize::new(8).expect("it is not 0");

/// Options of `conformance`.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// Daemon to launch, by the name of its folder in daemons/
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "uri",
        required_unless_present = "uri"
    )]
    daemon: Option<String>,
    /// Broker that runs already: amqp://user:password@host:port/vhost
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
    #[command(flatten)]
    options: Options,
}

/// Runs the cases that were asked for; whether none failed.
///
/// # Errors
/// A call that is wrong, or something that has nothing to do with the broker's answers.
pub(crate) fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
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
            let problem = "name a daemon to launch, or the address of a broker that runs (--uri)";
            return Err(Invalid::new("--daemon", problem).into());
        }
    };
    report.print(options.format);
    Ok(report.is_passed())
}

fn on_launched(name: &str, quiet: bool, cases: &[Case]) -> Result<Report, Failure> {
    let prepared = launcher::prepare(&launcher::root()?, name, Perftest::PROTOCOL, quiet)
        .map_err(of_the_daemon)?;
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
    // How it ends is no case of the protocol; a run of the driver looks at it.
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
            "the daemon's manifest has none, see daemons/README.md",
        )
    };
    Ok(Broker::parse(url.ok_or_else(missing)?)?)
}

/// Some at a time, in the order in which they are listed.
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
    Finished::of(&case.name, [], || {
        let scope = Scope::new(broker);
        let looked = (case.look)(&scope);
        scope.clean();
        looked
    })
}
