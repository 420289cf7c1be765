//! The command line: options of `perf-test` and PerfTest, in GNU spelling.

use std::ffi::OsString;

use clap::Args;
use harness::cli::{DriverCli, Program, lines_of_files};
use harness::failure::Failure;
use load::driver::Target;
use load::plan::{Invalid, Plan};

use crate::check::Command;
use crate::driver::Perftest;
use crate::settings::Settings;

mod options;
mod perftest;
mod values;

use options::{LoadOptions, MessageOptions};

/// Default address of a broker.
pub(crate) const LOCAL: &str = "amqp://guest:guest@localhost:5672/";

/// Options of a run.
#[derive(Debug, Args)]
pub struct Options {
    /// Connect to a running broker; without a value to the local one. It is amqp://guest:guest@localhost:5672/. @FILE reads addresses from a
    /// file. With several nodes of one broker, connections are spread round robin, and a lost connection is retried at
    /// the next node
    #[arg(long, alias = "uris", value_name = "URI[,URI…]", num_args = 0..=1, default_missing_value = LOCAL, value_delimiter = ',', conflicts_with = "daemon")]
    uri: Vec<String>,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    messages: MessageOptions,
}

impl DriverCli for Perftest {
    type Options = Options;
    type Command = Command;
    const PROGRAM: Program = Program {
        embedded: "broker-daemon",
        about: "Load-test an AMQP 0-9-1 broker with producers and consumers, accounting for every message\n\nWithout --uri, a broker is built, launched on a fresh port, and stopped at the end. PerfTest's short options are accepted: -h before an address means --uri, -q before a number means --prefetch. PerfTest's --rate is per producer; here --rate is the total of all producers.",
        examples: &[
            (
                "--uri amqp://localhost:5672/ -x 2 -y 4",
                "2 producers and 4 consumers, as fast as the broker allows",
            ),
            (
                "--daemon rabbitmq --rate 5000 --confirm 100 --persistent",
                "5,000 persistent messages per second, each confirmed",
            ),
            (
                "--queue-pattern q-%d --queue-pattern-to 10 -x 10 -y 10",
                "10 queues",
            ),
            (
                "--producers 0 --predeclared -u orders --exit-when empty",
                "drain an existing queue",
            ),
            ("--churn connection -x 10", "open and close connections"),
            ("--plan configs/amqp/restart.toml", "run a plan file"),
            ("check", "verify the answers of all brokers"),
            (
                "conformance amqp://localhost:5672/",
                "run the functional cases on one broker",
            ),
        ],
        failed: "a message was lost or refused, or the run failed",
        suspect: "suspect results (a message was duplicated, out of order or unfinished)",
        main: &[
            "uri",
            "producers",
            "consumers",
            "rate",
            "duration",
            "pmessages",
            "size",
            "confirm",
            "persistent",
            "queue",
            "prefetch",
            "auto_ack",
            "churn",
        ],
        ..Program::UNKNOWN
    };

    fn words(typed: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        perftest::words(typed)
    }

    fn plan(_options: &Options, settings: Settings) -> Plan<Settings> {
        options::plan(settings)
    }

    fn apply(options: &Options, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        options.messages.apply(&mut plan.driver);
        options.load.apply(plan)
    }

    /// Chooses the engine, so that plan and result name it.
    fn complete(_target: Option<&Target>, plan: &mut Plan<Settings>) -> Result<(), Failure> {
        plan.driver.engine = plan.driver.engine.chosen();
        Ok(())
    }

    fn target(options: &Options) -> Result<Option<Target>, Failure> {
        let uri = lines_of_files("--uri", options.uri.clone())?;
        Ok((!uri.is_empty()).then(|| Target::of_urls(uri)))
    }

    fn run_command(command: Command) -> Result<bool, Failure> {
        command.run()
    }
}
