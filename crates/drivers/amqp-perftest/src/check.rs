//! The command `check`: smoke cases on real brokers.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use harness::cli::lines_of_files;
use harness::failure::Failure;
use harness::verify::EXIT_CODES;
use harness::verify::check::{self, Finding};

use crate::cli::LOCAL;
use crate::spec::SPEC;
use amqp_client::Broker;

/// Commands other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Perform every operation of this driver on real brokers and verify the answers
    ///
    /// Without arguments, every daemon in daemons/ that serves amqp is built, launched and checked. A daemon whose tool
    /// is missing is skipped, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = EXIT_CODES)]
    Check(CheckArgs),
    /// Run the conformance cases on any broker and report those it fails
    ///
    /// Each case tests one rule of AMQP 0-9-1 or, where the specification leaves room, the behaviour of RabbitMQ 3.10,
    /// including reply codes. The cases delete only what they have declared.
    #[command(after_help = EXIT_CODES)]
    Conformance(amqp_conformance::ConformanceArgs),
}

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    options: check::DaemonsToCheck,
    /// Check brokers that are already running
    #[arg(value_name = "URI", conflicts_with_all = ["daemon", "uri"])]
    uris: Vec<String>,
    /// Check a running broker at this address instead [without a value: amqp://guest:guest@localhost:5672/]
    #[arg(long, value_name = "URI", num_args = 0..=1, default_missing_value = LOCAL, conflicts_with = "daemon")]
    uri: Option<String>,
}

impl Command {
    /// Runs the command. Returns true if all brokers answered correctly.
    pub(crate) fn run(self) -> Result<bool, Failure> {
        match self {
            Self::Check(typed) => typed.run(),
            Self::Conformance(typed) => amqp_conformance::run(&typed),
        }
    }
}

impl CheckArgs {
    /// Checks brokers with the smoke cases of the conformance suite.
    fn run(self) -> Result<bool, Failure> {
        let Self { options, uris, uri } = self;
        let uris = lines_of_files("--uri", uris.into_iter().chain(uri).collect())?;
        if uris.is_empty() {
            return check::check_daemons(&SPEC.protocol, &options, |name, endpoint| {
                let url = endpoint.url.as_deref();
                let url = url.context("its manifest has no `url`");
                vec![check_broker(name, url)]
            });
        }
        let mut checked = uris
            .iter()
            .map(|uri| check::print(&[check_broker(uri, Ok(uri))]));
        checked.try_fold(true, |all_right, is_right| Ok(is_right? && all_right))
    }
}

fn check_broker(name: &str, url: anyhow::Result<&str>) -> Finding {
    Finding {
        name: name.to_owned(),
        found: url.and_then(|url| amqp_conformance::smoke(&Broker::parse(url)?)),
    }
}
