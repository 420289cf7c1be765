//! Checks of the settings against the load, before a daemon is launched or a request is sent.

use load::duration;
use load::net::sources;
use load::plan::{Invalid, Plan};

use super::{MAX_TIMEOUT, Settings, open_loop};
use crate::requests::Requests;
use crate::target::Server;

/// Checks that the settings fit the load, and that the files and addresses they name exist.
///
/// # Errors
/// The first invalid field, with the remedy.
pub(super) fn validate(plan: &Plan<Settings>) -> Result<(), Invalid> {
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
        sources::check_ports(&settings.source_addresses, connections, Some(plan.instances))?;
    }
    sources::addresses(&settings.source_addresses, connections, [])?;
    // Header fields and bodies are the same for every server.
    Requests::new(settings, &Server::anywhere()).map(|_| ())
}

const OPEN_TIMEOUT: &str = "driver.open_timeout (--open-timeout)";
const CONNECT_RATE: &str = "driver.connect_rate (--connect-rate)";

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
