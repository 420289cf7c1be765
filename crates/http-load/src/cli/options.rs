//! Options that shape the load, and the plan that is built from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use load::duration;
use load::plan::{Group, Plan, PlannedStage, Timeline};
use load::schedule::Arrival;

use super::stages;
use crate::settings::{Engine, MAX_CONNECTIONS, Pacing, Settings};

/// Default of `--connect-rate` with `--hold`, in connections per second.
const CONNECT_RATE: f64 = 20_000.0;
/// Default of `--warmup` without stages.
const WARMUP: Duration = Duration::from_secs(1);
/// Default interval between two requests on a held connection, in seconds.
const ROUND_S: f64 = 60.0;

/// Options that shape the load; each is a field of a plan.
#[derive(Debug, Args)]
pub(super) struct Load {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    connecting: ConnectionOptions,
    #[command(flatten)]
    requests: RequestOptions,
    #[command(flatten)]
    responses: ResponseOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
#[group(multiple = true, conflicts_with = "plan")]
struct LoadOptions {
    /// Set the number of connections. Without a rate, each is a client that sends its next request as soon as the last
    /// is answered (k6's constant-vus, -u N). With --rate, --rate-stage or --hold, the requests share them
    #[arg(
        long,
        short,
        visible_alias = "vus",
        visible_short_alias = 'u',
        value_name = "N",
        default_value_t = 100
    )]
    connections: u64,
    /// Vary the number of clients in stages (k6's ramping-vus): within each DURATION it changes evenly to USERS,
    /// starting from 0; each client has its own connection. Repeatable
    #[arg(long, short, value_name = "DURATION:USERS[,…]", value_delimiter = ',', value_parser = stages::parse_users)]
    #[arg(conflicts_with_all = ["rate_stage", "duration", "rate", "hold", "connections"])]
    stage: Vec<PlannedStage>,
    /// Start this many requests per second, however fast the server is (open loop; k6's constant-arrival-rate). Latency
    /// is measured from the time a request was due
    #[arg(long, short = 'R', value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Vary the request rate in stages (k6's ramping-arrival-rate): within each DURATION it changes evenly to
    /// PER_SECOND, over the --connections. Repeatable
    #[arg(long, value_name = "DURATION:PER_SECOND[,…]", value_delimiter = ',', value_parser = stages::parse_rate)]
    #[arg(conflicts_with_all = ["duration", "rate", "hold"])]
    rate_stage: Vec<PlannedStage>,
    /// Choose how the starts of --rate are distributed
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Arrival,
    /// Choose how to wait for the next start of --rate. precise: one timer per start; quantum: one timer per 500 µs;
    /// spin: busy-poll (uses a full core)
    #[arg(long, value_enum, default_value = "precise")]
    pacing: Pacing,
    /// Hold the connections open: open them all at --connect-rate first, then use one after the other, at --rate or
    /// each once a minute
    #[arg(long, conflicts_with = "no_keep_alive")]
    hold: bool,
    /// Measure for this long
    #[arg(long, short, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    /// Warm up for this long before measuring; requests of the warm-up are not counted. With stages it is their first
    /// part [default: 1s; with stages 0]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    warmup: Option<Duration>,
    /// Set the random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
#[group(multiple = true, conflicts_with = "plan")]
struct ConnectionOptions {
    /// Choose the HTTP implementation: wire for HTTP/1.1 without TLS, hyper for everything else, auto for wire if it
    /// suffices
    #[arg(long, value_enum, default_value = "auto")]
    engine: Engine,
    /// Open this many connections per second before the load starts, with --rate or --hold [default: 20000 with --hold;
    /// otherwise as fast as possible, and requests do not wait for all of them]
    #[arg(long, value_name = "PER_SECOND")]
    connect_rate: Option<f64>,
    /// Start the load at the latest this long after the first connection attempt, even if some connections are not open
    /// yet, with --hold or --connect-rate [default: 30s plus four times --connections / --connect-rate]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    open_timeout: Option<Duration>,
    /// Fail a connection attempt after this long
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    connect_timeout: Duration,
    /// Connect from these local addresses, each good for about 36,000 connections to one server port. auto takes as
    /// many of 127.0.0.0/8 as needed, for a server on this machine [default: auto with --hold; otherwise the kernel
    /// chooses, and has about 28,000 ports]
    #[arg(long, value_name = "auto|ADDR[,ADDR…]", value_delimiter = ',')]
    source_addresses: Vec<String>,
    /// Open a new connection for each request
    #[arg(long, alias = "disable-keepalive")]
    no_keep_alive: bool,
    /// Send up to N requests on a connection before the first response (HTTP/1.1 pipelining). Closed loops only, so not
    /// with --rate, --rate-stage or --hold
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u32,
    /// Use HTTP/2: negotiated over https:// (ALPN), with prior knowledge over http://
    #[arg(long)]
    http2: bool,
    /// Keep N requests in flight on each connection (HTTP/2)
    #[arg(long, value_name = "N", default_value_t = 1)]
    streams: u32,
    /// Trust the certificates in this PEM file: CAs, or the server's own certificate [default: the CAs that this
    /// machine trusts]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Accept any server certificate
    #[arg(long)]
    tls_insecure: bool,
    /// Read all responses that have arrived before sending the next requests: more throughput, slightly later requests
    #[arg(long)]
    batch: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
#[group(multiple = true, conflicts_with = "plan")]
struct RequestOptions {
    /// Set the request method
    #[arg(long, short, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// Request this path instead of the URL's: {id} in it becomes the number of the request, {id:N} that number modulo
    /// N
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Add a header field, such as "Accept: text/plain", or @FILE with one per line, for a secret. Repeatable
    #[arg(long, short = 'H', value_name = "FIELD")]
    header: Vec<String>,
    /// Send TEXT as the request body; several are used in turn, and {id} is replaced as in the path
    #[arg(long, short = 'b', value_name = "TEXT")]
    body: Vec<String>,
    /// Send the file's content as the request body; several are used in turn, after those of --body
    #[arg(long, value_name = "FILE")]
    body_file: Vec<PathBuf>,
    /// Request gzip-compressed responses; their compressed bytes are counted
    #[arg(long)]
    compressed: bool,
    /// Follow up to N redirects per request (301, 302, 303, 307, 308), to the same scheme, host and port only. The
    /// chain counts as one request with one time; expectations and checks apply to the last response [default: a
    /// redirect is a response like any other]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    follow: u32,
    /// Fail a request as timeout if its response is not complete after this long. The run waits this long, plus one
    /// second, after --duration
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Responses")]
#[group(multiple = true, conflicts_with = "plan")]
struct ResponseOptions {
    /// Accept these response statuses [default: all below 400]
    #[arg(long, value_name = "STATUS[,STATUS…]", value_delimiter = ',')]
    expect_status: Vec<u16>,
    /// Require each response body to have this many bytes [default: the length of the first one]
    #[arg(long, value_name = "BYTES")]
    expect_length: Option<u64>,
    /// Require each response body to equal TEXT or the content of FILE; any other is the failure body [default: the
    /// body returned twice before the run, if both were the same; above 4 KiB only a share of the bodies is compared]
    #[arg(long, value_name = "TEXT|@FILE")]
    expect_body: Option<String>,
    /// Accept any response body: length and bytes may differ between responses
    #[arg(long, conflicts_with_all = ["expect_body", "expect_length"])]
    any_content: bool,
    /// Check each response and count the result, like k6's check(); repeatable: status==200, "status in 200,204",
    /// body.length==1024, 'body contains "text"', header.content-type==text/plain, "header.etag exists", json.a.b==1,
    /// duration<500ms. A failed check does not fail the request: see --threshold "checks: rate>0.99"
    #[arg(long, value_name = "TEXT")]
    check: Vec<String>,
    /// Measure each phase of a request: blocked, connecting, tls, sending, waiting, receiving (1ns if the response
    /// arrives in one piece). Always on with stages, and if a threshold uses a phase
    #[arg(long)]
    phases: bool,
    /// Accept the option of wrk; the latency distribution is always printed
    #[arg(long)]
    latency: bool,
}

impl Load {
    /// Builds the plan from the options, without validating it.
    pub(super) fn plan(&self) -> Plan<Settings> {
        let rate = match (self.load.rate, self.load.hold) {
            // The error for too many connections must name that option, not a rate that nobody gave.
            (None, true) => {
                let connections = self.load.connections.min(MAX_CONNECTIONS) as f64;
                Some((connections / ROUND_S).ceil().max(1.0))
            }
            (rate, _) => rate,
        };
        let connect_rate = match (self.connecting.connect_rate, self.load.hold) {
            (None, true) => Some(CONNECT_RATE),
            (rate, _) => rate,
        };
        let stages = [self.load.stage.as_slice(), &self.load.rate_stage].concat();
        let staged = !stages.is_empty();
        let group = Group {
            name: if self.load.hold { "held" } else { "requests" }.to_owned(),
            clients: match rate.is_some() || staged {
                true => 0,
                false => self.load.connections,
            },
            ramp: Duration::ZERO,
            rate,
            arrival: self.load.arrival,
            stages,
            ops: None,
        };
        let timeline = Timeline {
            warmup: self.load.warmup.unwrap_or(match staged {
                true => Duration::ZERO,
                false => WARMUP,
            }),
            measure: match staged {
                true => Duration::ZERO,
                false => self.load.duration,
            },
            drain: self.requests.timeout.saturating_add(Duration::from_secs(1)),
        };
        let driver = Settings {
            engine: self.connecting.engine,
            method: self.requests.method.clone(),
            path: self.requests.path.clone(),
            headers: self.requests.header.clone(),
            body: self.requests.body.clone(),
            body_files: self.requests.body_file.clone(),
            keep_alive: !self.connecting.no_keep_alive,
            follow: self.requests.follow,
            pipeline: self.connecting.pipeline,
            http2: self.connecting.http2,
            streams: self.connecting.streams,
            tls_ca: self.connecting.tls_ca.clone(),
            tls_insecure: self.connecting.tls_insecure,
            compressed: self.requests.compressed,
            batch: self.connecting.batch,
            connections: self.load.connections,
            connect_rate,
            open_timeout: self.connecting.open_timeout,
            source_addresses: match self.load.hold && self.connecting.source_addresses.is_empty() {
                true => vec!["auto".to_owned()],
                false => self.connecting.source_addresses.clone(),
            },
            timeout: self.requests.timeout,
            connect_timeout: self.connecting.connect_timeout,
            expect_status: self.responses.expect_status.clone(),
            expect_length: self.responses.expect_length,
            expect_body: self.responses.expect_body.clone(),
            any_content: self.responses.any_content,
            pacing: self.load.pacing,
            checks: self.responses.check.clone(),
            phases: self.responses.phases || staged,
        };
        let mut plan = Plan {
            seed: self.load.seed,
            ..Plan::new("command-line", timeline, vec![group], driver)
        };
        plan.measure_the_stages();
        plan
    }
}
