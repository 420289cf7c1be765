//! Options that shape the load, and the plan that is built from them.

use std::time::Duration;

use clap::Args;
use harness::cli::{only_group, set_duration};
use load::plan::{Group, Invalid, Plan, PlannedStage, Timeline};
use load::{duration, number};

use crate::settings::{CONNECTIONS, MAX_CONNECTIONS, Settings};

/// Default of `--connect-rate` with `--keep-open`, in connections per second.
const CONNECT_RATE: f64 = 20_000.0;
/// Default of `--warmup` without stages.
const WARMUP: Duration = Duration::from_secs(1);
/// Default of `--duration`.
const MEASURE: Duration = Duration::from_secs(10);
/// Default of `--duration` with `--requests`, which end a run earlier.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Default interval between two requests on a held connection, in seconds.
const ROUND_S: f64 = 60.0;

/// Options that shape the load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadOptions {
    /// Set the number of connections. Without a rate, each is a client that sends its next request as soon as the last
    /// is answered. With --rate, --rate-stage or --keep-open, the requests share them [default: 100]
    #[arg(
        long,
        short,
        visible_alias = "vus",
        visible_short_alias = 'u',
        value_name = "N"
    )]
    connections: Option<u64>,
    /// Vary the number of clients, to USERS within each DURATION. It changes evenly, and the first stage begins at 0; each
    /// client has its own connection. Repeatable
    #[arg(long, short, value_name = "DURATION:USERS[,…]", value_delimiter = ',', value_parser = parse_stage)]
    #[arg(conflicts_with_all = ["rate_stage", "duration", "rate", "keep_open", "connections"])]
    stage: Vec<PlannedStage>,
    /// Start this many requests per second (open loop). They start however fast the server is, and latency is measured
    /// from the time a request was due
    #[arg(long, short = 'R', alias = "rps", value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Vary the request rate in stages, from 0 evenly to PER_SECOND within each DURATION, over the --connections.
    /// Repeatable
    #[arg(long, value_name = "DURATION:PER_SECOND[,…]", value_delimiter = ',', value_parser = parse_rate_stage)]
    #[arg(conflicts_with_all = ["duration", "rate", "keep_open"])]
    rate_stage: Vec<PlannedStage>,
    /// Keep the connections open. All are opened at --connect-rate first, and then used one after the other, at --rate
    /// or each once a minute
    #[arg(long, conflicts_with = "no_keep_alive")]
    keep_open: bool,
    /// Measure for this long [default: 10s; with --requests, as long as they take, at most an hour]
    #[arg(long, short, short_alias = 'z', value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Send this many requests in all: without a rate, each connection sends its equal part of them
    #[arg(long, short = 'n', value_name = "N", conflicts_with_all = ["stage", "rate_stage", "keep_open"])]
    requests: Option<u64>,
    /// Open a new connection for each request
    #[arg(long, help_heading = CONNECTIONS, alias = "disable-keepalive")]
    no_keep_alive: bool,
    /// Send each request as soon as the answer before it is read, in a closed loop too: by default the driver waits for
    /// several answers, for an eighth of the service time at most. It costs more CPU
    #[arg(long, help_heading = CONNECTIONS)]
    no_batch: bool,
    /// Accept the option of wrk; the latency distribution is always printed
    #[arg(long)]
    latency: bool,
}

impl LoadOptions {
    /// Returns the plan to which the options are applied: clients in a closed loop.
    pub(super) fn plan(&self, mut driver: Settings) -> Plan<Settings> {
        // The settings name the number also where no rate uses it.
        driver.connections = self.connections.unwrap_or(driver.connections);
        let name = if self.keep_open { "held" } else { "requests" };
        let group = Group::new(name, driver.connections);
        let is_staged = !self.stage.is_empty() || !self.rate_stage.is_empty();
        let timeline = Timeline {
            // A stream that began in the warm-up does not count, and it may outlast that by far.
            warmup: if is_staged
                || self.requests.is_some()
                || driver.events
                || driver.replay.is_some()
            {
                Duration::ZERO
            } else {
                WARMUP
            },
            measure: match (&driver.replay, self.requests) {
                // It lasts as long as the log.
                (Some(_), _) => Duration::ZERO,
                (None, Some(_)) => LONGEST,
                (None, None) => MEASURE,
            },
            drain: driver.timeout.saturating_add(Duration::from_secs(1)),
        };
        Plan::new("command-line", timeline, vec![group], driver)
    }

    /// Applies the given options to a plan.
    pub(super) fn apply(&self, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        plan.driver.keep_alive &= !self.no_keep_alive;
        let is_given = self.rate.is_some() || self.requests.is_some() || self.keep_open;
        let is_given = is_given || !self.stage.is_empty() || !self.rate_stage.is_empty();
        if is_given && plan.driver.replay.is_some() {
            let problem = "the times of the log say when requests start: leave out --rate, --requests, --keep-open and stages";
            return Err(Invalid::setting("replay", problem));
        }
        plan.driver.batch &= !self.no_batch;
        let stages = [self.stage.as_slice(), &self.rate_stage].concat();
        if !stages.is_empty() {
            let group = only_group(plan, "--stage", "stages", |_| false)?;
            (group.stages, group.rate, group.ramp) = (stages, None, Duration::ZERO);
            let clients = std::mem::take(&mut group.clients);
            plan.timeline.measure = Duration::ZERO;
            plan.driver.phases = true;
            share_connections(plan, clients);
        }
        if self.rate.is_some() {
            let group = only_group(plan, "--rate", "rate", |group| group.rate.is_some())?;
            group.rate = self.rate;
            let clients = std::mem::take(&mut group.clients);
            share_connections(plan, clients);
        }
        if let Some(connections) = self.connections {
            if plan.groups.iter().any(Group::is_closed) {
                only_group(plan, "--connections", "clients", Group::is_closed)?.clients =
                    connections;
            } else {
                plan.driver.connections = connections;
            }
        }
        if self.keep_open {
            keep_open(plan)?;
        }
        if let Some(requests) = self.requests {
            limit(plan, requests)?;
        }
        match self.duration {
            Some(duration) => set_duration(plan, duration),
            None => Ok(()),
        }
    }
}

/// Opens all connections of a plan first, and uses them one after the other.
fn keep_open(plan: &mut Plan<Settings>) -> Result<(), Invalid> {
    let connections = plan.driver.connections;
    let group = only_group(plan, "--keep-open", "rate", |group| group.rate.is_some())?;
    let clients = std::mem::take(&mut group.clients);
    let held = if clients > 0 { clients } else { connections };
    // The error for too many connections must name that option, not a rate that nobody gave.
    let each_minute = held.min(MAX_CONNECTIONS) as f64 / ROUND_S;
    group.rate.get_or_insert(each_minute.ceil().max(1.0));
    share_connections(plan, clients);
    let driver = &mut plan.driver;
    driver.connect_rate.get_or_insert(CONNECT_RATE);
    if driver.source_addresses.is_empty() {
        driver.source_addresses.push("auto".to_owned());
    }
    Ok(())
}

/// Limits the requests of all clients together.
fn limit(plan: &mut Plan<Settings>, requests: u64) -> Result<(), Invalid> {
    let group = only_group(plan, "--requests", "ops", |group| group.stages.is_empty())?;
    // No clients are refused later.
    let clients = if group.is_closed() {
        group.clients.max(1)
    } else {
        1
    };
    if requests < clients || !requests.is_multiple_of(clients) {
        let below = requests / clients * clients;
        let problem = format!(
            "{requests} requests are no equal parts for {clients} connections: use a multiple, such as {}, or other --connections",
            if below > 0 { below } else { clients }
        );
        return Err(Invalid::new("--requests (-n)", problem));
    }
    group.ops = Some(requests / clients);
    Ok(())
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
