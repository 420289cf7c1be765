//! Whether the settings fit the load, and what they name is there: before a daemon is launched or anything is asked.

use harness::duration;
use harness::plan::{Invalid, Plan};
use harness::tls;

use super::{LONGEST, Settings, open_loop};
use crate::requests::Requests;
use crate::source;
use crate::target::Server;

/// Checks it.
///
/// # Errors
/// The first field that can't be run, with the remedy.
pub(super) fn validate(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let settings = &plan.driver;
    if settings.open_timeout.is_some() && Settings::opening(plan).is_none() {
        let problem = "has no effect where the load does not wait for connections: give --hold, or a rate (--rate) and a \
            --connect-rate, or leave it out";
        return Err(Invalid::new(OPEN_TIMEOUT, problem));
    }
    match open_loop(plan) {
        true => has_a_pool(plan)?,
        false if settings.connect_rate.is_some() => {
            let problem = "has no effect in a closed loop, whose users connect when they begin: give a rate (--rate, --hold), \
                or leave it out; in a plan, a group's `ramp` spreads its users";
            return Err(Invalid::new(CONNECT_RATE, problem));
        }
        false => {}
    }
    if let Some(file) = &settings.tls_ca {
        tls::client_config(Some(file), false)?;
    }
    let connections = Settings::connections_of(plan);
    // The ports of a server that runs already are known when its URL is read; a daemon that is launched has one.
    if plan.daemon.is_some() {
        source::room(settings, connections, Some(plan.instances))?;
    }
    source::addresses(settings, connections, &[])?;
    // Fields and contents are the same whatever the server is.
    Requests::new(settings, &Server::anywhere()).map(|_| ())
}

const OPEN_TIMEOUT: &str = "driver.open_timeout (--open-timeout)";
const CONNECT_RATE: &str = "driver.connect_rate (--connect-rate)";

/// What goes for connections that are opened before they are needed.
fn has_a_pool(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let settings = &plan.driver;
    if settings.pipeline > 1 {
        let problem = "has no effect with a rate, where each request goes over a connection that is free: leave it out, and \
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
        seconds if limit > LONGEST => format!("{seconds:.0}s is longer than an hour: shorten it"),
        seconds if seconds * rate < connections => format!(
            "{rate} a second open {:.0} of {connections} connections in {}: give it {least:.0}s at least, or raise \
             driver.connect_rate (--connect-rate)",
            rate * seconds,
            duration::format(limit),
        ),
        _ => return Ok(()),
    };
    Err(Invalid::new(OPEN_TIMEOUT, problem))
}
