//! Checks a plan before anything starts, and describes its load.

use std::time::Duration;

use load::driver::Description;
use load::plan::{Group, Invalid, Plan};
use measure::result::{AuditInputs, Lifetime};

use crate::settings::Settings;
use crate::spec::{self, SPEC};
use fdpass_client::handoff::{DEFAULT_DATA, long_prompt, payload_limit};

/// Maximum time between two records.
const LONGEST_DELAY: Duration = Duration::from_secs(86_400);

/// Describes the load of a valid plan. A stream is open from its connect to its end; the pause before a retried connect
/// is in no series.
pub(crate) fn describe(plan: &Plan<Settings>) -> Description {
    let parts = [spec::CONNECT, spec::HANDOFF, spec::STREAM];
    let parts = parts.map(|part| SPEC.series[part.0].name.to_string());
    let sentence = Settings::sentence(plan);
    Description {
        audit_inputs: AuditInputs {
            lifetime: Some(Lifetime {
                series: parts.into(),
                ..Lifetime::default()
            }),
            ..plan.audit_inputs()
        },
        // Slow readers beside others have no times.
        objective_series: match plan.driver.slow_share {
            Some(_) => Vec::new(),
            None => vec![spec::FIRST_BYTE, spec::FIRST_EVENT, spec::GAP, spec::STREAM],
        },
        longest: longest(&plan.driver),
        open_at_once: open_at_once(plan),
        ..Description::new(plan, &SPEC, sentence, spec::FIRST_EVENT, descriptors(plan))
    }
}

/// Returns the maximum duration of a stream: its nominal duration plus some slack, or its timeout.
fn longest(settings: &Settings) -> Duration {
    let most = settings.stream_timeout;
    settings.nominal().map_or(most, |nominal| {
        most.min(nominal + nominal / 10 + Duration::from_secs(1))
    })
}

/// Returns how many descriptors the load opens at once.
fn descriptors(plan: &Plan<Settings>) -> u64 {
    let open = |group: &Group| match group.rate {
        // Little's law: open streams are the rate times their duration.
        Some(rate) => (rate * plan.driver.nominal().unwrap_or_default().as_secs_f64() * 1.2) as u64,
        None => group.clients,
    };
    plan.groups.iter().map(open).sum()
}

/// Returns how many streams may be open at once. Streams known to end while others begin are not all open together
/// (Little's law).
fn open_at_once(plan: &Plan<Settings>) -> u64 {
    let nominal = plan.driver.nominal().map(|nominal| nominal.as_secs_f64());
    let open = |group: &Group| {
        let ramp = group.ramp.as_secs_f64();
        match (group.rate, nominal) {
            (Some(rate), nominal) => (rate * nominal.unwrap_or_default()) as u64,
            (None, Some(nominal)) if group.ops == Some(1) && nominal < ramp => {
                (group.clients as f64 * nominal / ramp) as u64
            }
            (None, _) => group.clients,
        }
    };
    plan.groups.iter().map(open).sum()
}

impl Settings {
    /// Checks the settings and the shape of the load. The error is the first invalid field, with the remedy.
    pub(crate) fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        plan.driver.validate_payload()?;
        if let Some((field, problem)) = plan.driver.invalid_field() {
            return Err(Invalid::new(format!("driver.{field}"), problem));
        }
        let mut groups = plan.groups.iter();
        let closed = groups.position(|group| group.is_closed() && group.ops != Some(1));
        if let Some(index) = closed {
            let problem = "a client is used for one stream: set `ops = 1`, or give the group a `rate` to replace streams that end";
            return Err(Invalid::new(format!("groups[{index}].ops"), problem));
        }
        Ok(())
    }

    /// Returns the first field whose value is invalid alone or beside another, and the problem.
    fn invalid_field(&self) -> Option<(&'static str, &'static str)> {
        let timeouts = [
            ("stream_timeout", Some(self.stream_timeout)),
            ("first_byte_timeout", self.first_byte_timeout),
            ("idle_timeout", self.idle_timeout),
            ("slow_reader", self.slow_reader),
        ];
        let is_invalid = |time: Duration| time.is_zero() || time > LONGEST_DELAY;
        let timeout = timeouts
            .into_iter()
            .find(|(_, time)| time.is_some_and(is_invalid));
        let is_slow = self.slow_reader.is_some() || self.never_read;
        let is_fraction = |share| share > 0.0 && share < 1.0;
        Some(match () {
            () if self.slow_share.is_some_and(|share| !is_fraction(share)) => (
                "slow_share",
                "must be between 0 and 1 (0.1 is every tenth client): correct it, or leave it out for all",
            ),
            () if self.slow_share.is_some() && !is_slow => (
                "slow_share",
                "needs `slow_reader` or `never_read`: add one of them",
            ),
            () if let Some((field, _)) = timeout => (
                field,
                "must be between 1ns and 24h: give a time such as 30s",
            ),
            // More would wait for hours.
            () if self.retries > 16 => (
                "retries",
                "exceeds 16: lower it, since the pause doubles each time",
            ),
            () if self.messages > Some(60_000) => ("messages", "exceeds 60000: lower it"),
            () if self.message_delay > Some(LONGEST_DELAY) => {
                ("message_delay", "exceeds 24h: give a time such as 50ms")
            }
            () if self.abort_after == Some(0) => (
                "abort_after",
                "must be at least 1: use never_read for clients that read nothing",
            ),
            () if self.never_read && (self.slow_reader.is_some() || self.abort_after.is_some()) => {
                (
                    "never_read",
                    "excludes slow_reader and abort_after: use only one of them",
                )
            }
            () => return None,
        })
    }

    fn validate_payload(&self) -> Result<(), Invalid> {
        let limit = payload_limit().map_err(|error| {
            let problem = format!("cannot read the payload limit: {error}");
            Invalid::new("driver.data", problem)
        })?;
        let least = long_prompt(0).len();
        let (field, bytes) = match self.payload_bytes {
            Some(bytes) => ("driver.payload_bytes", bytes as usize),
            None => ("driver.data (--data, --data-file)", self.data.len()),
        };
        let problem = if self.payload_bytes.is_some() && self.data != DEFAULT_DATA {
            "replaces `data`: use only one of them".to_owned()
        } else if self.payload_bytes.is_some() && bytes < least {
            format!("{bytes} bytes are fewer than the {least} of an empty prompt: raise it")
        } else if bytes > limit {
            format!(
                "{bytes} bytes exceed the record limit of {limit}: send fewer, or raise net.core.wmem_default"
            )
        } else {
            return Ok(());
        };
        Err(Invalid::new(field, problem))
    }
}
