//! `amqp-perftest conformance`: what an AMQP 0-9-1 broker must answer, case by case, seen from outside.
//!
//! The specification decides, and where it leaves room, or RabbitMQ extends it, what RabbitMQ 3.10 answers. [`cases`]
//! lists the cases by area; `wire`, `connection`, `channel` and `usual` are what they are written with; `report` writes
//! what came out.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, anyhow};
use clap::Args;
use harness::cli::{Failure, of_the_daemon};
use harness::daemon::{Daemon, Options};
use harness::manifest;
use harness::plan::Invalid;
use harness::{clock, output};

mod case;
mod cases;
mod channel;
mod connection;
mod method;
mod report;
mod usual;
mod values;
mod wire;

use crate::session::Broker;
use case::{Case, Scope};
use report::{Finished, Format, Outcome, Report};

/// The protocol, as manifests name it.
const PROTOCOL: &str = "amqp";
/// Cases at a time: most of their time is waiting, the 3 s before all that RabbitMQ waits after a refused login.
const THREADS: NonZeroUsize = NonZeroUsize::new(8).expect("it is not 0");
/// Lines of the log of a daemon that died.
const LOG_LINES: usize = 10;

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
    /// What is written to stdout
    #[arg(long, value_enum, default_value = "tap")]
    format: Format,
    /// Cases whose name contains these words
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// No remarks on stderr
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the cases that were asked for; whether none failed.
///
/// # Errors
/// A call that is wrong, or something that has nothing to do with the broker's answers.
pub(crate) fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
    let cases = selected(typed.only.as_deref())?;
    let report = match (&typed.daemon, &typed.uri) {
        (Some(name), _) => on_launched(name, typed.quiet, &cases)?,
        (None, Some(uri)) => {
            let broker = Broker::parse(uri)?;
            Report {
                cases: finish_all(&broker, &cases),
                broker: Scope::new(&broker).address(),
                version: None,
            }
        }
        (None, None) => {
            let problem = "name a daemon to launch, or the address of a broker that runs (--uri)";
            return Err(Invalid::new("--daemon", problem).into());
        }
    };
    if let Err(error) = output::print(report.render(typed.format).trim_end()) {
        output::remark(&format!("error: writing to stdout: {error}"));
    }
    Ok(report.is_passed())
}

fn selected(only: Option<&str>) -> Result<Vec<Case>, Failure> {
    let mut cases = cases::all();
    if let Some(words) = only {
        let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
        cases.retain(|case| case.name.contains(words));
        if cases.is_empty() {
            let problem = format!(
                "no case has this in its name; there are:\n  {}",
                names.join("\n  ")
            );
            return Err(Invalid::new(format!("--only {words}"), problem).into());
        }
    }
    Ok(cases)
}

fn on_launched(name: &str, quiet: bool, cases: &[Case]) -> Result<Report, Failure> {
    let remark = |text: &str| {
        if !quiet {
            output::remark(text);
        }
    };
    let root = manifest::find_root()
        .context("finding daemons/")
        .map_err(Failure::Call)?;
    let prepared =
        Daemon::prepare(&root, name, PROTOCOL, &mut |step| remark(step)).map_err(of_the_daemon)?;
    remark(&format!("{} cases on {name}", cases.len()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("making a runtime")
        .map_err(Failure::Run)?;
    let mut daemon = runtime
        .block_on(prepared.start(&[], &Options::default()))
        .map_err(of_the_daemon)?;
    let broker = broker_of(&daemon)?;
    let finished = finish_all(&broker, cases);
    let death = daemon.try_exit().map(|status| {
        let log = daemon.last_lines(LOG_LINES);
        anyhow!("{name} {status} while it was asked; the end of its log:\n{log}")
    });
    // How it ends is no case of the protocol; a run of the driver looks at it.
    let _ = runtime.block_on(daemon.stop());
    let report = Report {
        broker: name.to_owned(),
        version: prepared.version().map(str::to_owned),
        cases: finished,
    };
    match death {
        None => Ok(report),
        Some(death) if report.is_passed() => Err(Failure::Run(death)),
        Some(death) => {
            output::remark(&format!("error: {death:#}"));
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
    let began = clock::now();
    let scope = Scope::new(broker);
    let looked = (case.look)(&scope);
    scope.clean();
    Finished {
        name: case.name.clone(),
        outcome: if looked.is_ok() {
            Outcome::Passed
        } else {
            Outcome::Failed
        },
        detail: looked
            .err()
            .map(|error| format!("{error:#}"))
            .unwrap_or_default(),
        ms: (clock::now() - began) / 1_000_000,
    }
}
