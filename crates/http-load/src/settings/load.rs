//! Whether the settings fit the load, and what they name is there: before a daemon is launched or anything is asked.

use harness::duration;
use harness::plan::{Invalid, Plan};

use super::{Settings, open_loop};
use crate::requests::Requests;
use crate::source;
use crate::target::Server;
use crate::tls;

/// Checks it.
///
/// # Errors
/// The first field that can't be run, with the remedy.
pub(super) fn validate(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let settings = &plan.driver;
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
        tls::roots(Some(file))?;
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
    let (connections, warmup) = (settings.connections, plan.timeline.warmup);
    let opened = rate * warmup.as_secs_f64();
    if opened >= connections as f64 {
        return Ok(());
    }
    let problem = format!(
        "{rate} a second open {opened:.0} of {connections} connections in the {} before the measurement: give it a warm-up \
         (timeline.warmup, --warmup) of {:.0}s at least, or a higher rate",
        duration::format(warmup),
        (connections as f64 / rate).ceil()
    );
    Err(Invalid::new(CONNECT_RATE, problem))
}
