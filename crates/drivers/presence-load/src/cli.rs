//! The command line: the options of the reference's two scripts, and further ones.

use std::ffi::OsString;

use clap::{Args, Subcommand};
use harness::cli::{DriverCli, Program, lines_of_files, two_dashes};
use harness::failure::Failure;
use harness::verify::EXIT_CODES;
use load::driver::Target;
use load::plan::{Invalid, Plan};

use crate::check;
use crate::driver::PresenceLoad;
use crate::settings::Settings;

mod names;
mod options;

use options::LoadOptions;

/// Options of a run.
#[derive(Debug, Args)]
pub struct Options {
    /// Drive the server at these URLs: http://host:port, https://…, ws://… or wss://…. Rooms are assigned to several
    /// nodes in turn
    #[arg(value_name = "URL", conflicts_with_all = ["daemon", "url"])]
    urls: Vec<String>,
    /// Drive the server at this URL. Repeat the option for several nodes
    #[arg(
        long,
        visible_alias = "target-url",
        value_name = "URL",
        conflicts_with = "daemon"
    )]
    url: Vec<String>,
    #[command(flatten)]
    load: LoadOptions,
}

/// A subcommand other than a run.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Join a room with two users and verify every answer and event
    ///
    /// Without arguments, check builds and launches every daemon in daemons/ that serves presence. It skips a daemon
    /// whose toolchain is missing, unless DROVER_REQUIRE_ALL=1.
    #[command(after_help = EXIT_CODES)]
    Check(Box<check::CheckOptions>),
    /// Run the conformance cases on any presence server and report those it fails
    ///
    /// A launched server is started again for cases that need other settings; on a running server these cases are
    /// skipped.
    #[command(after_help = EXIT_CODES)]
    Conformance(presence_conformance::ConformanceArgs),
}

impl DriverCli for PresenceLoad {
    type Options = Options;
    type Command = Command;
    const PROGRAM: Program = Program {
        embedded: "presence-daemon",
        about: "Load-test a Socket.IO presence server: users join rooms and send heartbeats, and every event is audited\n\nWithout a URL, presence-load builds a server, launches it on a free port and stops it at the end.\n\nThese environment variables work as well: TARGET_URL, ROOM_COUNT, USERS_PER_ROOM, HEARTBEATS_PER_SEC, TEST_DURATION_MS, RAMP_UP_MS, REPORT_INTERVAL_MS, ACK_TIMEOUT_MS, BENCHMARK_DEBUG; so do options of the same names, such as --room-count and --test-duration-ms.",
        examples: &[
            (
                "--rooms 10 --ramp-up 5s --duration 1m http://127.0.0.1:3000",
                "10 rooms with 2 users each, who join within 5 s; then 10 heartbeats per second of each for a minute",
            ),
            (
                "--rooms 200 --users-per-room 10 http://127.0.0.1:3000",
                "2,000 users",
            ),
            (
                "--loop closed http://127.0.0.1:3000",
                "each user waits for its acknowledgement",
            ),
            (
                "--keep-open --rooms 10000 --users-per-room 10 --ramp-up 50s http://127.0.0.1:3000",
                "100,000 joined users, a heartbeat each 10 s",
            ),
            (
                "--churn 20 --churn-cut 0.3 http://127.0.0.1:3000",
                "20 users per second leave and come back, 3 in 10 with a cut connection",
            ),
            (
                "--plan configs/presence/quick.toml",
                "run a plan file against a server that presence-load launches",
            ),
            ("check", "verify the answers and events of all servers"),
            (
                "conformance --daemon presence-daemon",
                "run the functional cases on one server",
            ),
        ],
        failed: "a join, a heartbeat or the run failed",
        main: &[
            "url",
            "rooms",
            "users_per_room",
            "heartbeats_per_sec",
            "loop_kind",
            "duration",
            "ramp_up",
            "keep_open",
            "churn",
        ],
        renamed: &[("hold", "keep-open"), ("pacing", "loop")],
        variables: &names::VARIABLES,
        ..Program::UNKNOWN
    };

    /// Translates the reference's names of options, and its environment variables.
    fn words(typed: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        let typed = typed.into_iter().map(two_dashes).collect();
        names::translate(typed, |name| std::env::var_os(name))
    }

    fn plan(_options: &Options, settings: Settings) -> Plan<Settings> {
        options::plan(settings)
    }

    fn apply(options: &Options, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        options.load.apply(plan)
    }

    fn target(options: &Options) -> Result<Option<Target>, Failure> {
        let urls = [options.urls.as_slice(), &options.url].concat();
        let urls = lines_of_files("URL", urls)?;
        Ok((!urls.is_empty()).then(|| Target::of_urls(urls)))
    }

    fn run_command(command: Command) -> Result<bool, Failure> {
        match command {
            Command::Check(options) => check::run(&options),
            Command::Conformance(options) => presence_conformance::run(&options),
        }
    }
}

#[cfg(test)]
mod tests;
