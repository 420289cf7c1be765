//! Options that shape the load, and the plan built from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use harness::failure::Failure;
use load::duration;
use load::plan::{Group, Invalid, Plan, Timeline};
use load::schedule::Arrival;

use crate::expect::Expect;
use crate::handoff::{ClientKind, SocketType};
use crate::settings::{DEFAULT_DATA, Settings};

/// Default number of clients.
const DEFAULT_CONNECTIONS: u64 = 100;

/// Options that shape the load. Each is a field of a plan.
#[derive(Debug, Args)]
pub(super) struct Load {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    handoffs: HandoffOptions,
    #[command(flatten)]
    clients: ClientOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
#[group(multiple = true, conflicts_with = "plan")]
struct LoadOptions {
    /// Hand over this many clients, once each [default: 100, or none with --rate]
    #[arg(long, value_name = "N")]
    connections: Option<u64>,
    /// Hand over this many clients per second (open loop), for the whole ramp-up and hold
    #[arg(
        long,
        value_name = "PER_SECOND",
        conflicts_with = "plan",
        allow_negative_numbers = true
    )]
    rate: Option<f64>,
    /// Set how the starts of --rate are distributed
    #[arg(long, value_enum, default_value = "constant", requires = "rate")]
    arrival: Arrival,
    /// Raise the load over this time
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    ramp_up: Duration,
    /// Hold the load for this time; without --rate, the run ends earlier, with its last stream
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse)]
    hold: Duration,
    /// Run the load for this long before measuring
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    warmup: Duration,
    /// Set the random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Handoffs and streams")]
#[group(multiple = true, conflicts_with = "plan")]
struct HandoffOptions {
    /// Set the type of the daemon's socket
    #[arg(long, value_enum, default_value = "auto")]
    socket_type: SocketType,
    /// Hand over one end of a Unix socket pair (unix), or a TCP connection as behind a web server (tcp)
    #[arg(long, value_enum, default_value = "unix")]
    client: ClientKind,
    /// Set the payload of the handoff
    #[arg(long, value_name = "JSON", conflicts_with = "data_file")]
    data: Option<String>,
    /// Read the payload of the handoff from this file
    #[arg(long, value_name = "FILE")]
    data_file: Option<PathBuf>,
    /// Expect this many records per stream; a launched daemon is configured to send them [default when launched: 18]
    #[arg(long, value_name = "N")]
    messages: Option<u32>,
    /// Set the time between two records of a launched daemon; with --socket, it is used for the nominal duration of
    /// streams [default when launched: 50ms]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    message_delay: Option<Duration>,
    /// Compare the contents of streams with this; a differing text fails with protocol_content
    #[arg(long, value_name = "WITH", value_enum, default_value = "auto")]
    expect: Expect,
    /// Limit the duration of a whole stream
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration::parse)]
    stream_timeout: Duration,
    /// Limit the time to the first byte [default: --stream-timeout]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    first_byte_timeout: Option<Duration>,
    /// Limit the time between two reads [default: --stream-timeout]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    idle_timeout: Option<Duration>,
    /// Retry a connect this often when the accept queue is full or the daemon is not running, after 10, 20, 40 ms, …
    #[arg(long, value_name = "N", default_value_t = 2)]
    retry: u32,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Unusual clients")]
#[group(multiple = true, conflicts_with = "plan")]
struct ClientOptions {
    /// Make clients disconnect after N records
    #[arg(long, value_name = "RECORDS")]
    abort_after: Option<u32>,
    /// Make clients read 64 bytes and then pause for this long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    slow_reader: Option<Duration>,
    /// Make clients never read
    #[arg(long)]
    never_read: bool,
}

impl Load {
    /// Returns the plan for these options, not yet validated.
    ///
    /// # Errors
    /// An unreadable payload file.
    pub(super) fn plan(&self) -> Result<Plan<Settings>, Failure> {
        let timeline = Timeline {
            warmup: self.load.warmup,
            measure: self.load.ramp_up + self.load.hold,
            drain: self.handoffs.stream_timeout + Duration::from_secs(1),
        };
        let driver = Settings {
            socket_type: self.handoffs.socket_type,
            client: self.handoffs.client,
            data: self.payload()?,
            stream_timeout: self.handoffs.stream_timeout,
            first_byte_timeout: self.handoffs.first_byte_timeout,
            idle_timeout: self.handoffs.idle_timeout,
            messages: self.handoffs.messages,
            message_delay: self.handoffs.message_delay,
            expect: self.handoffs.expect,
            retries: self.handoffs.retry,
            abort_after: self.clients.abort_after,
            slow_reader: self.clients.slow_reader,
            never_read: self.clients.never_read,
            ..Settings::default()
        };
        Ok(Plan {
            seed: self.load.seed,
            ..Plan::new("command-line", timeline, self.groups(), driver)
        })
    }

    /// Returns the groups: the fixed set of the reference, an open loop, or both.
    fn groups(&self) -> Vec<Group> {
        let group = |name: &str| Group {
            name: name.to_owned(),
            clients: 0,
            ramp: self.load.ramp_up,
            rate: None,
            arrival: self.load.arrival,
            stages: Vec::new(),
            ops: None,
        };
        let fixed =
            self.load
                .connections
                .or(self.load.rate.is_none().then_some(DEFAULT_CONNECTIONS));
        let fixed = fixed.map(|workers| Group {
            clients: workers,
            ops: Some(1),
            ..group("fixed")
        });
        let open = self.load.rate.map(|rate| Group {
            rate: Some(rate),
            ..group("open")
        });
        fixed.into_iter().chain(open).collect()
    }

    fn payload(&self) -> Result<String, Failure> {
        match (&self.handoffs.data, &self.handoffs.data_file) {
            (Some(data), _) => Ok(data.clone()),
            (None, Some(file)) => std::fs::read_to_string(file).map_err(|error| {
                Invalid::new(
                    format!("--data-file {}", file.display()),
                    format!("{error}: name a readable file of UTF-8 text"),
                )
                .into()
            }),
            (None, None) => Ok(DEFAULT_DATA.to_owned()),
        }
    }
}
