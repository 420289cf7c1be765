//! The driver's own settings: the `[driver]` table of a plan.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use harness::cli::default_settings;
use load::duration;
pub(crate) use load::event_loop::Pacing;
use load::net::url::ServerUrl;
use load::plan::{Group, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tls_client::{TlsOptions, TlsVersion};
use traffic::ThinkTime;

pub(crate) mod planned;

pub use planned::{Order, PlannedRequest};

/// Maximum timeout of a request or a connection: the largest value of a histogram.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// Time that a slow server may need to accept connections, independent of their number.
const OPENING_MARGIN: Duration = Duration::from_secs(30);
/// Maximum number of connections of a run.
pub(crate) const MAX_CONNECTIONS: u64 = 10_000_000;

pub(crate) const CONNECTIONS: &str = "Connections";
const REQUESTS: &str = "Requests";
const RESPONSES: &str = "Responses";

/// The driver's own settings, and the options of the command line that set them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Choose the HTTP implementation: wire, or, for a second opinion, the library hyper, which costs more CPU
    #[arg(long, help_heading = CONNECTIONS, value_enum, default_value = "wire")]
    pub engine: Engine,
    /// Number of connections for the groups with a rate, opened before they are needed.
    #[arg(skip = 100_u64)]
    pub connections: u64,
    /// Keeps a connection open for the next request.
    #[arg(skip = true)]
    pub keep_alive: bool,
    /// Choose how to wait for the next start of --rate. precise: one timer per start; quantum: one timer per 500 µs;
    /// spin: busy-poll (uses a full core)
    #[arg(
        long = "timer",
        help_heading = "Load",
        value_name = "TIMER",
        value_enum,
        default_value = "precise"
    )]
    pub pacing: Pacing,
    /// Open this many connections per second before the load starts, with --rate or --keep-open [default: 20000 with
    /// --keep-open; otherwise as fast as possible, and requests do not wait for all of them]
    #[arg(long, help_heading = CONNECTIONS, value_name = "PER_SECOND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_rate: Option<f64>,
    /// Start the load at the latest this long after the first connection attempt, even if some connections are not open
    /// yet, with --keep-open or --connect-rate [default: 30s plus four times --connections / --connect-rate]
    #[arg(long, help_heading = CONNECTIONS, value_name = "DURATION", value_parser = duration::parse)]
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<duration::Text>")]
    pub open_timeout: Option<Duration>,
    /// Fail a connection attempt after this long
    #[arg(long, help_heading = CONNECTIONS, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub connect_timeout: Duration,
    /// Connect from these local addresses, each good for about 36,000 connections to one server port. auto takes as
    /// many of 127.0.0.0/8 as needed, for a server on this machine [default: auto with --keep-open; otherwise the
    /// kernel chooses, and has about 28,000 ports]
    #[arg(long, help_heading = CONNECTIONS, value_name = "auto|ADDR[,ADDR…]", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<String>,
    /// Send up to N requests on a connection before the first response (HTTP/1.1 pipelining). Closed loops only, so not
    /// with --rate, --rate-stage or --keep-open
    #[arg(long, help_heading = CONNECTIONS, value_name = "N", default_value_t = 1)]
    pub pipeline: u32,
    /// Use HTTP/2: negotiated over https:// (ALPN), with prior knowledge over http://
    #[arg(long, alias = "http2-prior-knowledge", help_heading = CONNECTIONS)]
    pub http2: bool,
    /// Keep N requests in flight on each connection (HTTP/2)
    #[arg(long, help_heading = CONNECTIONS, value_name = "N", default_value_t = 1)]
    pub streams: u32,
    /// Trust the certificates in this PEM file: CAs, or the server's own certificate [default: the CAs that this
    /// machine trusts]
    #[arg(long, alias = "cacert", help_heading = CONNECTIONS, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// Accept any server certificate
    #[arg(long, aliases = ["insecure", "insecure-skip-tls-verify"], help_heading = CONNECTIONS)]
    pub tls_insecure: bool,
    /// Show the certificate in this PEM file to servers that ask for one, with the CAs between, if there are some
    #[arg(long, alias = "cert", help_heading = CONNECTIONS, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// Use the private key in this PEM file for --tls-cert [default: the key in the file of --tls-cert]
    #[arg(long, alias = "key", help_heading = CONNECTIONS, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Offer only this version of TLS [default: 1.3, and 1.2 to servers without it]
    #[arg(long, help_heading = CONNECTIONS, value_name = "VERSION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<TlsVersion>,
    /// Resume no TLS session: each new connection costs the server a full handshake, as one from a new client
    #[arg(long, help_heading = CONNECTIONS)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tls_full_handshakes: bool,
    /// Connect to these addresses in turn, instead of the URL's: for a name that points elsewhere, or nowhere yet. TLS
    /// and the Host field keep the URL's name. Without a port, the URL's is used
    #[arg(long, help_heading = CONNECTIONS, value_name = "HOST[:PORT][,…]", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_to: Vec<String>,
    /// Let each client pause after an answer: 1s, uniform:1s:3s, or exponential:1s, which names the mean. Closed loops only
    #[arg(long, help_heading = "Load", value_name = "TIME", value_parser = ThinkTime::parse_typed)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkTime>,
    /// Reads all responses that have arrived before it sends the next requests, in a closed loop without think time.
    #[arg(skip = true)]
    pub batch: bool,
    /// Set the request method
    #[arg(long, alias = "request", short_alias = 'X', short, help_heading = REQUESTS, value_name = "METHOD", default_value = "GET")]
    pub method: String,
    /// Request this path instead of the URL's. {id} in it becomes the number of the request, {id:N} that number modulo
    /// N
    #[arg(long, help_heading = REQUESTS, value_name = "PATH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Read a row of this file for each request: CSV, whose first line names the columns, or JSON objects, one per line
    /// (.jsonl, .ndjson). {{NAME}} in the path, header fields and bodies is that column
    #[arg(long, help_heading = REQUESTS, value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<PathBuf>,
    /// Send the requests of a log at its times: an access log of nginx or Apache (common or combined format), or CSV or
    /// JSON lines with `time` (seconds since 1970 or RFC 3339) and `path`. Its columns are used like the ones of
    /// --rows. Only requests with the --method are sent
    #[arg(long, help_heading = REQUESTS, value_name = "LOG", conflicts_with = "rows")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<PathBuf>,
    /// Divide the times of --replay by this: 2 sends its requests twice as fast
    #[arg(long, help_heading = REQUESTS, value_name = "FACTOR", default_value_t = 1.0)]
    #[serde(skip_serializing_if = "is_one")]
    pub speed: f64,
    /// Let each client keep the cookies that it is sent, and send them back. Closed loops only
    #[arg(long, help_heading = REQUESTS)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cookies: bool,
    /// Add a header field, such as "Accept: text/plain". @FILE reads fields from a file, one per line, for a secret.
    /// Repeatable
    #[arg(long = "header", short = 'H', help_heading = REQUESTS, value_name = "FIELD")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Send TEXT as the request body. Several are used in turn, and {id} is replaced as in the path
    #[arg(long, aliases = ["data", "data-raw"], short = 'b', help_heading = REQUESTS, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<String>,
    /// Send the file's content as the request body; several are used in turn, after the texts of --body
    #[arg(long = "body-file", help_heading = REQUESTS, value_name = "FILE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body_files: Vec<PathBuf>,
    /// Request gzip-compressed responses; their compressed bytes are counted
    #[arg(long, help_heading = REQUESTS)]
    pub compressed: bool,
    /// Follow up to N redirects per request (301, 302, 303, 307, 308), to the same scheme, host and port only. The
    /// chain counts as one request with one time; expectations and checks apply to the last response [default: a
    /// redirect is a response like any other]
    #[arg(long, help_heading = REQUESTS, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub follow: u32,
    /// Fail a request as timeout if its response is not complete after this long; with --events, if no record comes for this
    /// long. The run waits this long, plus one second, after --duration
    // It is also the timeout of the wait for a free connection.
    #[arg(long, alias = "max-time", help_heading = REQUESTS, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub timeout: Duration,
    /// Measure event streams, such as tokens of a language model. The first record and the gaps between records are timed,
    /// and an error that the server reports in a stream is a failure
    #[arg(long, help_heading = RESPONSES, conflicts_with_all = ["expect_body", "expect_length"])]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub events: bool,
    /// Accept these response statuses [default: all below 400]
    #[arg(long, help_heading = RESPONSES, value_name = "STATUS[,STATUS…]", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect_status: Vec<u16>,
    /// Require each response body to have this many bytes [default: the length of the first one]
    #[arg(long, help_heading = RESPONSES, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_length: Option<u64>,
    /// Require each response body to equal TEXT or the content of FILE; any other is the failure body [default: the
    /// body returned twice before the run, if both were the same; above 4 KiB only a share of the bodies is compared]
    #[arg(long, help_heading = RESPONSES, value_name = "TEXT|@FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<String>,
    /// Accept any response body: length and bytes may differ between responses
    #[arg(long, help_heading = RESPONSES, conflicts_with_all = ["expect_body", "expect_length"])]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any_content: bool,
    /// Check each response and count the result, such as status==200 or duration<500ms. Also "status in 200,204",
    /// body.length==1024, 'body contains "text"', header.content-type==text/plain, "header.etag exists", json.a.b==1.
    /// Repeatable. A failed check does not fail the request: see --threshold "checks: rate>0.99"
    #[arg(long = "check", help_heading = RESPONSES, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Measure each phase of a request: blocked, connecting, tls, sending, waiting, receiving (1ns if the response
    /// arrives in one piece). Always on with stages, and if a threshold uses a phase
    #[arg(long, help_heading = RESPONSES)]
    pub phases: bool,
    /// Several requests instead of one: each operation sends one of them, drawn by weight or in turn.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<PlannedRequest>,
    /// The order of several requests: weighted, or sequential, for the journey of a user.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Order::is_default")]
    pub order: Order,
    /// A request that is sent once before the run: the values that it captures are there for all clients. Header fields,
    /// bodies and expectations of the driver are not its own.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<Box<PlannedRequest>>,
}

/// The HTTP implementation that is used.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The driver's own event loop: HTTP/1.1 and HTTP/2, with and without TLS.
    #[default]
    #[serde(alias = "auto")]
    #[value(alias = "auto")]
    Wire,
    /// The hyper library, for requests that differ only in numbers.
    Hyper,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_one(speed: &f64) -> bool {
    *speed == 1.0
}

impl Default for Settings {
    fn default() -> Self {
        default_settings()
    }
}

impl Settings {
    /// Returns the path to request from a server.
    pub(crate) fn path_at<'a>(&'a self, server: &'a ServerUrl) -> &'a str {
        self.path.as_deref().unwrap_or(&server.path)
    }

    /// Returns true if a status is expected.
    #[must_use]
    pub fn expects(&self, status: u16) -> bool {
        if self.expect_status.is_empty() {
            status < 400
        } else {
            self.expect_status.contains(&status)
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

    /// Returns the options for TLS.
    pub(crate) fn tls(&self) -> TlsOptions {
        TlsOptions {
            ca: self.tls_ca.clone(),
            insecure: self.tls_insecure,
            certificate: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            version: self.tls_version,
            full_handshakes: self.tls_full_handshakes,
        }
    }

    /// Describes the plan in one sentence. The sentence does not name the daemon: runs of one plan against several
    /// daemons are matched by it.
    #[must_use]
    pub fn sentence(plan: &Plan<Self>) -> String {
        let settings = &plan.driver;
        let asked = settings.asked();
        let pool = if open_loop(plan) {
            match Self::opening(plan) {
                Some(_) => format!(" over {} connections, opened first,", settings.connections),
                None => format!(" over {} connections", settings.connections),
            }
        } else {
            String::new()
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
        let think = thinking(settings);
        let streams = if settings.events {
            " as event streams"
        } else {
            ""
        };
        let load = match (&settings.replay, plan.groups.first()) {
            (Some(_), Some(group)) => format!(
                "{:.1} starts per second on average",
                group.rate.unwrap_or_default()
            ),
            _ => plan.load_sentence(),
        };
        format!(
            "{asked}{streams}{version}{followed}: {load}{think}{pool} for {}{}",
            duration::format(plan.timeline.measure),
            if plan.timeline.warmup.is_zero() {
                String::new()
            } else {
                format!(
                    " after {} of warm-up",
                    duration::format(plan.timeline.warmup)
                )
            }
        )
    }

    /// Names what is requested: `GET /x`, or the requests with their weights.
    fn asked(&self) -> String {
        let each = self.requests.iter().map(|request| {
            let of_group = request.group.as_ref();
            let of_group = of_group.map_or_else(String::new, |group| format!(" of {group}"));
            format!("{} {}{of_group}", request.name, request.weight)
        });
        let rows = match (&self.rows, &self.replay) {
            (Some(_), _) => ", with rows of a file".to_owned(),
            (None, Some(_)) => format!(", replayed from a log at speed {}", self.speed),
            (None, None) => String::new(),
        };
        match each.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => {
                let path = self.path.as_deref().unwrap_or("the URL");
                format!("{} {path}{rows}", self.method)
            }
            each => {
                let order = match self.order {
                    Order::Weighted => "by weight",
                    Order::Sequential => "in turn",
                };
                format!("{} requests {order} ({each}){rows}", self.requests.len())
            }
        }
    }

    /// Returns the number of connections of a whole run.
    #[must_use]
    pub fn connection_count(plan: &Plan<Self>) -> u64 {
        let users: u64 = plan.groups.iter().map(Group::most_clients).sum();
        users + Self::pool_size(plan)
    }

    /// Returns the number of connections that the groups with a rate share.
    pub(crate) fn pool_size(plan: &Plan<Self>) -> u64 {
        u64::from(open_loop(plan)) * plan.driver.connections
    }
}

/// Names the think time, as part of a sentence.
fn thinking(settings: &Settings) -> String {
    let think = settings.think.iter();
    think
        .map(|think| format!(", {think} of think time,"))
        .collect()
}

/// Returns true if requests of any group start at a rate, however fast the server is.
pub(crate) fn open_loop(plan: &Plan<Settings>) -> bool {
    !plan.groups.iter().all(Group::is_closed)
}
