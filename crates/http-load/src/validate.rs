//! Checks of the settings against the load, before a daemon is launched or a request is sent.

use load::duration;
use load::net::sources;
use load::plan::{Invalid, Plan};

use crate::checks::Checks;
use crate::requests::Requests;
use crate::settings::{MAX_CONNECTIONS, MAX_TIMEOUT, Settings, open_loop};
use crate::target::Server;

const OPEN_TIMEOUT: &str = "driver.open_timeout (--open-timeout)";
const CONNECT_RATE: &str = "driver.connect_rate (--connect-rate)";
/// Maximum number of pipelined requests on one connection.
const MAX_PIPELINED: u32 = 1_000;

impl Settings {
    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first invalid field, with the remedy.
    pub fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        let settings = &plan.driver;
        if http::Method::from_bytes(settings.method.as_bytes()).is_err()
            || settings.method == "CONNECT"
        {
            let problem = format!(
                "`{}` is not a valid HTTP method (e.g. GET)",
                settings.method
            );
            return Err(Invalid::new("driver.method (--method)", problem));
        }
        if !(1..=MAX_PIPELINED).contains(&settings.pipeline) {
            let problem = format!("{} is not between 1 and {MAX_PIPELINED}", settings.pipeline);
            return Err(Invalid::new("driver.pipeline (--pipeline)", problem));
        }
        if settings.pipeline > 1 && !settings.keep_alive {
            let problem = "needs persistent connections: leave out --no-keep-alive";
            return Err(Invalid::new("driver.pipeline (--pipeline)", problem));
        }
        if settings.pipeline > 1 && settings.follow > 0 {
            let problem = "a redirect is followed before the next request is sent on the connection: leave out --pipeline or --follow";
            return Err(Invalid::new("driver.follow (--follow)", problem));
        }
        settings.validate_engine()?;
        if !(1..=MAX_CONNECTIONS).contains(&settings.connections) {
            let problem = format!("{} is not between 1 and 10,000,000", settings.connections);
            return Err(Invalid::new("driver.connections (--connections)", problem));
        }
        if settings
            .connect_rate
            .is_some_and(|rate| !rate.is_finite() || rate < 1.0)
        {
            let problem =
                "is below 1 per second: raise it, or leave it out to connect as fast as possible";
            return Err(Invalid::new(
                "driver.connect_rate (--connect-rate)",
                problem,
            ));
        }
        for (field, time) in [
            ("timeout", settings.timeout),
            ("connect_timeout", settings.connect_timeout),
        ] {
            if time.is_zero() || time > MAX_TIMEOUT {
                return Err(Invalid::new(
                    format!("driver.{field} (--{})", field.replace('_', "-")),
                    "must be above 0 and at most 1h: give a duration such as 30s",
                ));
            }
        }
        if let Some(status) = settings
            .expect_status
            .iter()
            .find(|status| !(100..600).contains(*status))
        {
            let problem =
                format!("{status} is not an HTTP status: use a number between 100 and 599");
            return Err(Invalid::new(
                "driver.expect_status (--expect-status)",
                problem,
            ));
        }
        settings.validate_content()?;
        validate_load(plan)?;
        let checks = Checks::parse(&settings.checks)?;
        if settings.method == "HEAD" && checks.need_body() {
            let problem = "a response to HEAD has no body: check its status or its header fields";
            return Err(Invalid::new("driver.checks (--check)", problem));
        }
        Ok(())
    }

    fn validate_content(&self) -> Result<(), Invalid> {
        let invalid = |field: &str, problem: &str| {
            let option = format!("driver.{field} (--{})", field.replace('_', "-"));
            Err(Invalid::new(option, problem))
        };
        match (&self.expect_body, self.expect_length, self.any_content) {
            (Some(_), Some(_), _) => invalid(
                "expect_length",
                "--expect-body already sets the length: leave out --expect-length or --expect-body",
            ),
            (Some(_), _, true) | (_, Some(_), true) => invalid(
                "any_content",
                "accepts any body: leave it out, or leave out --expect-body and --expect-length",
            ),
            (Some(_), ..) if self.method == "HEAD" => invalid(
                "expect_body",
                "a response to HEAD has no body: leave it out",
            ),
            _ => Ok(()),
        }
    }
}

/// Checks that the settings fit the load, and that the files and addresses they name exist.
///
/// # Errors
/// The first invalid field, with the remedy.
fn validate_load(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let settings = &plan.driver;
    if settings.open_timeout.is_some() && Settings::opening(plan).is_none() {
        let problem = "has no effect if the load does not wait for connections: give --hold, or a rate (--rate) and a \
            --connect-rate, or leave it out";
        return Err(Invalid::new(OPEN_TIMEOUT, problem));
    }
    match open_loop(plan) {
        true => has_a_pool(plan)?,
        false if settings.connect_rate.is_some() => {
            let problem = "has no effect in a closed loop, where each client connects when it starts: give a rate (--rate, --hold), \
                or leave it out; in a plan, a group's `ramp` spreads the starts of its clients";
            return Err(Invalid::new(CONNECT_RATE, problem));
        }
        false => {}
    }
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
    // Header fields and bodies are the same for every server.
    Requests::new(settings, &Server::anywhere()).map(|_| ())
}

/// Checks the settings of connections that are opened before they are needed.
fn has_a_pool(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let settings = &plan.driver;
    if settings.pipeline > 1 {
        let problem = "has no effect with a rate, where each request takes a free connection: leave it out, and \
            give more --connections instead; or leave out the rate";
        return Err(Invalid::new("driver.pipeline (--pipeline)", problem));
    }
    let Some(rate) = settings.connect_rate.filter(|_| settings.keep_alive) else {
        return Ok(());
    };
    let Some(limit) = Settings::opening(plan) else {
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
    Err(Invalid::new(OPEN_TIMEOUT, problem))
}
