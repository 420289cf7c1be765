//! Describes faults that are injected into the daemon under load.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Invalid;
use crate::duration;

/// A signal to all processes of the daemon, and the recovery from it. Each of several instances gets the signal, unless
/// the fault names one of them or a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Time of the fault, counted from the first start, including the warm-up.
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub at: Duration,
    /// `KILL` and `TERM` end the daemon, `STOP` suspends it.
    pub signal: Signal,
    /// Time after which the daemon is started again, or continues. If it is absent, an instance or a service that was
    /// ended stays away.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<duration::Text>")]
    pub back_after: Option<Duration>,
    /// Number of the only instance that gets the signal; the first is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<u64>,
    /// Name, in the manifest's `[services]`, of the service that gets the signal instead of the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

/// A signal that a fault sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Ends the daemon at once.
    Kill,
    /// Asks the daemon to end.
    Term,
    /// Suspends the daemon until `CONT`.
    Stop,
}

impl Fault {
    /// Describes the fault for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        let signal = match self.signal {
            Signal::Kill => "SIGKILL",
            Signal::Term => "SIGTERM",
            Signal::Stop => "SIGSTOP",
        };
        let part = match (self.instance, &self.service) {
            (_, Some(service)) => format!(" of the service {service}"),
            (Some(instance), None) => format!(" of instance {instance}"),
            (None, None) => String::new(),
        };
        let back = match (self.back_after.map(duration::format), self.signal) {
            (Some(after), Signal::Stop) => format!(" for {after}"),
            (Some(after), _) => format!(", started again after {after}"),
            (None, _) => ", not started again".to_owned(),
        };
        format!("{signal}{part}{back}")
    }

    /// Returns the part that the fault affects alone; none if it affects the whole daemon.
    fn part(&self, instances: u64) -> Result<Option<Part>, Misfit> {
        match (self.instance, &self.service) {
            (Some(_), Some(_)) => {
                let problem = "cannot be combined with `service`: write a fault for each";
                Err(("instance", problem.to_owned()))
            }
            (Some(instance), None) if !(1..=instances).contains(&instance) => {
                let problem = format!(
                    "{instance} is not between 1 and {instances}: name an instance, or raise `instances`"
                );
                Err(("instance", problem))
            }
            (Some(instance), None) => Ok(Some(Part::Instance(instance))),
            (None, Some(service)) => Ok(Some(Part::Service(service.clone()))),
            (None, None) => Ok(None),
        }
    }

    /// Checks whether the part that the fault affects is there, and whether it may stay away. `away` has the parts that
    /// stay away already.
    fn check_part(&self, instances: u64, away: &mut BTreeSet<Part>) -> Result<(), Misfit> {
        let part = self.part(instances)?;
        if let Some(part) = part.as_ref().filter(|part| away.contains(part)) {
            let problem = "stays away since a fault above: give that one a `back_after`, or leave this one out";
            return Err((part.key(), problem.to_owned()));
        }
        if self.back_after.is_some() {
            return Ok(());
        }
        let missing = |remedy: &str| Err(("back_after", format!("is missing{remedy}")));
        let Some(part) = part.filter(|_| self.signal != Signal::Stop) else {
            return missing(
                ": write after which time the daemon is started again or continues, such as \"500ms\"; only an `instance` \
                 of several or a `service` that gets KILL or TERM may stay away",
            );
        };
        away.insert(part);
        let gone = away.iter().filter(|part| part.key() == "instance");
        if gone.count() as u64 == instances {
            return missing(", and no instance would be left: set it, or raise `instances`");
        }
        Ok(())
    }
}

/// A key of a fault, and the problem with its remedy.
type Misfit = (&'static str, String);

/// A process that a fault affects alone.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Instance(u64),
    Service(String),
}

impl Part {
    /// Returns the key of a fault that names it.
    fn key(&self) -> &'static str {
        match self {
            Self::Instance(_) => "instance",
            Self::Service(_) => "service",
        }
    }
}

/// Checks that each fault affects something and recovers within the load, and begins after the one before is over.
pub(super) fn validate(faults: &[Fault], planned: Duration, instances: u64) -> Result<(), Invalid> {
    let mut free = Duration::ZERO;
    let mut away = BTreeSet::new();
    for (index, fault) in faults.iter().enumerate() {
        let invalid = |key: &str, problem: String| {
            Err(Invalid::new(format!("faults[{index}].{key}"), problem))
        };
        let over = fault
            .at
            .saturating_add(fault.back_after.unwrap_or_default());
        if fault.at >= planned {
            let problem = format!(
                "is not within the {} of warm-up and measure: move it earlier",
                duration::format(planned)
            );
            return invalid("at", problem);
        }
        if fault.at < free {
            let problem = "comes before the fault above it is over: list faults in order, at least `back_after` apart";
            return invalid("at", problem.to_owned());
        }
        if over >= planned {
            let problem = format!(
                "ends only after the {} of warm-up and measure: shorten it, or move the fault earlier",
                duration::format(planned)
            );
            return invalid("back_after", problem);
        }
        if let Err((key, problem)) = fault.check_part(instances, &mut away) {
            return invalid(key, problem);
        }
        free = over;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use test_kit::{assert_contains, rows};

    use super::*;

    #[derive(Deserialize)]
    struct Faults {
        faults: Vec<Fault>,
    }

    /// Parses faults, each in a line, of a plan with 10 s of load.
    fn checked(lines: &[&str], instances: u64) -> Result<Vec<Fault>, String> {
        let text = format!("faults = [{}]", lines.join(", "));
        let Faults { faults } = toml::from_str(&text).map_err(|error| error.to_string())?;
        validate(&faults, Duration::from_secs(10), instances).map_err(|error| error.to_string())?;
        Ok(faults)
    }

    const STAYS: &str = "{ at = '1s', signal = 'KILL', instance = 2 }";
    const BACK: &str = "{ at = '2s', signal = 'TERM', instance = 1, back_after = '1s' }";
    const SERVICE: &str = "{ at = '4s', signal = 'STOP', service = 'redis', back_after = '1s' }";
    const ALL: &str = "{ at = '6s', signal = 'KILL', back_after = '1s' }";

    #[test]
    fn a_fault_affects_the_daemon_an_instance_or_a_service_and_says_so() {
        let faults = checked(&[STAYS, BACK, SERVICE, ALL], 2).unwrap();
        let sentences: Vec<String> = faults.iter().map(Fault::sentence).collect();
        assert_eq!(
            sentences,
            [
                "SIGKILL of instance 2, not started again",
                "SIGTERM of instance 1, started again after 1s",
                "SIGSTOP of the service redis for 1s",
                "SIGKILL, started again after 1s",
            ]
        );
    }

    #[test]
    fn a_fault_of_the_whole_daemon_is_stored_as_before() {
        let fault = &checked(&[ALL], 1).unwrap()[0];
        let stored = serde_json::json!({ "at": "6s", "signal": "KILL", "back_after": "1s" });
        assert_eq!(serde_json::to_value(fault).unwrap(), stored);
        let fault = &checked(&[STAYS], 2).unwrap()[0];
        let stored = serde_json::json!({ "at": "1s", "signal": "KILL", "instance": 2 });
        assert_eq!(serde_json::to_value(fault).unwrap(), stored);
    }

    #[test]
    fn a_fault_that_cannot_be_is_refused_with_the_field_and_the_remedy() {
        let service_stays = "{ at = '1s', signal = 'TERM', service = 'redis' }";
        assert_eq!(checked(&[service_stays], 1).unwrap().len(), 1);
        // The instances, and the faults.
        let table = "
            2, { at = '1s', signal = 'KILL' } => faults[0].back_after: is missing … `instance` of several
            2, { at = '1s', signal = 'STOP', instance = 1 } => faults[0].back_after: is missing … 500ms
            1, { at = '1s', signal = 'KILL', instance = 1 } => faults[0].back_after … no instance would be left
            2, { at = '1s', signal = 'KILL', instance = 2 }, { at = '2s', signal = 'TERM', instance = 1 } => faults[1].back_after … no instance would be left
            3, { at = '1s', signal = 'KILL', instance = 2 }, { at = '2s', signal = 'TERM', instance = 2 } => faults[1].instance: stays away … leave this one out
            1, { at = '1s', signal = 'TERM', service = 'redis' }, { at = '4s', signal = 'STOP', service = 'redis', back_after = '1s' } => faults[1].service: stays away … `back_after`
            2, { at = '1s', signal = 'KILL', instance = 0, back_after = '1s' } => faults[0].instance: 0 is not between 1 and 2 … raise `instances`
            2, { at = '1s', signal = 'KILL', instance = 1, service = 'redis', back_after = '1s' } => faults[0].instance: cannot be combined … a fault for each
            2, { at = '1s', signal = 'KILL', node = 1, back_after = '1s' } => unknown field `node` … `instance`
        ";
        for (text, parts) in rows(table) {
            let (instances, faults) = text.split_once(", ").unwrap();
            let problem = checked(&[faults], instances.parse().unwrap()).unwrap_err();
            assert_contains(&problem, &parts);
        }
    }
}
