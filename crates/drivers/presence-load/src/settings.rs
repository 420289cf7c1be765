//! The driver's own settings: the `[driver]` table of a plan.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use harness::cli::default_settings;
use load::duration;
use load::event_loop::Options;
pub(crate) use load::event_loop::Pacing as Timer;
use load::plan::{Group, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tls_client::TlsOptions;

use crate::protocol::transport::Kind;
use crate::roles::population::Population;

mod access;
mod conversation;

pub(crate) use access::{AUTH, HEADERS, check_field};
pub(crate) use conversation::{Conversation, Protocol, Receivers, Step};

/// Time for joins that are late at the end of the ramp, before the load begins without them.
const OPENING_MARGIN: Duration = Duration::from_secs(30);

const LOAD: &str = "Load";
pub(crate) const USERS: &str = "Users";
const CONNECTIONS: &str = "Connections";
pub(crate) const DISTURBANCES: &str = "Disturbances";

/// The driver's own settings, and the options of the command line that set them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Choose the client that joins: protocol, the driver's own frames; sdk, the client library
    #[arg(long, help_heading = LOAD, value_enum, default_value = "protocol")]
    pub mode: Mode,
    /// Number of rooms.
    #[arg(skip = 100_u64)]
    pub rooms: u64,
    /// Number of users in each room.
    #[arg(skip = 2_u64)]
    pub users_per_room: u64,
    /// Heartbeats per second of each user. With an open loop, the rate of the plan's group replaces it.
    #[arg(skip = 10.0)]
    pub heartbeats_per_sec: f64,
    /// Time over which the users connect and join.
    #[arg(skip = Duration::from_secs(60))]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub ramp_up: Duration,
    /// Fail a heartbeat, a join or a leave that is not acknowledged after this long
    #[arg(long, help_heading = USERS, value_name = "DURATION", default_value = "2s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub ack_timeout: Duration,
    /// Send a heartbeat without a change for a user that has sent nothing for this long, so that its membership does not
    /// expire; it is not measured
    #[arg(long, help_heading = USERS, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub keep_alive: Duration,
    /// Add this many bytes to the state of each heartbeat, and so to its event
    #[arg(long, help_heading = USERS, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    pub padding: u32,
    /// Print a progress line each time this long has passed, at most one per second
    #[arg(long, help_heading = LOAD, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub report_interval: Duration,
    /// Log each failed connection and each loss to stderr
    #[arg(long, help_heading = USERS)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub debug: bool,
    /// Choose how clients reach the server. websocket; polling (HTTP long-polling); upgrade (polling first, then
    /// WebSocket, as browsers do). Only websocket with --mode sdk
    #[arg(long, help_heading = CONNECTIONS, value_enum, default_value = "websocket")]
    pub transport: Kind,
    /// Fail a connection attempt after this long
    #[arg(long, help_heading = CONNECTIONS, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub connect_timeout: Duration,
    /// Begin the load at the latest this long after the first connection attempt, even if some users have not joined
    /// [default: 30s plus --ramp-up]
    #[arg(long, help_heading = CONNECTIONS, value_name = "DURATION", value_parser = duration::parse)]
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<duration::Text>")]
    pub open_timeout: Option<Duration>,
    /// Connect the members of each room to all nodes in turn, which must share their rooms; a user whose node fails goes
    /// to the next one. Without it, each room is on one node
    #[arg(long, help_heading = USERS)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spread_rooms: bool,
    /// Connect from these local addresses, each good for about 36,000 connections to one server port. auto takes as
    /// many of 127.0.0.0/8 as needed, for a server on this machine. Not with --mode sdk [default: auto with --keep-open;
    /// otherwise the kernel chooses, and has about 28,000 ports]
    #[arg(long, visible_alias = "sources", help_heading = CONNECTIONS, value_name = "auto|ADDR[,ADDR…]", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<String>,
    /// Send this JSON object as the auth of each connection to the namespace, such as '{"token":"abc"}'. @FILE reads it
    /// from a file, for a secret
    #[arg(long, help_heading = CONNECTIONS, value_name = "JSON")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// Send this header field with each HTTP request, such as "Cookie: session=1". @FILE reads fields from a file, one
    /// per line, for a secret. Repeatable
    #[arg(long = "header", short = 'H', help_heading = CONNECTIONS, value_name = "FIELD")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Connect to this namespace of Socket.IO, such as /admin. Not with --mode sdk [default: /]
    #[arg(long, help_heading = CONNECTIONS, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Offer this subprotocol of WebSocket. Repeatable. Not with --mode sdk
    #[arg(long = "subprotocol", help_heading = CONNECTIONS, value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subprotocols: Vec<String>,
    /// Trust the certificates in this PEM file: CAs, or the server's own certificate [default: the CAs that this
    /// machine trusts]
    #[arg(long, help_heading = CONNECTIONS, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// Accept any server certificate
    #[arg(long, help_heading = CONNECTIONS)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_insecure: bool,
    /// Choose how to wait for the next start of an open loop. precise: one timer per start; quantum: one timer per
    /// 500 µs; spin: busy-poll (uses a full core)
    #[arg(long, help_heading = CONNECTIONS, value_enum, default_value = "precise")]
    pub timer: Timer,
    /// Start heartbeats that are due together, once in this time: each late by as much at most, which its response time
    /// includes, and for less CPU time. Without --timer, in an open loop [default: each when it is due]
    #[arg(long, help_heading = CONNECTIONS, value_name = "DURATION", value_parser = duration::parse)]
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<duration::Text>")]
    pub tick: Option<Duration>,
    /// Let this many users per second leave and come back, during the load
    #[arg(long, help_heading = DISTURBANCES, value_name = "PER_SECOND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub churn: Option<f64>,
    /// Cut this share of the connections of --churn, from 0 to 1, instead of leaving first
    #[arg(long, help_heading = DISTURBANCES, value_name = "SHARE", default_value_t = 0.5)]
    pub churn_cut: f64,
    /// Number of users that stop reading once they have joined.
    #[arg(skip)]
    pub slow_consumers: u64,
    /// Number of users whose connections fall silent once they have joined: they neither read nor answer pings.
    #[arg(skip)]
    pub half_open: u64,
    /// The conversation of users with an application, instead of the presence protocol.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
}

/// The client that joins.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The driver's own frames: the least work per heartbeat.
    #[default]
    Protocol,
    /// The client library, as an application uses it.
    Sdk,
}

impl Default for Settings {
    fn default() -> Self {
        default_settings()
    }
}

impl Settings {
    /// Returns the users of the run.
    pub(crate) fn population(&self) -> Population {
        Population {
            rooms: self.rooms,
            users_per_room: self.users_per_room,
            slow_consumers: self.slow_consumers,
            half_open: self.half_open,
        }
    }

    /// Returns the most connections of TCP that the run has open at once.
    pub(crate) fn connections(&self) -> u64 {
        self.population().users() * self.transport.sockets()
    }

    /// Returns the maximum time to connect and join all users before the load begins.
    pub(crate) fn opening(&self) -> Duration {
        let default = self.ramp_up.saturating_add(OPENING_MARGIN);
        self.open_timeout.unwrap_or(default)
    }

    /// Returns [`tick`](Self::tick) in nanoseconds.
    pub(crate) fn tick_ns(&self) -> Option<u64> {
        self.tick.map(|tick| tick.as_nanos() as u64)
    }

    /// Returns the options of a loop for its starts.
    pub(crate) fn loop_options(&self) -> Options {
        let default = Options {
            pacing: self.timer,
            ..Options::default()
        };
        match self.tick_ns() {
            None => default,
            Some(tick_ns) => Options {
                pacing: Timer::Quantum,
                tick_ns,
                ..default
            },
        }
    }

    /// Returns the time that open heartbeats need at the end.
    pub(crate) fn drain(&self) -> Duration {
        self.ack_timeout.saturating_add(Duration::from_secs(3))
    }

    /// Returns the options for the certificates of servers.
    pub(crate) fn tls(&self) -> TlsOptions {
        TlsOptions {
            ca: self.tls_ca.clone(),
            insecure: self.tls_insecure,
            ..TlsOptions::default()
        }
    }

    /// Describes the plan in one sentence. The sentence does not name the daemon: runs of one plan against several
    /// daemons are matched by it.
    pub(crate) fn sentence(plan: &Plan<Self>) -> String {
        let settings = &plan.driver;
        let population = settings.population();
        let mode = match settings.mode {
            Mode::Protocol => "",
            Mode::Sdk => " of the client library",
        };
        let over = match settings.transport {
            Kind::WebSocket => "",
            Kind::Polling => " over long-polling",
            Kind::Upgrade => " over long-polling with an upgrade",
        };
        let spread = if settings.spread_rooms {
            " spread over all nodes"
        } else {
            ""
        };
        let operations = match settings.conversation {
            None => "heartbeats",
            Some(_) => "messages",
        };
        let think = settings.conversation.as_ref().and_then(|own| own.think);
        let thinks = settings.conversation.as_ref();
        let thinks = thinks.is_some_and(|own| own.load_steps().any(|step| step.think.is_some()));
        let load = match think {
            _ if thinks && is_closed(plan) => {
                format!("{operations}, each after the think time of the one before")
            }
            Some(think) if is_closed(plan) => {
                format!("{operations}, each {think} after the answer to the one before")
            }
            _ if is_closed(plan) => format!(
                "{} {operations} per second of each user, each after the acknowledgement of the one before",
                settings.heartbeats_per_sec
            ),
            _ => format!("{operations}: {}", plan.load_sentence()),
        };
        let warmup = if plan.timeline.warmup.is_zero() {
            String::new()
        } else {
            format!(
                " after {} of warm-up",
                duration::format(plan.timeline.warmup)
            )
        };
        let timeline = &plan.timeline;
        let in_all = settings.ramp_up + timeline.warmup + timeline.measure;
        format!(
            "{} users{mode} in {} rooms{spread}{over}, joined within the first {}; then {load}{} for {}{warmup}; {} in all",
            population.users(),
            population.rooms,
            duration::format(settings.ramp_up),
            settings.disturbances(),
            duration::format(timeline.measure),
            duration::format(in_all),
        )
    }

    fn disturbances(&self) -> String {
        let mut text = String::new();
        if let Some(churn) = self.churn {
            text.push_str(&format!(
                "; {churn} users per second leave and come back, {:.0} % of them with a cut connection",
                self.churn_cut * 100.0
            ));
        }
        if self.slow_consumers > 0 {
            text.push_str(&format!("; {} slow consumers", self.slow_consumers));
        }
        if self.half_open > 0 {
            text.push_str(&format!("; {} half-open connections", self.half_open));
        }
        text
    }
}

/// Returns true if each user waits for its acknowledgement.
pub(crate) fn is_closed(plan: &Plan<Settings>) -> bool {
    plan.groups.iter().all(Group::is_closed)
}
