//! Options that shape the load, and the plan that is built from them.

use std::time::Duration;

use clap::Args;
use harness::cli::{Given, only_group};
use load::plan::{Group, Invalid, Plan, PlannedStage, Timeline};
use load::schedule::Arrival;
use load::{duration, number};

use crate::settings::{MAX_CONNECTIONS, Pacing, Settings};

/// Default of `--connect-rate` with `--hold`, in connections per second.
const CONNECT_RATE: f64 = 20_000.0;
/// Default of `--warmup` without stages.
const WARMUP: Duration = Duration::from_secs(1);
/// Default interval between two requests on a held connection, in seconds.
const ROUND_S: f64 = 60.0;

/// The options that describe a plan.
#[derive(Debug, Args)]
pub(super) struct PlanOptions {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
struct LoadOptions {
    /// Set the number of connections. Without a rate, each is a client that sends its next request as soon as the last
    /// is answered. With --rate, --rate-stage or --hold, the requests share them
    #[arg(
        long,
        short,
        visible_alias = "vus",
        visible_short_alias = 'u',
        value_name = "N",
        default_value_t = 100
    )]
    connections: u64,
    /// Vary the number of clients in stages, evenly to USERS within each DURATION. The first begins at 0; each client has
    /// its own connection. Repeatable
    #[arg(long, short, value_name = "DURATION:USERS[,…]", value_delimiter = ',', value_parser = parse_stage)]
    #[arg(conflicts_with_all = ["rate_stage", "duration", "rate", "hold", "connections"])]
    stage: Vec<PlannedStage>,
    /// Start this many requests per second (open loop). They start however fast the server is, and latency is measured
    /// from the time a request was due
    #[arg(long, short = 'R', value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Vary the request rate in stages, from 0 evenly to PER_SECOND within each DURATION, over the --connections.
    /// Repeatable
    #[arg(long, value_name = "DURATION:PER_SECOND[,…]", value_delimiter = ',', value_parser = parse_rate_stage)]
    #[arg(conflicts_with_all = ["duration", "rate", "hold"])]
    rate_stage: Vec<PlannedStage>,
    /// Choose how the starts of --rate are distributed
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Arrival,
    /// Choose how to wait for the next start of --rate. precise: one timer per start; quantum: one timer per 500 µs;
    /// spin: busy-poll (uses a full core)
    #[arg(long, value_enum, default_value = "precise")]
    pacing: Pacing,
    /// Hold the connections open. All are opened at --connect-rate first, and then used one after the other, at --rate
    /// or each once a minute
    #[arg(long, conflicts_with = "no_keep_alive")]
    hold: bool,
    /// Measure for this long
    #[arg(long, short, value_name = "DURATION", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    /// Warm up for this long before measuring [default: 1s; with stages 0]
    ///
    /// Requests of the warm-up are not counted. With stages it is their first part.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    warmup: Option<Duration>,
    /// Set the random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// Flags that are no settings.
#[derive(Debug, Args)]
struct Flags {
    /// Open a new connection for each request
    #[arg(long, help_heading = "Connections", alias = "disable-keepalive")]
    no_keep_alive: bool,
    /// Accept the option of wrk; the latency distribution is always printed
    #[arg(long, help_heading = "Responses")]
    latency: bool,
}

impl PlanOptions {
    /// Builds the plan from the options, without validating it.
    pub(super) fn plan(&self) -> Plan<Settings> {
        let LoadOptions {
            connections, hold, ..
        } = self.load;
        let stages = [self.load.stage.as_slice(), &self.load.rate_stage].concat();
        let staged = !stages.is_empty();
        let mut driver = Settings {
            connections,
            keep_alive: !self.flags.no_keep_alive,
            pacing: self.load.pacing,
            phases: self.settings.phases || staged,
            ..self.settings.clone()
        };
        let mut rate = self.load.rate;
        if hold {
            // The error for too many connections must name that option, not a rate that nobody gave.
            let held = connections.min(MAX_CONNECTIONS) as f64;
            rate = rate.or(Some((held / ROUND_S).ceil().max(1.0)));
            driver.connect_rate = driver.connect_rate.or(Some(CONNECT_RATE));
            if driver.source_addresses.is_empty() {
                driver.source_addresses.push("auto".to_owned());
            }
        }
        let group = Group {
            name: if hold { "held" } else { "requests" }.to_owned(),
            clients: match rate.is_some() || staged {
                true => 0,
                false => connections,
            },
            ramp: Duration::ZERO,
            rate,
            arrival: self.load.arrival,
            stages,
            ops: None,
        };
        let (warmup, measure) = match staged {
            true => (Duration::ZERO, Duration::ZERO),
            false => (WARMUP, self.load.duration),
        };
        let timeline = Timeline {
            warmup: self.load.warmup.unwrap_or(warmup),
            measure,
            drain: driver.timeout.saturating_add(Duration::from_secs(1)),
        };
        Plan {
            seed: self.load.seed,
            ..Plan::new("command-line", timeline, vec![group], driver)
        }
    }

    /// Applies given options to a plan from a file.
    pub(super) fn override_plan(
        &self,
        plan: &mut Plan<Settings>,
        given: &mut Given,
    ) -> Result<(), Invalid> {
        if given.take("stage") || given.take("rate_stage") {
            let group = only_group(plan, "--stage", "stages", |_| false)?;
            group.stages = [self.load.stage.as_slice(), &self.load.rate_stage].concat();
            let clients = std::mem::take(&mut group.clients);
            (group.rate, group.ramp) = (None, Duration::ZERO);
            plan.timeline.measure = Duration::ZERO;
            plan.driver.phases = true;
            share_connections(plan, clients);
        }
        if given.take("rate") {
            let group = only_group(plan, "--rate", "rate", |group| group.rate.is_some())?;
            group.rate = self.load.rate;
            let clients = std::mem::take(&mut group.clients);
            share_connections(plan, clients);
        }
        if given.take("connections") {
            let shared = plan
                .groups
                .iter()
                .filter(|group| !group.is_closed())
                .count();
            if shared == plan.groups.len() {
                plan.driver.connections = self.load.connections;
            } else {
                let group = only_group(plan, "--connections", "clients", Group::is_closed)?;
                group.clients = self.load.connections;
            }
        }
        Ok(())
    }
}

/// Lets a rate use as many connections as the group had clients before.
fn share_connections(plan: &mut Plan<Settings>, clients: u64) {
    if clients > 0 {
        plan.driver.connections = clients;
    }
}

/// Parses a stage of users, `DURATION:USERS`.
fn parse_stage(text: &str) -> Result<PlannedStage, String> {
    let example = "write it as DURATION:USERS, such as 30s:100";
    let (over, users) = split_stage(text, example)?;
    let users = number::whole(users);
    let users = users.map_err(|problem| format!("the number of users {problem}: {example}"))?;
    Ok(PlannedStage::to_users(users, over))
}

/// Parses a stage of a rate, `DURATION:RATE`.
fn parse_rate_stage(text: &str) -> Result<PlannedStage, String> {
    let example = "write it as DURATION:PER_SECOND, such as 30s:100";
    let (over, rate) = split_stage(text, example)?;
    let rate = number::decimal(rate);
    let rate = rate.map_err(|problem| format!("the rate {problem}: {example}"))?;
    Ok(PlannedStage::to_rate(rate, over))
}

fn split_stage<'a>(text: &'a str, example: &str) -> Result<(Duration, &'a str), String> {
    let (over, to) = text.split_once(':').ok_or(example)?;
    let over = duration::parse(over).map_err(|error| format!("{error}: {example}"))?;
    Ok((over, to.trim()))
}
