//! What is typed, and what becomes of it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use harness::cli::Failure;

use crate::resolve::Changes;
use crate::{exit, run};

/// Run drivers over daemons, levels and repetitions, and compare what came out.
#[derive(Debug, Parser)]
#[command(name = "drover", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a run failed, 2 the call or a plan is wrong, \
    3 results are suspect or were interrupted, 4 a threshold was missed.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the suite of each plan: all daemons at all levels, as often as asked
    ///
    /// A suite that was cut short is continued by the same command: runs whose result is there are not made again.
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// Plans with a [suite], such as configs/fdpass/quick.toml
    #[arg(required = true, value_name = "PLAN")]
    plans: Vec<PathBuf>,
    /// Daemons in place of the plan's
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    daemon: Vec<String>,
    /// Only these levels of the plan
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    level: Vec<String>,
    /// Runs of each daemon at each level
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Change a field of the plan, such as timeline.measure=10s
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Folder of results
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    out: PathBuf,
    /// Begin anew, whatever was begun before
    #[arg(long)]
    fresh: bool,
    /// Go on although another suite is at work on this machine
    #[arg(long)]
    force: bool,
}

/// The whole of `main`.
#[must_use]
pub fn main() -> ExitCode {
    let ended = match Cli::parse().command {
        Command::Run(typed) => typed.carry_out(),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => say(&failure),
    }
}

impl Run {
    fn carry_out(self) -> Result<u8, Failure> {
        let options = run::Options {
            plans: self.plans,
            changes: Changes {
                daemons: self.daemon,
                levels: self.level,
                repeat: self.repeat,
                set: self.set,
            },
            out: self.out,
            fresh: self.fresh,
            force: self.force,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::Run(error.into()))?;
        runtime.block_on(run::run(&options))
    }
}

#[expect(clippy::print_stderr, reason = "the command line says why it failed")]
fn say(failure: &Failure) -> ExitCode {
    eprintln!("error: {failure}");
    ExitCode::from(match failure {
        Failure::Call(_) => exit::WRONG_CALL,
        Failure::Run(_) => exit::FAILED,
    })
}
