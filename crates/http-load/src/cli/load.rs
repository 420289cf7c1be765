//! Options that shape the load, and the plan that they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use harness::duration;
use harness::plan::{Group, Plan, PlannedStage, Timeline};
use harness::schedule::Arrival;

use super::stages;
use crate::settings::{Engine, MOST_CONNECTIONS, Pacing, Settings};

/// Connections that are opened a second where they are held and nothing else is asked for.
const CONNECT_RATE: f64 = 20_000.0;
/// Load before the measurement where nothing else is asked for.
const WARMUP: Duration = Duration::from_secs(1);
/// Held connections are asked once in this time where no rate is given.
const ROUND_S: f64 = 60.0;

/// Options that shape the load; in a plan each is a field.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with = "plan")]
pub(super) struct Load {
    /// Connections: each one a user who asks again as soon as he is answered (k6's constant-vus, -u N), or with --rate,
    /// --rate-stage or --hold those that requests go over
    #[arg(
        long,
        short,
        visible_alias = "vus",
        visible_short_alias = 'u',
        value_name = "N",
        default_value_t = 100
    )]
    connections: u64,
    /// Users who come and go (k6's ramping-vus): their number goes evenly to that of each stage within its time, from 0
    /// at first, and each has a connection; may be given again
    #[arg(long, short, value_name = "DURATION:USERS[,…]", value_delimiter = ',', value_parser = stages::parse_users)]
    #[arg(conflicts_with_all = ["rate_stage", "duration", "rate", "hold", "connections"])]
    stage: Vec<PlannedStage>,
    /// A rate of requests that goes evenly to that of each stage within its time (k6's ramping-arrival-rate), over the
    /// --connections; may be given again
    #[arg(long, value_name = "DURATION:PER_SECOND[,…]", value_delimiter = ',', value_parser = stages::parse_rate)]
    #[arg(conflicts_with_all = ["duration", "rate", "hold"])]
    rate_stage: Vec<PlannedStage>,
    /// How long to measure
    #[arg(long, short, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    /// Load before that, which is not counted; with stages their beginning [default: 1s; with stages 0]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    warmup: Option<Duration>,
    /// Requests per second, whatever the server does (open loop; k6's constant-arrival-rate): latency counts from when a
    /// request was due
    #[arg(long, short = 'R', value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// How the starts of --rate are spread
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Arrival,
    /// Hold the connections: open them all first, at --connect-rate, then ask over one after the other, at --rate or
    /// each once a minute
    #[arg(long, conflicts_with = "no_keep_alive")]
    hold: bool,
    /// Open the connections at a rate per second before the load begins, with --rate or --hold [default: 20000 with
    /// --hold, otherwise as fast as can be, and requests do not wait for all of them]
    #[arg(long, value_name = "PER_SECOND")]
    connect_rate: Option<f64>,
    /// Begin the load when so much time has passed since the first connection was opened, even if not all are open, with
    /// --hold or --connect-rate [default: 30s and four times what they take at that rate]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    open_timeout: Option<Duration>,
    /// Addresses of this machine to connect from, each good for some 36,000 connections to one port: auto takes as many of
    /// 127.0.0.0/8 as the connections need, for a server on this machine [default: auto with --hold, otherwise the kernel
    /// chooses, and has some 28,000 ports]
    #[arg(long, value_name = "auto|ADDR[,ADDR…]", value_delimiter = ',')]
    source_addresses: Vec<String>,
    /// Print the distribution of latencies: it is always printed; taken because wrk has it
    #[arg(long)]
    latency: bool,
    /// Read all answers that are there before the next requests are sent: more throughput, each request a little later
    #[arg(long)]
    batch: bool,
    /// Requests on a connection before the first is answered (HTTP/1.1 pipelining): in a closed loop alone, so not with
    /// --rate, --rate-stage or --hold
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u32,
    /// Speak HTTP/2: over https:// as the server offers it, over http:// with prior knowledge
    #[arg(long)]
    http2: bool,
    /// Requests at the same time on each connection (HTTP/2)
    #[arg(long, value_name = "N", default_value_t = 1)]
    streams: u32,
    /// File of certificates (PEM) of those who may sign a server's, or of the server itself [default: whom this machine
    /// trusts]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Take any certificate
    #[arg(long)]
    tls_insecure: bool,
    /// Ask for answers that are compressed (gzip); they are counted as they come
    #[arg(long)]
    compressed: bool,
    /// A new connection for each request
    #[arg(long, alias = "disable-keepalive")]
    no_keep_alive: bool,
    /// Follow so many redirects of a request at most (301, 302, 303, 307, 308), to the same scheme, host and port; all of it
    /// is one request with one time, and what is expected or checked is its last answer [default: a redirect is an
    /// answer like any other]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    follow: u32,
    /// What speaks to the server: wire for HTTP/1.1 without TLS, hyper for the rest, auto for the one that can
    #[arg(long, value_enum, default_value = "auto")]
    engine: Engine,
    /// Method
    #[arg(long, short, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// Path to ask for, in place of the URL's: {id} in it is the number of the request, {id:N} its remainder by N
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// A field of the head, such as "Accept: text/plain", or @FILE with one a line, for a secret; may be given again
    #[arg(long, short = 'H', value_name = "FIELD")]
    header: Vec<String>,
    /// Content to send; several take turns, and {id} is put in as in the path
    #[arg(long, short = 'b', value_name = "TEXT")]
    body: Vec<String>,
    /// File of content to send; several take turns, after those of --body
    #[arg(long, value_name = "FILE")]
    body_file: Vec<PathBuf>,
    /// Time for a request and its answer; what takes longer fails as timeout. The run waits for it, and a second more,
    /// after --duration
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    timeout: Duration,
    /// Time for a connection to be made
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    connect_timeout: Duration,
    /// Statuses that are as they should be [default: all below 400]
    #[arg(long, value_name = "STATUS[,STATUS…]", value_delimiter = ',')]
    expect_status: Vec<u16>,
    /// Bytes of content that every answer must have [default: as many as the first one]
    #[arg(long, value_name = "BYTES")]
    expect_length: Option<u64>,
    /// Content that every answer must have, as a text or as @FILE; another one is the failure body [default: that of two
    /// answers before the run, where they have the same; of answers above 4 KiB a share is compared]
    #[arg(long, value_name = "TEXT|@FILE")]
    expect_body: Option<String>,
    /// Take any content: its length and its bytes may differ from answer to answer
    #[arg(long, conflicts_with_all = ["expect_body", "expect_length"])]
    any_content: bool,
    /// How to wait for the next start of --rate: a timer for each, one for all of half a millisecond, or none and a core
    /// for it
    #[arg(long, value_enum, default_value = "precise")]
    pacing: Pacing,
    /// Ask something about each answer and count it, as k6's check() does; may be given again: status==200, "status in
    /// 200,204", body.length==1024, 'body contains "text"', header.content-type==text/plain, "header.etag exists",
    /// json.a.b==1, duration<500ms. A check that fails fails no request: see --threshold "checks: rate>0.99"
    #[arg(long, value_name = "TEXT")]
    check: Vec<String>,
    /// Measure each phase of a request: blocked, connecting, tls, sending, waiting, receiving (1ns where an answer comes in
    /// one piece). With stages always, and where a threshold is about one
    #[arg(long)]
    phases: bool,
    /// Seed of everything drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Load {
    /// The plan that is asked for, not yet validated.
    pub(super) fn plan(&self) -> Plan<Settings> {
        let rate = match (self.rate, self.hold) {
            // More connections are refused by their own name, not by that of a rate that nobody gave.
            (None, true) => {
                let connections = self.connections.min(MOST_CONNECTIONS) as f64;
                Some((connections / ROUND_S).ceil().max(1.0))
            }
            (rate, _) => rate,
        };
        let connect_rate = match (self.connect_rate, self.hold) {
            (None, true) => Some(CONNECT_RATE),
            (rate, _) => rate,
        };
        let stages = [self.stage.as_slice(), &self.rate_stage].concat();
        let staged = !stages.is_empty();
        let group = Group {
            name: if self.hold { "held" } else { "requests" }.to_owned(),
            workers: match rate.is_some() || staged {
                true => 0,
                false => self.connections,
            },
            ramp: Duration::ZERO,
            rate,
            arrival: self.arrival,
            stages,
            ops: None,
        };
        let timeline = Timeline {
            warmup: self.warmup.unwrap_or(match staged {
                true => Duration::ZERO,
                false => WARMUP,
            }),
            measure: match staged {
                true => Duration::ZERO,
                false => self.duration,
            },
            drain: self.timeout.saturating_add(Duration::from_secs(1)),
        };
        let driver = Settings {
            engine: self.engine,
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.header.clone(),
            body: self.body.clone(),
            body_files: self.body_file.clone(),
            keep_alive: !self.no_keep_alive,
            follow: self.follow,
            pipeline: self.pipeline,
            http2: self.http2,
            streams: self.streams,
            tls_ca: self.tls_ca.clone(),
            tls_insecure: self.tls_insecure,
            compressed: self.compressed,
            batch: self.batch,
            connections: self.connections,
            connect_rate,
            open_timeout: self.open_timeout,
            source_addresses: match self.hold && self.source_addresses.is_empty() {
                true => vec!["auto".to_owned()],
                false => self.source_addresses.clone(),
            },
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            expect_status: self.expect_status.clone(),
            expect_length: self.expect_length,
            expect_body: self.expect_body.clone(),
            any_content: self.any_content,
            pacing: self.pacing,
            checks: self.check.clone(),
            phases: self.phases || staged,
        };
        let mut plan = Plan {
            seed: self.seed,
            ..Plan::new("command-line", timeline, vec![group], driver)
        };
        plan.measure_the_stages();
        plan
    }
}
