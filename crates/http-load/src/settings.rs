//! The driver's own settings: the `[driver]` table of a plan.

use std::path::PathBuf;
use std::time::Duration;

use load::duration;
pub(crate) use load::event_loop::Pacing;
use load::net::tls::TlsOptions;
use load::plan::{Group, Invalid, Plan};
use serde::{Deserialize, Serialize};

use crate::target::Server;

/// The path to request if neither plan nor URL names one: the smallest file that every daemon has.
pub(crate) const DEFAULT_PATH: &str = "/1kb.txt";
/// Maximum number of requests in flight on one HTTP/2 connection.
const MAX_STREAMS: u32 = 10_000;
const PIPELINE: &str =
    "the hyper engine cannot pipeline: use --engine wire over http://, or --http2 with --streams";
const BATCH: &str =
    "the hyper engine cannot batch: leave it out, or use --engine wire over http://";
/// Maximum timeout of a request or a connection: the largest value of a histogram.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// Time that a slow server may need to accept connections, independent of their number.
const OPENING_MARGIN: Duration = Duration::from_secs(30);
/// Maximum number of connections of a run.
pub(crate) const MAX_CONNECTIONS: u64 = 10_000_000;

/// The driver's own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The HTTP implementation that is used.
    pub engine: Engine,
    /// The request method.
    pub method: String,
    /// The path to request; absent: that of the URL, or that of the 1 KB file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Header fields other than `Host`, as `Name: value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Request bodies, used in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<String>,
    /// Files with request bodies, used in turn after `body`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body_files: Vec<PathBuf>,
    /// Keeps a connection open for the next request.
    pub keep_alive: bool,
    /// Maximum number of redirects followed per request, to the same scheme, host and port; 0: a redirect is a response
    /// like any other.
    pub follow: u32,
    /// Maximum number of requests on one connection before the first response (RFC 9112 §9.3.2).
    pub pipeline: u32,
    /// Uses HTTP/2: negotiated over TLS (ALPN), or with prior knowledge (RFC 9113 §3.3).
    pub http2: bool,
    /// Number of requests in flight on one HTTP/2 connection.
    pub streams: u32,
    /// PEM file of trusted certificates: CAs, or the server's own; absent: the CAs that this machine trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// Accepts any server certificate.
    pub tls_insecure: bool,
    /// Requests gzip-compressed responses. Their compressed bytes are counted.
    pub compressed: bool,
    /// Reads all responses that have arrived before the next requests are sent: more throughput, later requests.
    pub batch: bool,
    /// Number of connections for the groups with a rate, opened before they are needed.
    pub connections: u64,
    /// Maximum number of those connections opened per second; absent: as fast as possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_rate: Option<f64>,
    /// Maximum time to open all connections, if they are opened at a rate; then the load starts with those that are
    /// open. Absent: 30 s plus four times the time that their number takes at that rate.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub open_timeout: Option<Duration>,
    /// Local addresses to connect from: `auto` for as many of 127.0.0.0/8 as the connections need, or a list. Absent:
    /// the kernel chooses, and has about 28,000 ports for one server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<String>,
    /// Timeout of a request with its response, and of the wait for a free connection.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Timeout of a connection attempt.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// Statuses that are not a failure; empty: all below 400.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect_status: Vec<u16>,
    /// Length in bytes that every response body must have; absent: the length of the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_length: Option<u64>,
    /// The body that every response must have: a text, or the name of a file after an @; absent: the body of the
    /// responses before the run, if all requests are alike and two of them returned the same body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<String>,
    /// Accepts any response body, of any length.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any_content: bool,
    /// The way the driver waits for the next start of an open loop. In each mode, the delay is measured (`lag`).
    pub pacing: Pacing,
    /// Checks of each response, such as `status==200` or `duration<500ms`: counted, but no failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Measures each phase of a request; costs some hundred nanoseconds per request.
    pub phases: bool,
}

/// The HTTP implementation that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The cheapest engine that supports the settings.
    #[default]
    Auto,
    /// The driver's own event loop for HTTP/1.1.
    Wire,
    /// The hyper library: HTTP/1.1 and HTTP/2, with and without TLS.
    Hyper,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            engine: Engine::default(),
            method: "GET".to_owned(),
            path: None,
            headers: Vec::new(),
            body: Vec::new(),
            body_files: Vec::new(),
            keep_alive: true,
            follow: 0,
            pipeline: 1,
            http2: false,
            streams: 1,
            tls_ca: None,
            tls_insecure: false,
            compressed: false,
            batch: false,
            connections: 100,
            connect_rate: None,
            open_timeout: None,
            source_addresses: Vec::new(),
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            expect_status: Vec::new(),
            expect_length: None,
            expect_body: None,
            any_content: false,
            pacing: Pacing::default(),
            checks: Vec::new(),
            phases: false,
        }
    }
}

impl Settings {
    /// Returns the path to request from a server.
    pub(crate) fn path_at<'a>(&'a self, server: &'a Server) -> &'a str {
        let named = self.path.as_deref().or(server.path.as_deref());
        named.unwrap_or(DEFAULT_PATH)
    }

    /// Returns true if a status is expected.
    #[must_use]
    pub fn expects(&self, status: u16) -> bool {
        match self.expect_status.is_empty() {
            true => status < 400,
            false => self.expect_status.contains(&status),
        }
    }

    /// Returns the maximum time to open all connections before the load starts. `None` unless they are kept and opened
    /// at a rate of their own.
    #[must_use]
    pub fn opening(plan: &Plan<Self>) -> Option<Duration> {
        let settings = &plan.driver;
        let rate = settings.connect_rate.filter(|rate| *rate >= 1.0)?;
        let opens = settings.keep_alive && open_loop(plan);
        let takes = Duration::try_from_secs_f64(settings.connections as f64 / rate);
        let default = || {
            takes.map_or(MAX_TIMEOUT, |takes| {
                (takes * 4 + OPENING_MARGIN).min(MAX_TIMEOUT)
            })
        };
        opens.then(|| settings.open_timeout.unwrap_or_else(default))
    }

    /// Checks that the engine supports the settings, as far as that does not depend on the server.
    pub(crate) fn validate_engine(&self) -> Result<(), Invalid> {
        let invalid = |field: &str, problem: &str| {
            let option = format!("driver.{field} (--{})", field.replace('_', "-"));
            Err(Invalid::new(option, problem))
        };
        let by_hyper = self.engine == Engine::Hyper || self.http2;
        if self.engine == Engine::Wire && self.http2 {
            return invalid(
                "engine",
                "the wire engine supports HTTP/1.1 only: use hyper or auto, or leave out --http2",
            );
        }
        if !(1..=MAX_STREAMS).contains(&self.streams) {
            let problem = format!("{} is not between 1 and {MAX_STREAMS}", self.streams);
            return invalid("streams", &problem);
        }
        if self.streams > 1 && !self.http2 {
            return invalid(
                "streams",
                "only HTTP/2 allows several concurrent requests on a connection: add --http2",
            );
        }
        if self.streams > 1 && !self.keep_alive {
            return invalid(
                "streams",
                "needs persistent connections: leave out --no-keep-alive",
            );
        }
        if self.pipeline > 1 && by_hyper {
            return invalid("pipeline", PIPELINE);
        }
        if self.batch && by_hyper {
            return invalid("batch", BATCH);
        }
        Ok(())
    }

    /// Returns the options for the certificates of servers.
    pub(crate) fn tls(&self) -> TlsOptions {
        TlsOptions {
            ca: self.tls_ca.clone(),
            insecure: self.tls_insecure,
        }
    }

    /// Chooses the engine; `tls` says whether any of the servers uses TLS.
    ///
    /// # Errors
    /// The named engine does not support the settings, with the remedy.
    pub fn choose_engine(&mut self, tls: bool) -> Result<(), Invalid> {
        if tls && self.engine == Engine::Wire {
            let problem =
                "the wire engine does not support TLS: use hyper or auto, or an http:// URL";
            return Err(Invalid::new("driver.engine (--engine)", problem));
        }
        if self.engine == Engine::Auto {
            self.engine = match tls || self.http2 {
                true => Engine::Hyper,
                false => Engine::Wire,
            };
        }
        self.validate_engine()
    }

    /// Describes the plan in one sentence. The sentence does not name the daemon: runs of one plan against several
    /// daemons are matched by it.
    #[must_use]
    pub fn sentence(plan: &Plan<Self>) -> String {
        let settings = &plan.driver;
        let path = match (&settings.path, &plan.daemon) {
            (Some(path), _) => path,
            (None, Some(_)) => DEFAULT_PATH,
            (None, None) => "the URL",
        };
        let pool = match open_loop(plan) {
            true => match Self::opening(plan) {
                Some(_) => format!(" over {} connections, opened first,", settings.connections),
                None => format!(" over {} connections", settings.connections),
            },
            false => String::new(),
        };
        let version = match (settings.http2, settings.streams) {
            (false, _) => String::new(),
            (true, 1) => " over HTTP/2".to_owned(),
            (true, streams) => format!(" over HTTP/2, {streams} at once on each connection"),
        };
        let followed = match settings.follow {
            0 => String::new(),
            most => format!(", with up to {most} redirects"),
        };
        format!(
            "{} {path}{version}{followed}: {}{pool} for {}{}",
            settings.method,
            plan.load_sentence(),
            duration::format(plan.timeline.measure),
            match plan.timeline.warmup.is_zero() {
                true => String::new(),
                false => format!(
                    " after {} of warm-up",
                    duration::format(plan.timeline.warmup)
                ),
            }
        )
    }

    /// Returns the number of connections of a whole run.
    #[must_use]
    pub fn connection_count(plan: &Plan<Self>) -> u64 {
        let users: u64 = plan.groups.iter().map(Group::most_clients).sum();
        let pool = if open_loop(plan) {
            plan.driver.connections
        } else {
            0
        };
        users + pool
    }
}

/// Returns true if requests of any group start at a rate, however fast the server is.
pub(crate) fn open_loop(plan: &Plan<Settings>) -> bool {
    !plan.groups.iter().all(Group::is_closed)
}
