//! Checks of the settings against the load, before a daemon is launched or a user connects.

use std::ops::RangeInclusive;
use std::time::Duration;

use load::net::sources;
use load::plan::{Invalid, Plan};
use measure::units;

use crate::conversation::Conversation;
use crate::protocol::transport::Kind;
use crate::settings::{Mode, Protocol, Settings, Timer, is_closed};

/// Maximum number of users.
const MAX_USERS: u64 = 10_000_000;
/// Maximum number of pairs of receiver and sender: the audit keeps 10 bytes for each, or one in a conversation.
const MAX_PAIRS: u64 = 500_000_000;
/// Maximum timeout: the largest value of a histogram.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// The intervals at which starts may be served together: shorter ones save nothing, and the loop turns every 10 ms anyway.
const TICKS: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_millis(10);
/// Maximum number of heartbeats per second of all users.
const MAX_RATE: f64 = 10_000_000.0;
/// Maximum number of bytes added to a state.
const MAX_PADDING: u32 = 1_000_000;

impl Settings {
    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first invalid field, with the remedy.
    pub(crate) fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        let settings = &plan.driver;
        settings.validate_population()?;
        settings.validate_disturbances()?;
        settings.validate_times()?;
        settings.validate_tick(is_closed(plan))?;
        validate_groups(plan)?;
        if settings.mode == Mode::Sdk {
            settings.validate_sdk()?;
        }
        settings.validate_conversation(plan)?;
        settings.access()?;
        settings.tls().validate()?;
        // The ports of a running server are known once its URL is read; a launched daemon has one.
        if plan.daemon.is_some() {
            let named = &settings.source_addresses;
            sources::check_ports(named, settings.connections(), Some(plan.instances))?;
        }
        sources::addresses(&settings.source_addresses, settings.connections(), [])?;
        Ok(())
    }

    fn validate_population(&self) -> Result<(), Invalid> {
        for (setting, number) in [
            ("rooms", self.rooms),
            ("users_per_room", self.users_per_room),
        ] {
            if !(1..=MAX_USERS).contains(&number) {
                let problem = format!("{number} is not between 1 and {}", units::count(MAX_USERS));
                return Err(Invalid::setting(setting, problem));
            }
        }
        let users = self.rooms.saturating_mul(self.users_per_room);
        if users > MAX_USERS {
            let problem = format!(
                "{} rooms of {} users are more than {} users: lower one of the two",
                self.rooms,
                self.users_per_room,
                units::count(MAX_USERS)
            );
            return Err(Invalid::setting("rooms", problem));
        }
        let pairs = users.saturating_mul(self.users_per_room);
        if pairs > MAX_PAIRS {
            let problem = format!(
                "in {} rooms of {} users, {} pairs of sender and receiver would have to be audited, at most {} can be: use smaller rooms",
                self.rooms,
                self.users_per_room,
                units::count(pairs),
                units::count(MAX_PAIRS)
            );
            return Err(Invalid::setting("users_per_room", problem));
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), Invalid> {
        for (setting, time) in [
            ("ack_timeout", self.ack_timeout),
            ("connect_timeout", self.connect_timeout),
            ("keep_alive", self.keep_alive),
            ("report_interval", self.report_interval),
        ] {
            if time < Duration::from_millis(1) || time > MAX_TIMEOUT {
                let problem = "must be at least 1ms and at most 1h: give a duration such as 2s";
                return Err(Invalid::setting(setting, problem));
            }
        }
        if self.ramp_up > MAX_TIMEOUT {
            return Err(Invalid::setting("ramp_up", "is longer than 1h: shorten it"));
        }
        let limit = self
            .open_timeout
            .filter(|limit| *limit < self.ramp_up || *limit > MAX_TIMEOUT * 2);
        if limit.is_some() {
            let problem = "must be at least the ramp-up and at most 2h: users that have not begun would have no connection";
            return Err(Invalid::setting("open_timeout", problem));
        }
        let rate = self.heartbeats_per_sec;
        if !rate.is_finite() || !(1e-6..=1e6).contains(&rate) {
            let problem = format!("{rate} is not between 0.000001 and 1,000,000");
            return Err(Invalid::setting("heartbeats_per_sec", problem));
        }
        let total = self.population().senders() as f64 * rate;
        if total > MAX_RATE {
            let problem = format!(
                "all users together send {total} per second, more than 10,000,000: lower it, or the number of users"
            );
            return Err(Invalid::setting("heartbeats_per_sec", problem));
        }
        Ok(())
    }

    fn validate_tick(&self, is_closed: bool) -> Result<(), Invalid> {
        let problem = match self.tick {
            None => return Ok(()),
            Some(_) if is_closed => {
                "is for heartbeats that are due at a time, and the loop is closed: leave it out"
            }
            Some(_) if self.timer != Timer::Precise => {
                "is a way to wait for the next start, as --timer is: leave out one of the two"
            }
            Some(tick) if !TICKS.contains(&tick) => "must be at least 100us and at most 10ms",
            Some(_) => return Ok(()),
        };
        Err(Invalid::setting("tick", problem))
    }

    fn validate_disturbances(&self) -> Result<(), Invalid> {
        let population = self.population();
        let users = population.users();
        if self.slow_consumers.saturating_add(self.half_open) >= users {
            let problem = format!(
                "with --half-open they are all of the {users} users: leave at least one that sends heartbeats"
            );
            return Err(Invalid::setting("slow_consumers", problem));
        }
        if self
            .churn
            .is_some_and(|rate| !rate.is_finite() || rate <= 0.0 || rate > 1e6)
        {
            let problem = "must be above 0 and at most 1,000,000 users per second";
            return Err(Invalid::setting("churn", problem));
        }
        if !(0.0..=1.0).contains(&self.churn_cut) {
            return Err(Invalid::setting(
                "churn_cut",
                "is a share: give a number from 0 to 1",
            ));
        }
        if self.padding > MAX_PADDING {
            return Err(Invalid::setting(
                "padding",
                "is more than 1,000,000 bytes, the usual limit of a message: lower it",
            ));
        }
        Ok(())
    }

    fn validate_conversation(&self, plan: &Plan<Self>) -> Result<(), Invalid> {
        let Some(planned) = &self.conversation else {
            return Ok(());
        };
        if self.mode == Mode::Sdk {
            let problem = "is for the presence protocol, and the plan has a conversation: use --mode protocol";
            return Err(Invalid::setting("mode", problem));
        }
        if planned.protocol == Protocol::WebSocket && self.transport != Kind::WebSocket {
            let problem = "is of Engine.IO, and the conversation is on plain WebSocket (driver.conversation.protocol): use websocket";
            return Err(Invalid::setting("transport", problem));
        }
        if self.padding > 0 {
            let problem = "is for heartbeats, and the plan has a conversation: put a longer text into its `data`";
            return Err(Invalid::setting("padding", problem));
        }
        let users = self.population().users();
        let pairs = users.saturating_mul(users);
        if planned
            .fan_out
            .as_ref()
            .is_some_and(|rule| rule.to.is_everybody())
            && pairs > MAX_PAIRS
        {
            let problem = format!(
                "has {} pairs of sender and receiver with {users} users, and at most {} can be audited: lower driver.rooms or driver.users_per_room",
                units::count(pairs),
                units::count(MAX_PAIRS)
            );
            return Err(Invalid::new("driver.conversation.fan_out.to", problem));
        }
        let prepared = Conversation::new(self, plan.seed)?;
        let thinking = prepared.iter().flat_map(|prepared| &prepared.steps);
        let thinking = thinking.filter(|step| step.think.is_some());
        let own = planned.think.map(|_| "driver.conversation");
        let mut fields = own
            .into_iter()
            .chain(thinking.map(|step| step.field.as_str()));
        match fields.next() {
            Some(field) if !is_closed(plan) => {
                let problem = "is the pause of a user after its answer, and a rate starts messages whether or not others are answered: leave it out, or give the group clients instead of a rate";
                Err(Invalid::new(format!("{field}.think"), problem))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what the client library does not do.
    fn validate_sdk(&self) -> Result<(), Invalid> {
        for (setting, is_set, problem) in [
            (
                "transport",
                self.transport != Kind::WebSocket,
                "must be websocket with --mode sdk, because presence-sdk has no other transport: leave the option out, or use --mode protocol",
            ),
            (
                "half_open",
                self.half_open > 0,
                "is not available with --mode sdk, because presence-sdk reads and answers pings as long as it is connected: use --mode protocol",
            ),
            (
                "namespace",
                self.namespace.is_some(),
                "is not available with --mode sdk, because presence-sdk uses the main one: use --mode protocol",
            ),
            (
                "subprotocols",
                !self.subprotocols.is_empty(),
                "are not available with --mode sdk, because presence-sdk offers none: use --mode protocol",
            ),
            (
                "source_addresses",
                !self.source_addresses.is_empty(),
                "are not available with --mode sdk, because presence-sdk lets the kernel choose them: use --mode protocol, or leave the option out (--heartbeats-per-sec 0.1 instead of --keep-open)",
            ),
        ] {
            if is_set {
                return Err(Invalid::setting(setting, problem));
            }
        }
        Ok(())
    }
}

/// Checks the group of a plan: a rate, or one client for each user that sends.
fn validate_groups(plan: &Plan<Settings>) -> Result<(), Invalid> {
    let [group] = plan.groups.as_slice() else {
        let problem = "must be one: heartbeats have one rate, or one number of users";
        return Err(Invalid::new("groups", problem));
    };
    if !is_closed(plan) {
        return Ok(());
    }
    let senders = plan.driver.population().senders();
    if !group.stages.is_empty() {
        let problem =
            "stages of users are not supported: vary the rate, or give the number of clients";
        return Err(Invalid::new("groups[0].stages", problem));
    }
    if group.clients != senders {
        let problem = format!(
            "{} is not the number of users that send heartbeats, {senders} (driver.rooms × driver.users_per_room): set it to that",
            group.clients
        );
        return Err(Invalid::new("groups[0].clients", problem));
    }
    Ok(())
}
