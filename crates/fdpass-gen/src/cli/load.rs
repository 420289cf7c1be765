//! Options that shape the load, and the plan that they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use harness::cli::Failure;
use harness::duration;
use harness::plan::{Group, Invalid, Plan, Timeline};
use harness::schedule::Arrival;

use crate::expect::Expect;
use crate::handoff::{ClientKind, SocketType};
use crate::settings::{DEFAULT_DATA, Settings};

/// Clients of a run that says nothing else.
const DEFAULT_CONNECTIONS: u64 = 100;

/// Options that shape the load; in a plan each is a field.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with = "plan")]
pub(super) struct Load {
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
    arrival: Arrival,
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
    /// What the contents of streams are compared with; another text is the failure protocol_content
    #[arg(long, value_name = "WITH", value_enum, default_value = "auto")]
    expect: Expect,
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

impl Load {
    /// The plan that is asked for, not yet validated.
    ///
    /// # Errors
    /// A payload file that can't be read.
    pub(super) fn plan(&self) -> Result<Plan<Settings>, Failure> {
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
            expect: self.expect,
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
            arrival: self.arrival,
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
