//! Checks of the settings against the load, before a daemon is launched or a request is sent.

use load::duration;
use load::net::sources;
use load::net::url::ServerUrl;
use load::plan::{Invalid, Plan};
use measure::units;

use crate::mix::{self, Mix, MixRequest, Needs};
use crate::requests::Requests;
use crate::roles::checks::Checks;
use crate::settings::{Engine, MAX_CONNECTIONS, MAX_TIMEOUT, Settings, open_loop};

/// Maximum number of pipelined requests on one connection.
const MAX_PIPELINED: u64 = 1_000;
/// Maximum number of requests in flight on one HTTP/2 connection.
const MAX_STREAMS: u64 = 10_000;
const UNKEPT: &str = "needs persistent connections: leave out --no-keep-alive";

/// Checks that a setting is between 1 and `most`.
fn within(setting: &str, number: u64, most: u64) -> Result<(), Invalid> {
    if (1..=most).contains(&number) {
        Ok(())
    } else {
        Err(Invalid::setting(
            setting,
            format!("{number} is not between 1 and {}", units::count(most)),
        ))
    }
}

impl Settings {
    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first invalid field, with the remedy.
    pub fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        let settings = &plan.driver;
        within("pipeline", settings.pipeline.into(), MAX_PIPELINED)?;
        if settings.pipeline > 1 && !settings.keep_alive {
            return Err(Invalid::setting("pipeline", UNKEPT));
        }
        if settings.pipeline > 1 && settings.follow > 0 {
            let problem = "a redirect is followed before the next request is sent on the connection: leave out --pipeline or --follow";
            return Err(Invalid::setting("follow", problem));
        }
        settings.validate_engine()?;
        within("connections", settings.connections, MAX_CONNECTIONS)?;
        let rate = settings.connect_rate;
        if rate.is_some_and(|rate| !rate.is_finite() || rate < 1.0) {
            let problem =
                "is below 1 per second: raise it, or leave it out to connect as fast as possible";
            return Err(Invalid::setting("connect_rate", problem));
        }
        for (setting, time) in [
            ("timeout", settings.timeout),
            ("connect_timeout", settings.connect_timeout),
        ] {
            if time.is_zero() || time > MAX_TIMEOUT {
                let problem = "must be above 0 and at most 1h: give a duration such as 30s";
                return Err(Invalid::setting(setting, problem));
            }
        }
        settings.validate_request()?;
        validate_load(plan)?;
        let checks = Checks::parse(&settings.checks)?;
        if settings.events && checks.need_body() {
            let problem = "the body of an event stream is not kept: check its status, its length or its header fields";
            return Err(Invalid::new("driver.checks (--check)", problem));
        }
        if settings.method == "HEAD" && checks.need_body() {
            let problem = "a response to HEAD has no body: check its status or its header fields";
            return Err(Invalid::new("driver.checks (--check)", problem));
        }
        Ok(())
    }

    /// Checks that the engine supports the settings, as far as that does not depend on the server.
    pub(crate) fn validate_engine(&self) -> Result<(), Invalid> {
        let by_hyper = self.engine == Engine::Hyper;
        let is_one = self.requests.is_empty() && self.setup.is_none();
        let is_one = is_one && self.rows.is_none() && self.replay.is_none();
        if by_hyper && (!is_one || self.cookies || self.think.is_some()) {
            let problem = "the hyper engine sends one request again and again, without rows, cookies and think time: leave it out, or use --engine wire";
            return Err(Invalid::setting("engine", problem));
        }
        within("streams", self.streams.into(), MAX_STREAMS)?;
        if self.streams > 1 && !self.http2 {
            let problem =
                "only HTTP/2 allows several concurrent requests on a connection: add --http2";
            return Err(Invalid::setting("streams", problem));
        }
        if self.streams > 1 && !self.keep_alive {
            return Err(Invalid::setting("streams", UNKEPT));
        }
        if self.pipeline > 1 && (by_hyper || self.http2) {
            let problem = "the hyper engine cannot pipeline, and HTTP/2 has --streams instead: use --engine wire without --http2, or --streams";
            return Err(Invalid::setting("pipeline", problem));
        }
        if self.events && by_hyper {
            let problem = "event streams are read by the engine wire: leave out --engine hyper";
            return Err(Invalid::setting("events", problem));
        }
        Ok(())
    }

    /// Checks the settings of one request.
    pub(crate) fn validate_request(&self) -> Result<(), Invalid> {
        let method = &self.method;
        if http::Method::from_bytes(method.as_bytes()).is_err() || method == "CONNECT" {
            let problem = format!("`{method}` is not a valid HTTP method (e.g. GET)");
            return Err(Invalid::setting("method", problem));
        }
        let mut statuses = self.expect_status.iter();
        if let Some(status) = statuses.find(|status| !(100..600).contains(*status)) {
            let problem =
                format!("{status} is not an HTTP status: use a number between 100 and 599");
            return Err(Invalid::setting("expect_status", problem));
        }
        self.validate_content()
    }

    fn validate_content(&self) -> Result<(), Invalid> {
        if self.events {
            self.validate_events()?;
        }
        let (setting, problem) = match (&self.expect_body, self.expect_length, self.any_content) {
            (Some(_), Some(_), _) => (
                "expect_length",
                "--expect-body already sets the length: leave out --expect-length or --expect-body",
            ),
            (Some(_), _, true) | (_, Some(_), true) => (
                "any_content",
                "accepts any body: leave it out, or leave out --expect-body and --expect-length",
            ),
            (Some(_), ..) if self.method == "HEAD" => (
                "expect_body",
                "a response to HEAD has no body: leave it out",
            ),
            _ => return Ok(()),
        };
        Err(Invalid::setting(setting, problem))
    }
}

impl Settings {
    /// Checks the settings of event streams, whose bodies are read record by record and not kept.
    fn validate_events(&self) -> Result<(), Invalid> {
        let (setting, problem) = match () {
            () if self.method == "HEAD" => (
                "events",
                "a response to HEAD has no body: use --method GET or POST",
            ),
            () if self.pipeline > 1 => (
                "pipeline",
                "an event stream occupies its connection: leave it out, and give more --connections, or --http2 --streams",
            ),
            () if self.compressed => (
                "compressed",
                "the records of a compressed stream can't be read: leave it out, or leave out --events",
            ),
            () if self.expect_length.is_some() => (
                "expect_length",
                "event streams have no fixed length: leave it out, or leave out --events",
            ),
            () if self.expect_body.is_some() => (
                "expect_body",
                "event streams are read record by record: leave it out, or leave out --events",
            ),
            () => return Ok(()),
        };
        Err(Invalid::setting(setting, problem))
    }
}

/// Checks that the settings fit the load, and that the files and addresses they name exist.
///
/// # Errors
/// The first invalid field, with the remedy.
fn validate_load(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let settings = &plan.driver;
    let is_open = open_loop(plan);
    if settings.open_timeout.is_some() && Settings::opening(plan).is_none() {
        let problem = "has no effect if the load does not wait for connections: give --keep-open, or a rate (--rate) and a \
            --connect-rate, or leave it out";
        return Err(Invalid::setting("open_timeout", problem));
    }
    if is_open && settings.pipeline > 1 {
        let problem = "has no effect with a rate, where each request takes a free connection: leave it out, and \
            give more --connections instead; or leave out the rate";
        return Err(Invalid::setting("pipeline", problem));
    }
    if !is_open && settings.connect_rate.is_some() {
        let problem = "has no effect in a closed loop, where each client connects when it starts: give a rate (--rate, --keep-open), \
            or leave it out; in a plan, a group's `ramp` spreads the starts of its clients";
        return Err(Invalid::setting("connect_rate", problem));
    }
    if settings.think.is_some() {
        let problem = if plan.groups.iter().all(|group| !group.is_closed()) {
            "is the pause of a client after its answer, and a rate starts requests whether or not others are answered: leave it out, or give clients (--connections without a rate)"
        } else if settings.pipeline > 1 || settings.streams > 1 {
            "is a pause after the answer, before the next request: leave out --pipeline and --streams"
        } else {
            ""
        };
        if !problem.is_empty() {
            return Err(Invalid::setting("think", problem));
        }
    }
    validate_opening(plan)?;
    settings.tls().validate()?;
    let connections = Settings::connection_count(plan);
    // The ports of a running server are known once its URL is read; a launched daemon has one.
    if plan.daemon.is_some() {
        sources::check_ports(
            &settings.source_addresses,
            connections,
            Some(plan.instances),
        )?;
    }
    sources::addresses(&settings.source_addresses, connections, [])?;
    validate_mix(plan)
}

/// Checks each request of the plan, and what it uses. Header fields and bodies are the same for every server.
fn validate_mix(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let (settings, mix) = (&plan.driver, Mix::new(plan)?);
    for (index, request) in mix.requests.iter().enumerate() {
        let valid = request.settings.validate_request();
        valid.map_err(|error| mix::at(&settings.requests, index, error))?;
    }
    let requests = mix.requests_to(&ServerUrl::anywhere(), &settings.requests)?;
    let setup = mix.setup_requests(&ServerUrl::anywhere())?;
    let needs = Needs::new(plan, &mix, &requests)?;
    let use_rows = requests
        .iter()
        .chain(&setup)
        .any(|requests| requests.use_rows);
    if settings.rows.is_some() && !use_rows {
        let columns = mix.names.columns.join("}}, {{");
        let problem = format!(
            "no request uses a column of it: write {{{{{columns}}}}} in a path, header field or body, or leave it out"
        );
        return Err(Invalid::setting("rows", problem));
    }
    let repeats_rows = requests.iter().any(Requests::use_rows_after_redirect);
    if settings.follow > 0 && repeats_rows {
        let problem = "another request has read the next row when a redirect arrives, so header fields and bodies can't be written again: leave out --follow, or name columns in paths only";
        return Err(Invalid::setting("follow", problem));
    }
    if settings.events && mix.requests.iter().any(MixRequest::needs_body) {
        let problem = "the body of an event stream is not kept, so no value can be taken from it: capture header fields, or values of [driver.setup]";
        return Err(Invalid::new("driver.requests", problem));
    }
    validate_memory(plan, &mix, !needs.is_empty())
}

/// Checks that clients can remember what they take from answers.
fn validate_memory(plan: &Plan<Settings>, mix: &Mix, has_needs: bool) -> Result<(), Invalid> {
    let settings = &plan.driver;
    let (field, what) = if settings.cookies {
        ("driver.cookies (--cookies)", "cookies")
    } else if has_needs
        || mix
            .requests
            .iter()
            .any(|request| !request.captures.is_empty())
    {
        ("driver.requests", "captured values")
    } else {
        return Ok(());
    };
    let problem = if open_loop(plan) {
        format!(
            "{what} are kept by clients, and requests at a rate have none: give clients instead of the rate, or take a token for all in [driver.setup]"
        )
    } else if settings.pipeline > 1 || settings.streams > 1 {
        format!(
            "{what} come with an answer, before the next request of the client: leave out --pipeline and --streams"
        )
    } else {
        return Ok(());
    };
    Err(Invalid::new(field, problem))
}

/// Checks the time in which connections are opened before they are needed.
fn validate_opening(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let settings = &plan.driver;
    let (Some(rate), Some(limit)) = (settings.connect_rate, Settings::opening(plan)) else {
        return Ok(());
    };
    let connections = settings.connections as f64;
    let least = (connections / rate).ceil();
    let problem = match limit.as_secs_f64() {
        seconds if limit > MAX_TIMEOUT => format!("{seconds:.0}s is longer than 1h: shorten it"),
        seconds if seconds * rate < connections => format!(
            "at {rate} per second, only {:.0} of {connections} connections open in {}: give it {least:.0}s at least, or raise \
             driver.connect_rate (--connect-rate)",
            rate * seconds,
            duration::format(limit),
        ),
        _ => return Ok(()),
    };
    Err(Invalid::setting("open_timeout", problem))
}
