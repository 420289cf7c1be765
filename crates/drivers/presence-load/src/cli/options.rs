//! Options that shape the load, and the plan that is built from them.

use std::time::Duration;

use clap::{Args, ValueEnum};
use harness::cli::{Given, only_group};
use load::duration;
use load::plan::{Group, Invalid, Plan, Timeline};
use load::schedule::Arrival;

use crate::settings::{Mode, Settings, is_closed};

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
/// Heartbeats per second of each user with `--hold`.
const HELD_RATE: f64 = 0.1;

/// The options that describe a plan.
#[derive(Debug, Args)]
pub(super) struct PlanOptions {
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
struct LoadOptions {
    /// Choose the client that joins: protocol, the driver's own frames; sdk, the client library
    #[arg(long, value_enum, default_value = "protocol")]
    mode: Mode,
    /// Set the number of rooms [default: 100; with --mode sdk 10]
    #[arg(long, visible_alias = "room-count", value_name = "N")]
    rooms: Option<u64>,
    /// Set the heartbeats per second of each user [default: 10; with --mode sdk 1; with --hold 0.1]
    #[arg(long, value_name = "PER_SECOND", allow_negative_numbers = true)]
    heartbeats_per_sec: Option<f64>,
    /// Choose when a heartbeat is sent. open: at a rate, however fast the server is; latency counts from the time a
    /// heartbeat was due. closed: each user waits for its acknowledgement, then for 1 / --heartbeats-per-sec
    #[arg(long, value_enum, default_value = "open")]
    pacing: LoopKind,
    /// Choose how the starts of an open loop are distributed
    #[arg(long, value_enum, default_value = "constant")]
    arrival: Arrival,
    /// Measure for this long, once all users have joined [default: 5m; with --mode sdk 1m]
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse)]
    duration: Option<Duration>,
    /// Let the users connect and join over this time [default: 1m; with --mode sdk 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ramp_up: Option<Duration>,
    /// Send heartbeats for this long before measuring; those are not counted
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    warmup: Duration,
    /// Print a progress line each time this long has passed, at most one per second
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse)]
    report_interval: Duration,
    /// Hold joined users, with a heartbeat of each every 10 s. Source addresses are chosen for as many connections as
    /// needed. Not with --mode sdk
    #[arg(long)]
    hold: bool,
    /// Require an error rate of at most 1 %, p95 within 150 ms, p99 within 300 ms, and 99 % success
    #[arg(long)]
    reference_limits: bool,
    /// Set the random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
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

impl PlanOptions {
    /// Builds the plan from the options, without validating it.
    pub(super) fn plan(&self) -> Plan<Settings> {
        let typed = &self.load;
        let (rooms, rate, duration, ramp_up) = defaults(typed.mode);
        let rate = if typed.hold { HELD_RATE } else { rate };
        let mut driver = Settings {
            mode: typed.mode,
            rooms: typed.rooms.unwrap_or(rooms),
            heartbeats_per_sec: typed.heartbeats_per_sec.unwrap_or(rate),
            ramp_up: typed.ramp_up.unwrap_or(ramp_up),
            report_interval: typed.report_interval,
            ..self.settings.clone()
        };
        if typed.hold && driver.source_addresses.is_empty() {
            driver.source_addresses.push("auto".to_owned());
        }
        let timeline = Timeline {
            warmup: typed.warmup,
            measure: typed.duration.unwrap_or(duration),
            drain: driver.drain(),
        };
        let is_closed = typed.pacing == LoopKind::Closed;
        let group = heartbeats(&driver, is_closed, typed.arrival);
        let mut plan = Plan {
            seed: typed.seed,
            ..Plan::new("command-line", timeline, vec![group], driver)
        };
        if typed.reference_limits {
            plan.thresholds = REFERENCE_LIMITS.map(str::to_owned).to_vec();
        }
        plan
    }

    /// Applies given options to a plan from a file. If the number of users changes, each goes on sending as often as
    /// before.
    pub(super) fn override_plan(
        &self,
        plan: &mut Plan<Settings>,
        given: &mut Given,
    ) -> Result<(), Invalid> {
        if given.take("reference_limits") {
            let limits = REFERENCE_LIMITS.map(str::to_owned);
            plan.thresholds.extend(limits);
        }
        let shaping = [
            "rooms",
            "users_per_room",
            "slow_consumers",
            "half_open",
            "heartbeats_per_sec",
            "pacing",
        ];
        if !shaping.iter().any(|option| given.contains(option)) {
            return Ok(());
        }
        let was_closed = is_closed(plan);
        let mut driver = plan.driver.clone();
        let senders = senders(&driver);
        let group = only_group(plan, "--rooms", "rate", |_| false)?;
        if let (Some(rate), false) = (group.rate, was_closed) {
            driver.heartbeats_per_sec = rate / senders as f64;
        }
        let (typed, settings) = (&self.load, &self.settings);
        if given.contains("rooms") {
            driver.rooms = typed.rooms.unwrap_or(driver.rooms);
        }
        if given.contains("users_per_room") {
            driver.users_per_room = settings.users_per_room;
        }
        if given.contains("slow_consumers") {
            driver.slow_consumers = settings.slow_consumers;
        }
        if given.contains("half_open") {
            driver.half_open = settings.half_open;
        }
        if given.contains("heartbeats_per_sec") {
            driver.heartbeats_per_sec = typed
                .heartbeats_per_sec
                .unwrap_or(driver.heartbeats_per_sec);
        }
        let closed = match given.take("pacing") {
            true => typed.pacing == LoopKind::Closed,
            false => was_closed,
        };
        let new = heartbeats(&driver, closed, group.arrival);
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
fn heartbeats(driver: &Settings, is_closed: bool, arrival: Arrival) -> Group {
    let senders = senders(driver);
    let interval_s = 1.0 / driver.heartbeats_per_sec;
    let interval = Duration::try_from_secs_f64(interval_s).unwrap_or_default();
    Group {
        name: "heartbeats".to_owned(),
        clients: if is_closed { senders } else { 0 },
        // Users that begin at once would stay in step.
        ramp: if is_closed { interval } else { Duration::ZERO },
        rate: (!is_closed)
            .then(|| (senders as f64 * driver.heartbeats_per_sec).clamp(1e-9, MAX_RATE)),
        arrival,
        stages: Vec::new(),
        ops: None,
    }
}
