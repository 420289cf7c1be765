//! Options that shape the load, and the plan that is built from them.

use std::time::Duration;

use clap::{Args, ValueEnum};
use harness::cli::{only_group, set_duration};
use load::duration;
use load::plan::{Group, Invalid, Plan, Timeline};

use crate::settings::{DISTURBANCES, Mode, Settings, USERS, is_closed};

/// The four limits of the reference's validator of results.
const REFERENCE_LIMITS: [&str; 4] = [
    "errors.rate <= 1%",
    "heartbeat.p95 <= 150ms",
    "heartbeat.p99 <= 300ms",
    "success >= 99%",
];
/// Limits of every plan.
const MAX_CLIENTS: u64 = 10_000_000;
const MAX_RATE: f64 = 10_000_000.0;
/// Heartbeats per second of each user with `--keep-open`.
const HELD_RATE: f64 = 0.1;

/// Options that shape the load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadOptions {
    /// Set the number of rooms [default: 100; with --mode sdk 10]
    #[arg(long, visible_alias = "room-count", value_name = "N")]
    rooms: Option<u64>,
    /// Set the heartbeats per second of each user [default: 10; with --mode sdk 1; with --keep-open 0.1]
    #[arg(long, value_name = "PER_SECOND", allow_negative_numbers = true)]
    heartbeats_per_sec: Option<f64>,
    /// Choose when a heartbeat is sent. open: at a rate, however fast the server is; latency counts from the time a
    /// heartbeat was due. closed: each user waits for its acknowledgement, then for 1 / --heartbeats-per-sec [default:
    /// open]
    #[arg(long = "loop", value_name = "LOOP", value_enum)]
    loop_kind: Option<LoopKind>,
    /// Measure for this long, after the time of --ramp-up [default: 5m; with --mode sdk 1m]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Let the users connect and join over this time, before the time of --duration [default: 1m; with --mode sdk 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ramp_up: Option<Duration>,
    /// Keep joined users connected, with a heartbeat of each every 10 s. Source addresses are chosen for as many connections as
    /// needed. Not with --mode sdk
    #[arg(long)]
    keep_open: bool,
    /// Require an error rate of at most 1 %, p95 within 150 ms, p99 within 300 ms, and 99 % success
    #[arg(long)]
    reference_limits: bool,
    /// Set the number of users in each room [default: 2]
    #[arg(long, help_heading = USERS, value_name = "N")]
    users_per_room: Option<u64>,
    /// Let this many users stop reading once they have joined: their connections; with --mode sdk, the events of the
    /// library, which goes on reading
    #[arg(long, help_heading = DISTURBANCES, value_name = "N")]
    slow_consumers: Option<u64>,
    /// Let the connections of this many users fall silent once they have joined: they neither read nor answer
    /// pings. Not with --mode sdk
    #[arg(long, help_heading = DISTURBANCES, value_name = "N")]
    half_open: Option<u64>,
}

/// A kind of loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LoopKind {
    /// Heartbeats at a rate.
    Open,
    /// Each heartbeat after the acknowledgement of the one before.
    Closed,
}

/// The defaults of a mode: rooms, heartbeats per second, duration and ramp.
fn defaults(mode: Mode) -> (u64, f64, Duration, Duration) {
    match mode {
        Mode::Protocol => (100, 10.0, Duration::from_secs(300), Duration::from_secs(60)),
        Mode::Sdk => (10, 1.0, Duration::from_secs(60), Duration::from_secs(10)),
    }
}

/// Returns the plan to which the options are applied: an open loop with the defaults of the mode.
pub(super) fn plan(settings: Settings) -> Plan<Settings> {
    let (rooms, heartbeats_per_sec, duration, ramp_up) = defaults(settings.mode);
    let driver = Settings {
        rooms,
        heartbeats_per_sec,
        ramp_up,
        ..settings
    };
    let timeline = Timeline::new(duration, driver.drain());
    let group = heartbeats(&driver, false);
    Plan::new("command-line", timeline, vec![group], driver)
}

impl LoadOptions {
    /// Applies the given options to a plan. If the number of users changes, each goes on sending as often as before.
    pub(super) fn apply(&self, plan: &mut Plan<Settings>) -> Result<(), Invalid> {
        if let Some(duration) = self.duration {
            set_duration(plan, duration)?;
        }
        if self.reference_limits {
            let limits = REFERENCE_LIMITS.map(str::to_owned);
            plan.thresholds.extend(limits);
        }
        let before = plan.driver.clone();
        let rate = self.keep_open.then_some(HELD_RATE);
        let rate = self.heartbeats_per_sec.or(rate);
        let driver = &mut plan.driver;
        for (field, given) in [
            (&mut driver.rooms, self.rooms),
            (&mut driver.users_per_room, self.users_per_room),
            (&mut driver.slow_consumers, self.slow_consumers),
            (&mut driver.half_open, self.half_open),
        ] {
            *field = given.unwrap_or(*field);
        }
        driver.ramp_up = self.ramp_up.unwrap_or(driver.ramp_up);
        driver.heartbeats_per_sec = rate.unwrap_or(driver.heartbeats_per_sec);
        if self.keep_open && driver.source_addresses.is_empty() {
            driver.source_addresses.push("auto".to_owned());
        }
        let is_reshaped = driver.population() != before.population();
        if !is_reshaped && rate.is_none() && self.loop_kind.is_none() {
            return Ok(());
        }
        let was_closed = is_closed(plan);
        let mut driver = plan.driver.clone();
        let group = only_group(plan, "--rooms", "rate", |_| false)?;
        // The rate of a plan's group replaces the one of its settings.
        let is_own = !was_closed && group.rate != heartbeats(&before, false).rate;
        if let (Some(sum), true, None) = (group.rate, is_own, rate) {
            driver.heartbeats_per_sec = sum / senders(&before) as f64;
        }
        let closed = self
            .loop_kind
            .map_or(was_closed, |kind| kind == LoopKind::Closed);
        let new = heartbeats(&driver, closed);
        (group.clients, group.rate, group.ramp) = (new.clients, new.rate, new.ramp);
        Ok(())
    }
}

/// Returns the number of users that send heartbeats, as a group can have it.
fn senders(driver: &Settings) -> u64 {
    let population = driver.population();
    let users = population.rooms.saturating_mul(population.users_per_room);
    let special = population
        .slow_consumers
        .saturating_add(population.half_open);
    // The settings' own check names what is wrong with them, so the group must be one that can be run.
    users.saturating_sub(special).clamp(1, MAX_CLIENTS)
}

/// Returns the group that sends the heartbeats of all users.
fn heartbeats(driver: &Settings, is_closed: bool) -> Group {
    let senders = senders(driver);
    if is_closed {
        let interval = Duration::try_from_secs_f64(1.0 / driver.heartbeats_per_sec);
        return Group {
            // Users that begin at once would stay in step.
            ramp: interval.unwrap_or_default(),
            ..Group::new("heartbeats", senders)
        };
    }
    let rate = (senders as f64 * driver.heartbeats_per_sec).clamp(1e-9, MAX_RATE);
    Group {
        rate: Some(rate),
        ..Group::new("heartbeats", 0)
    }
}
