//! Functional cases for AMQP 0-9-1 brokers, run from outside, over the wire.
//!
//! The reference is the specification and, where it leaves room or RabbitMQ extends it, the behaviour of RabbitMQ 3.10.
//! `cases` lists the cases by area; they are written with `wire`, `connection`, `channel` and `client`.

use std::slice::from_ref;

use amq_protocol::uri::AMQPScheme;
use amqp_client::{Broker, Session};
use clap::Args;
use harness::failure::Failure;
use harness::launcher::Launcher;
use harness::verify::conformance::{Finished, Options, Source, Suite, in_parallel, survived, url};
use load::plan::Invalid;
use subject::daemon::Prepared;

mod case;
mod cases;
mod channel;
mod connection;
mod method;
mod script;
mod steps;
mod wire;
mod words;

use case::{Case, Scope};

/// The protocol's name in the manifests of daemons.
const PROTOCOL: &str = "amqp";
/// The number of cases that run at a time: most of their time is waiting, above all the 3 s that RabbitMQ waits after a
/// refused login.
const THREADS: usize = 8;

/// Options of the command.
#[derive(Debug, Args)]
pub struct ConformanceArgs {
    #[command(flatten)]
    options: Options,
    /// Test a broker that is already running: amqp://user:password@host:port/vhost
    #[arg(long, value_name = "URI", conflicts_with = "daemon")]
    uri: Option<String>,
}

fn suite() -> Suite<Case> {
    Suite {
        protocol: PROTOCOL,
        subject: "broker",
        cases: cases::all(),
        name: |case| &case.name,
    }
}

/// Runs the selected cases. Returns true if none failed.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with the broker's answers.
pub fn run(typed: &ConformanceArgs) -> Result<bool, Failure> {
    let uris = typed.options.addresses("--uri", typed.uri.as_slice())?;
    if uris.len() > 1 {
        let problem = "is given more than once: give the address of one broker";
        return Err(Invalid::new("--uri", problem).into());
    }
    let running = uris.first().map(|uri| -> Result<_, Failure> {
        let broker = Broker::parse(uri)?;
        refuse_tls(&broker)?;
        Ok((broker.address(), broker))
    });
    suite().run(
        &typed.options,
        running.transpose()?,
        |source, cases| match source {
            Source::Launched(prepared) => on_launched(prepared, cases),
            Source::Running(broker) => Ok(finish_all(&broker, cases)),
        },
    )
}

/// Performs the operations that every client needs, one after the other. Returns the number of cases as text.
///
/// # Errors
/// The failed cases, each with its reason.
pub fn smoke(broker: &Broker) -> anyhow::Result<String> {
    refuse_tls(broker)?;
    // A broker that does not answer fails once, with a remedy, instead of in every case.
    let session = Session::open(broker, None).map_err(|error| broker.explain(&error))?;
    session.close();
    suite().smoke(&cases::SMOKE, |case| attempt(broker, case))
}

fn refuse_tls(broker: &Broker) -> Result<(), Invalid> {
    let problem = "the cases use no TLS: give the amqp:// address of the broker";
    match broker.uri.scheme {
        AMQPScheme::AMQP => Ok(()),
        AMQPScheme::AMQPS => Err(Invalid::new("--uri", problem)),
    }
}

fn on_launched(prepared: &Prepared, cases: &[Case]) -> Result<Vec<Finished>, Failure> {
    let launcher = Launcher::new().map_err(Failure::Run)?;
    launcher.with(prepared, &[], |daemon| {
        let broker = Broker::parse(url(daemon)?)?;
        survived(&launcher, from_ref(daemon), finish_all(&broker, cases))
    })?
}

/// Runs the cases, several at a time. Returns them in the order of the list.
fn finish_all(broker: &Broker, cases: &[Case]) -> Vec<Finished> {
    in_parallel(THREADS, cases, |case| {
        Finished::run(&case.name, [], || attempt(broker, case))
    })
}

fn attempt(broker: &Broker, case: &Case) -> anyhow::Result<()> {
    let scope = Scope::new(broker);
    let outcome = (case.run)(&scope);
    scope.clean();
    outcome
}
