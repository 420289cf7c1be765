//! What is typed: the options of the reference generator, spelled the GNU way, and ours.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use harness::cli::{Common, Failure, Job};
use harness::driver::Target;
use harness::duration;
use harness::plan::{self, Group, Invalid, Plan, Timeline};
use harness::schedule::Arrival;

use crate::handoff::{ClientKind, SocketType};
use crate::settings::{DEFAULT_DATA, DEFAULT_MESSAGES, Settings};

/// Where the reference's daemons listen.
const REFERENCE_SOCKET: &str = "/var/run/streaming-daemon.sock";
/// The daemon that is launched when none is named.
const EMBEDDED: &str = "rust-streaming";
/// Clients of a run that says nothing else.
const DEFAULT_CONNECTIONS: u64 = 100;
/// Time between two records of a daemon that is launched, unless it is told otherwise.
const DEFAULT_DELAY: Duration = Duration::from_millis(50);

/// Hand over client sockets to a streaming daemon (SCM_RIGHTS) and measure the streams that come back.
///
/// Without --socket a daemon is built, launched on a fresh socket, and stopped at the end.
#[derive(Debug, Parser)]
#[command(name = "fdpass-gen", version, after_help = EXIT_CODES)]
struct Cli {
    /// Socket of a daemon that runs already
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET, conflicts_with = "daemon")]
    socket: Option<PathBuf>,
    /// A line on stderr for every stream that ends
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    common: Common,
}

const EXIT_CODES: &str = "Exit codes: 0 fine, 1 a stream or the run failed, 2 the call or the plan is wrong, 3 the results are suspect, 4 a threshold was missed.";

/// Options that shape the load; in a plan each is a field.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with = "plan")]
struct Load {
    /// Clients that are handed over once each [default: 100, or none with --rate]
    #[arg(long, value_name = "N")]
    connections: Option<u64>,
    /// Time over which the load rises
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    ramp_up: Duration,
    /// Time to hold the load; without --rate the run ends earlier, with its last stream
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    hold: Duration,
    /// Time for a whole stream
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration::parse)]
    stream_timeout: Duration,
    /// Payload of the handoff
    #[arg(long, value_name = "JSON", conflicts_with = "data_file")]
    data: Option<String>,
    /// File with the payload of the handoff
    #[arg(long, value_name = "FILE")]
    data_file: Option<PathBuf>,
    /// Handoffs per second, whatever the daemon does (open loop), for as long as ramp-up and hold last
    #[arg(
        long,
        value_name = "PER_SECOND",
        conflicts_with = "plan",
        allow_negative_numbers = true
    )]
    rate: Option<f64>,
    /// How the starts of --rate are spread
    #[arg(long, value_enum, default_value = "constant", requires = "rate")]
    arrival: ArrivalName,
    /// Seed of everything drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Load before what is counted
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    warmup: Duration,
    /// Type of the daemon's socket
    #[arg(long, value_enum, default_value = "auto")]
    socket_type: SocketType,
    /// What is handed over: an end of a socket pair, or a TCP connection as behind a web server
    #[arg(long, value_enum, default_value = "unix")]
    client: ClientKind,
    /// Time to the first byte [default: that of the whole stream]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    first_byte_timeout: Option<Duration>,
    /// Time between two reads [default: that of the whole stream]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    idle_timeout: Option<Duration>,
    /// Records of a stream: told to the daemon that is launched, expected of one that runs [default when launched: 18]
    #[arg(long, value_name = "N")]
    messages: Option<u32>,
    /// Time between two records: told to the daemon that is launched; with --socket what the nominal duration is
    /// reckoned from [default when launched: 50ms]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    message_delay: Option<Duration>,
    /// Attempts to connect again when the accept queue is full or the daemon is not there, after 10, 20, 40 ms, …
    #[arg(long, value_name = "N", default_value_t = 2)]
    retry: u32,
    /// Clients that hang up after so many records
    #[arg(long, value_name = "RECORDS")]
    abort_after: Option<u32>,
    /// Clients that read 64 bytes and then rest for this long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    slow_reader: Option<Duration>,
    /// Clients that never read
    #[arg(long)]
    never_read: bool,
}

/// [`Arrival`] as it is typed.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ArrivalName {
    Constant,
    Poisson,
}

/// Reads the command line.
///
/// # Errors
/// A plan or a file that can't be read. Options that clap refuses end the program with its message and exit code 2.
pub fn job() -> Result<Job<Settings>, Failure> {
    job_of(Cli::parse_from(std::env::args_os().map(gnu)))
}

/// The reference spells options with one dash (`-connections 100`): taken as well.
fn gnu(argument: std::ffi::OsString) -> std::ffi::OsString {
    match argument.to_str().and_then(|text| text.strip_prefix('-')) {
        Some(name)
            if name.len() > 2 && name.starts_with(|first: char| first.is_ascii_lowercase()) =>
        {
            format!("--{name}").into()
        }
        _ => argument,
    }
}

fn job_of(cli: Cli) -> Result<Job<Settings>, Failure> {
    let Cli {
        socket,
        verbose,
        load,
        common,
    } = cli;
    let target = socket.map(Target::at);
    let mut plan = match &common.plan {
        Some(path) => plan::load(path, &common.set)?,
        None => load.plan()?,
    };
    plan.driver.verbose |= verbose;
    if let Some(daemon) = &common.daemon {
        plan.daemon = Some(daemon.clone());
    }
    if target.is_some() {
        plan.daemon = None;
    } else {
        launch(&mut plan);
    }
    Ok(Job {
        plan,
        target,
        common,
    })
}

/// Tells a daemon that is launched what streams to send. Every streaming daemon takes these variables.
fn launch(plan: &mut Plan<Settings>) {
    plan.daemon.get_or_insert_with(|| EMBEDDED.to_owned());
    let settings = &mut plan.driver;
    let messages = *settings.messages.get_or_insert(DEFAULT_MESSAGES);
    let delay = *settings.message_delay.get_or_insert(DEFAULT_DELAY);
    let kind = if settings.socket_type == SocketType::Stream {
        "stream"
    } else {
        "seqpacket"
    };
    let told = [
        ("DAEMON_MESSAGE_COUNT", messages.to_string()),
        ("DAEMON_MESSAGE_DELAY", format!("{}ns", delay.as_nanos())),
        ("DAEMON_SOCKET_TYPE", kind.to_owned()),
    ];
    for (name, value) in told {
        plan.daemon_env.entry(name.to_owned()).or_insert(value);
    }
}

impl Load {
    fn plan(&self) -> Result<Plan<Settings>, Failure> {
        let timeline = Timeline {
            warmup: self.warmup,
            measure: self.ramp_up + self.hold,
            drain: self.stream_timeout + Duration::from_secs(1),
        };
        let driver = Settings {
            socket_type: self.socket_type,
            client: self.client,
            data: self.payload()?,
            stream_timeout: self.stream_timeout,
            first_byte_timeout: self.first_byte_timeout,
            idle_timeout: self.idle_timeout,
            messages: self.messages,
            message_delay: self.message_delay,
            retries: self.retry,
            abort_after: self.abort_after,
            slow_reader: self.slow_reader,
            never_read: self.never_read,
            ..Settings::default()
        };
        Ok(Plan {
            seed: self.seed,
            ..Plan::new("command-line", timeline, self.groups(), driver)
        })
    }

    /// The fixed set of the reference, an open loop, or both.
    fn groups(&self) -> Vec<Group> {
        let group = |name: &str| Group {
            name: name.to_owned(),
            workers: 0,
            ramp: self.ramp_up,
            rate: None,
            arrival: match self.arrival {
                ArrivalName::Constant => Arrival::Constant,
                ArrivalName::Poisson => Arrival::Poisson,
            },
            stages: Vec::new(),
            ops: None,
        };
        let fixed = self
            .connections
            .or(self.rate.is_none().then_some(DEFAULT_CONNECTIONS));
        let fixed = fixed.map(|workers| Group {
            workers,
            ops: Some(1),
            ..group("fixed")
        });
        let open = self.rate.map(|rate| Group {
            rate: Some(rate),
            ..group("open")
        });
        fixed.into_iter().chain(open).collect()
    }

    fn payload(&self) -> Result<String, Failure> {
        match (&self.data, &self.data_file) {
            (Some(data), _) => Ok(data.clone()),
            (None, Some(file)) => std::fs::read_to_string(file).map_err(|error| {
                Invalid::new(
                    format!("--data-file {}", file.display()),
                    format!("{error}: name a file of UTF-8 text that can be read"),
                )
                .into()
            }),
            (None, None) => Ok(DEFAULT_DATA.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Plan<Settings> {
        let typed = std::iter::once("fdpass-gen")
            .chain(arguments.iter().copied())
            .map(|argument| gnu(argument.into()));
        job_of(Cli::try_parse_from(typed).unwrap()).unwrap().plan
    }

    #[test]
    fn nothing_typed_is_the_reference_s_load_on_the_embedded_daemon() {
        let plan = plan(&[]);
        assert_eq!(plan.daemon.as_deref(), Some(EMBEDDED));
        assert_eq!(
            (
                plan.groups[0].workers,
                plan.groups[0].ramp.as_secs(),
                plan.timeline.measure.as_secs()
            ),
            (100, 10, 70)
        );
        assert_eq!(
            (
                plan.driver.stream_timeout.as_secs(),
                plan.driver.data.as_str()
            ),
            (120, DEFAULT_DATA)
        );
        assert_eq!(plan.driver.nominal(), Some(Duration::from_millis(850)));
        plan.validate().unwrap();
        Settings::validate(&plan).unwrap();
    }

    #[test]
    fn the_reference_s_spelling_is_taken() {
        let plan = plan(&[
            "-socket",
            "/tmp/x.sock",
            "-connections",
            "1000",
            "-ramp-up",
            "1m30s",
            "-hold",
            "30s",
            "-verbose",
        ]);
        assert_eq!(plan.daemon, None);
        assert_eq!(
            (plan.groups[0].workers, plan.groups[0].ramp.as_secs()),
            (1000, 90)
        );
        assert!(plan.driver.verbose);
    }

    #[test]
    fn a_rate_replaces_the_fixed_set_unless_both_are_asked_for() {
        let names = |plan: Plan<Settings>| {
            plan.groups
                .into_iter()
                .map(|group| group.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(plan(&["--rate", "50"])), ["open"]);
        assert_eq!(
            names(plan(&["--rate", "50", "--connections", "10"])),
            ["fixed", "open"]
        );
    }
}
