//! The driver's own settings: the `[driver]` table of a plan.

use std::path::PathBuf;
use std::time::Duration;

use harness::duration;
use harness::plan::{Group, Invalid, Plan};
use serde::{Deserialize, Serialize};

use crate::checks::Checks;
use crate::target::Server;

mod load;

/// What is asked for where neither plan nor URL names a path: the smallest of the files that every daemon has.
pub(crate) const DEFAULT_PATH: &str = "/1kb.txt";
/// Most requests that wait for their answers on one connection.
const MOST_PIPELINED: u32 = 1_000;
/// Starts that share a timer with [`Pacing::Quantum`] are due within so many nanoseconds.
const QUANTUM_NS: u64 = 500_000;
/// Most requests at the same time on one HTTP/2 connection.
const MOST_STREAMS: u32 = 10_000;
const PIPELINE: &str = "the engine hyper sends nothing before the last request is answered: take --engine wire over http://, or --http2 with --streams";
const BATCH: &str = "the engine hyper can't: leave it out, or take --engine wire over http://";
/// Longest time for a request or a connection: what a histogram can hold.
const LONGEST: Duration = Duration::from_secs(3600);
/// Time for connections to be open that a slow server may need, whatever their number.
const OPENING: Duration = Duration::from_secs(30);
/// Most connections of a run.
pub(crate) const MOST_CONNECTIONS: u64 = 10_000_000;

/// The driver's own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What speaks to the server.
    pub engine: Engine,
    /// The method.
    pub method: String,
    /// The path to ask for; absent: that of the URL, or that of the file of 1 KB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Fields of the head beside `Host`, as `Name: value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Contents to send, in rotation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<String>,
    /// Files of contents to send, in rotation after `body`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub body_files: Vec<PathBuf>,
    /// Whether a connection serves one request after the other.
    pub keep_alive: bool,
    /// Redirects that a request follows at most, to the same scheme, host and port; 0: a redirect is an answer like any
    /// other.
    pub follow: u32,
    /// Requests on one connection before the first answer (RFC 9112 §9.3.2).
    pub pipeline: u32,
    /// Whether HTTP/2 is spoken: as the server offers it over TLS (ALPN), or with prior knowledge (RFC 9113 §3.3).
    pub http2: bool,
    /// Requests at the same time on one HTTP/2 connection.
    pub streams: u32,
    /// Certificates of those who may sign a server's, as a file in PEM; absent: whom this machine trusts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// Whether any certificate is taken.
    pub tls_insecure: bool,
    /// Whether answers that are compressed (gzip) are asked for. They are counted as they come.
    pub compressed: bool,
    /// Whether answers that are there are all read before the next requests are sent: more throughput, later requests.
    pub batch: bool,
    /// Connections of the groups with a rate, opened before they are needed.
    pub connections: u64,
    /// Most connections opened a second, of those; absent: as fast as they can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_rate: Option<f64>,
    /// Longest time for all connections to be open, where they are opened at a rate; then the load begins with those that
    /// are. Absent: 30 s and four times what their number takes at that rate.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub open_timeout: Option<Duration>,
    /// Addresses of this machine to connect from: `auto` for as many of 127.0.0.0/8 as the connections need, or
    /// addresses. Absent: the kernel chooses, and has some 28,000 ports for one server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<String>,
    /// Time for a request and its answer, and for what waits for a connection.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// Time for a connection to be there.
    #[serde(with = "duration")]
    pub connect_timeout: Duration,
    /// Statuses that are no failure; empty: all below 400.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect_status: Vec<u16>,
    /// Bytes of content that every answer has; absent: as many as the first one had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_length: Option<u64>,
    /// The content that every answer has: a text, or behind an @ the name of a file; absent: that of the answers before the
    /// run, where all requests are alike and two of them were answered with the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<String>,
    /// Whether contents may differ, in their length too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any_content: bool,
    /// How the driver waits for the next start of an open loop.
    pub pacing: Pacing,
    /// What is asked about each answer, such as `status==200` or `duration<500ms`: counted, and no failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// Whether each phase of a request is measured: costs some hundred nanoseconds a request.
    pub phases: bool,
}

/// What speaks to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// The cheapest that can do what is asked for.
    #[default]
    Auto,
    /// An own readiness loop that speaks HTTP/1.1.
    Wire,
    /// The library hyper: HTTP/1.1 and HTTP/2, with and without TLS.
    Hyper,
}

/// How the driver waits for the next start of an open loop. How late it was is measured in each (`lag`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// A timer for each start: late by tens of microseconds.
    #[default]
    Precise,
    /// A timer for all starts of half a millisecond: late by as much, and cheaper at high rates.
    Quantum,
    /// No timer: the driver looks again and again, and takes a whole core for it.
    Spin,
}

impl Pacing {
    /// When to look for a start that is due then: at the latest, in nanoseconds of any clock.
    pub(crate) fn look_at(self, due: u64) -> u64 {
        match self {
            Self::Precise => due,
            Self::Quantum => due.div_ceil(QUANTUM_NS).saturating_mul(QUANTUM_NS),
            Self::Spin => 0,
        }
    }
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
    /// The path to ask a server for.
    pub(crate) fn path_at<'a>(&'a self, server: &'a Server) -> &'a str {
        let named = self.path.as_deref().or(server.path.as_deref());
        named.unwrap_or(DEFAULT_PATH)
    }

    /// Whether a status is as it should be.
    #[must_use]
    pub fn expects(&self, status: u16) -> bool {
        match self.expect_status.is_empty() {
            true => status < 400,
            false => self.expect_status.contains(&status),
        }
    }

    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first field that can't be run, with the remedy.
    pub fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        let settings = &plan.driver;
        if http::Method::from_bytes(settings.method.as_bytes()).is_err()
            || settings.method == "CONNECT"
        {
            let problem = format!(
                "`{}` is no method that can be sent: GET, say",
                settings.method
            );
            return Err(Invalid::new("driver.method (--method)", problem));
        }
        if !(1..=MOST_PIPELINED).contains(&settings.pipeline) {
            let problem = format!(
                "{} is not between 1 and {MOST_PIPELINED}",
                settings.pipeline
            );
            return Err(Invalid::new("driver.pipeline (--pipeline)", problem));
        }
        if settings.pipeline > 1 && !settings.keep_alive {
            let problem = "needs connections that are kept: leave out --no-keep-alive";
            return Err(Invalid::new("driver.pipeline (--pipeline)", problem));
        }
        if settings.pipeline > 1 && settings.follow > 0 {
            let problem = "a redirect is followed before the connection is asked the next thing: leave out --pipeline or --follow";
            return Err(Invalid::new("driver.follow (--follow)", problem));
        }
        settings.validate_engine()?;
        if !(1..=MOST_CONNECTIONS).contains(&settings.connections) {
            let problem = format!("{} is not between 1 and 10,000,000", settings.connections);
            return Err(Invalid::new("driver.connections (--connections)", problem));
        }
        if settings
            .connect_rate
            .is_some_and(|rate| !rate.is_finite() || rate < 1.0)
        {
            let problem =
                "is below 1 a second: raise it, or leave it out to connect as fast as can be";
            return Err(Invalid::new(
                "driver.connect_rate (--connect-rate)",
                problem,
            ));
        }
        for (field, time) in [
            ("timeout", settings.timeout),
            ("connect_timeout", settings.connect_timeout),
        ] {
            if time.is_zero() || time > LONGEST {
                return Err(Invalid::new(
                    format!("driver.{field} (--{})", field.replace('_', "-")),
                    "is not between 0 and an hour: give a time such as 30s",
                ));
            }
        }
        if let Some(status) = settings
            .expect_status
            .iter()
            .find(|status| !(100..600).contains(*status))
        {
            let problem = format!("{status} is no status: one is between 100 and 599");
            return Err(Invalid::new(
                "driver.expect_status (--expect-status)",
                problem,
            ));
        }
        settings.validate_content()?;
        load::validate(plan)?;
        let checks = Checks::parse(&settings.checks)?;
        if settings.method == "HEAD" && checks.need_body() {
            let problem =
                "an answer to HEAD has no content: ask about its status or its header fields";
            return Err(Invalid::new("driver.checks (--check)", problem));
        }
        Ok(())
    }

    /// Returns the longest time for all connections to be open, before the load begins: where they are opened at a rate
    /// of their own, and kept.
    #[must_use]
    pub fn opening(plan: &Plan<Self>) -> Option<Duration> {
        let settings = &plan.driver;
        let rate = settings.connect_rate.filter(|rate| *rate >= 1.0)?;
        let opens = settings.keep_alive && open_loop(plan);
        let takes = Duration::try_from_secs_f64(settings.connections as f64 / rate);
        let default = || takes.map_or(LONGEST, |takes| (takes * 4 + OPENING).min(LONGEST));
        opens.then(|| settings.open_timeout.unwrap_or_else(default))
    }

    fn validate_content(&self) -> Result<(), Invalid> {
        let invalid = |field: &str, problem: &str| {
            let option = format!("driver.{field} (--{})", field.replace('_', "-"));
            Err(Invalid::new(option, problem))
        };
        match (&self.expect_body, self.expect_length, self.any_content) {
            (Some(_), Some(_), _) => invalid(
                "expect_length",
                "--expect-body has a length: leave one of them out",
            ),
            (Some(_), _, true) | (_, Some(_), true) => invalid(
                "any_content",
                "takes whatever comes: leave it out, or --expect-body and --expect-length",
            ),
            (Some(_), ..) if self.method == "HEAD" => invalid(
                "expect_body",
                "an answer to HEAD has no content: leave it out",
            ),
            _ => Ok(()),
        }
    }

    /// Whether the engine can do what is asked for, as far as that does not depend on the server.
    fn validate_engine(&self) -> Result<(), Invalid> {
        let invalid = |field: &str, problem: &str| {
            let option = format!("driver.{field} (--{})", field.replace('_', "-"));
            Err(Invalid::new(option, problem))
        };
        let by_hyper = self.engine == Engine::Hyper || self.http2;
        if self.engine == Engine::Wire && self.http2 {
            return invalid(
                "engine",
                "wire speaks HTTP/1.1 alone: take hyper or auto, or leave out --http2",
            );
        }
        if !(1..=MOST_STREAMS).contains(&self.streams) {
            let problem = format!("{} is not between 1 and {MOST_STREAMS}", self.streams);
            return invalid("streams", &problem);
        }
        if self.streams > 1 && !self.http2 {
            return invalid(
                "streams",
                "only HTTP/2 answers several requests at the same time: add --http2",
            );
        }
        if self.streams > 1 && !self.keep_alive {
            return invalid(
                "streams",
                "needs connections that are kept: leave out --no-keep-alive",
            );
        }
        if self.pipeline > 1 && by_hyper {
            return invalid("pipeline", PIPELINE);
        }
        if self.batch && by_hyper {
            return invalid("batch", BATCH);
        }
        if self.tls_insecure && self.tls_ca.is_some() {
            return invalid(
                "tls_ca",
                "means nothing where any certificate is taken: leave out one of --tls-ca and --tls-insecure",
            );
        }
        Ok(())
    }

    /// Settles on the engine for servers of which some speak TLS or none.
    ///
    /// # Errors
    /// The engine that was named can't do it, with the remedy.
    pub fn choose_engine(&mut self, tls: bool) -> Result<(), Invalid> {
        if tls && self.engine == Engine::Wire {
            let problem = "wire speaks no TLS: take hyper or auto, or a URL with http://";
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

    /// The plan as a sentence. It does not name the daemon: runs of one plan against several are compared by it.
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

    /// Connections of a whole run.
    #[must_use]
    pub fn connections_of(plan: &Plan<Self>) -> u64 {
        let users: u64 = plan.groups.iter().map(Group::most_workers).sum();
        let pool = if open_loop(plan) {
            plan.driver.connections
        } else {
            0
        };
        users + pool
    }
}

/// Whether requests start at a rate, whatever the server does.
pub(crate) fn open_loop(plan: &Plan<Settings>) -> bool {
    !plan.groups.iter().all(Group::is_closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_of_a_quantum_share_a_look_that_is_never_early() {
        for due in [0, 1, QUANTUM_NS - 1, QUANTUM_NS, QUANTUM_NS + 1, u64::MAX] {
            let look = Pacing::Quantum.look_at(due);
            assert!(look >= due, "{due}");
            assert!(look - due < QUANTUM_NS, "{due}");
        }
        assert_eq!(
            Pacing::Quantum.look_at(1),
            Pacing::Quantum.look_at(QUANTUM_NS)
        );
        assert_eq!(
            (Pacing::Precise.look_at(7), Pacing::Spin.look_at(7)),
            (7, 0)
        );
    }
}
