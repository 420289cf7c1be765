//! Describes a load: built from flags or a TOML file, validated before anything starts, stored whole in the result.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use measure::spec::Spec;
use measure::threshold::Threshold;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

mod audit_inputs;
mod fault;
mod stages;
mod suite;

pub use fault::{Fault, Signal};
pub use stages::{Goal, PlannedStage};
pub use suite::{Capacity, Level, Suite};

use crate::duration;
use crate::schedule::{Arrival, Schedule, Share, Stage};
use crate::trust::{self, Untrusted};

/// A description of a load and its target. `D` holds the driver's own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan<D> {
    /// Name of the plan and of the folder of its results.
    pub name: String,
    /// The daemon to launch, by the name of its manifest; absent if the driver's settings name a running one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<String>,
    /// Name, in the manifest's `[urls]`, of the daemon's URL to drive; if absent, its `url` or its socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Number of daemons that are started side by side and share the load, each with its own socket.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub instances: u64,
    /// Environment of the daemon, in addition to that of its manifest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub daemon_env: BTreeMap<String, String>,
    /// Durations of the phases.
    pub timeline: Timeline,
    /// Groups of clients that put on the load.
    pub groups: Vec<Group>,
    /// Name of the load and of the folder of its results; if absent, it is made from the groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Random seed.
    #[serde(default)]
    pub seed: u64,
    /// Conditions that a run must meet, such as `first_byte.p99 <= 50ms`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<String>,
    /// Faults that are injected into the daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// The suite of runs that the plan belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<Suite>,
    /// The driver's own settings.
    pub driver: D,
}

fn one() -> u64 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_one(number: &u64) -> bool {
    *number == 1
}

/// The phases of a run. A sample counts if its operation starts inside `measure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// Load that is applied and not counted.
    #[serde(default, with = "duration")]
    pub warmup: Duration,
    /// Load that is counted. If it is absent and the groups have stages, it lasts for the rest of the stages.
    #[serde(default, with = "duration")]
    pub measure: Duration,
    /// Time that open operations may take to finish.
    #[serde(with = "duration")]
    pub drain: Duration,
}

/// Clients that do the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The name of the group.
    pub name: String,
    /// Number of clients. Without a rate, each begins at its point in the ramp and does `ops` operations one after the
    /// other.
    #[serde(default, alias = "workers")]
    pub clients: u64,
    /// Time over which the clients begin, or the rate rises from 0.
    #[serde(default, with = "duration")]
    pub ramp: Duration,
    /// Operations per second, independent of the daemon (open loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Distribution of the open-loop starts.
    #[serde(default)]
    pub arrival: Arrival,
    /// Rates or numbers of users to go through one after the other; replaces `rate`, or `clients`, and `ramp`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<PlannedStage>,
    /// Number of operations of each client, or of the whole group if it has a rate; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<u64>,
}

/// An error about a plan that can't be run: the field, the problem and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// The field, as a path in the plan or a flag.
    pub field: String,
    /// The problem, and the remedy.
    pub problem: String,
}

impl Invalid {
    /// Creates an error about `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// Longest time that any phase may take: the longest that a histogram can hold.
const LONGEST: Duration = Duration::from_secs(3600);
/// Highest rate that makes sense on one machine.
const HIGHEST_RATE: f64 = 10_000_000.0;
/// Maximum number of daemons side by side: more than any machine has processors for.
const MOST_INSTANCES: u64 = 256;
/// Maximum number of clients of one group.
const MOST_CLIENTS: u64 = 10_000_000;

impl<D> Plan<D> {
    /// Creates a plan of these parts only: no daemon named, one instance, no thresholds, no faults.
    pub fn new(name: &str, timeline: Timeline, groups: Vec<Group>, driver: D) -> Self {
        Self {
            name: name.to_owned(),
            daemon: None,
            endpoint: None,
            instances: 1,
            daemon_env: BTreeMap::new(),
            timeline,
            groups,
            level: None,
            seed: 0,
            thresholds: Vec::new(),
            faults: Vec::new(),
            suite: None,
            driver,
        }
    }

    /// Returns true if the plan, or a level of its suite, sets the environment of daemons.
    fn sets_environment(&self) -> bool {
        let levels = self.suite.iter().flat_map(|suite| &suite.levels);
        let mut set = levels.flat_map(|level| level.set.keys());
        !self.daemon_env.is_empty() || set.any(|path| path.starts_with("daemon_env"))
    }

    /// Checks what does not depend on the driver.
    ///
    /// # Errors
    /// The first field that can't be run, with the remedy.
    pub fn validate(&self) -> Result<(), Invalid> {
        check_folder_name("name", &self.name)?;
        let mut levels = self.level.iter();
        levels.try_for_each(|level| check_folder_name("level", level))?;
        let is_burst = self.timeline.warmup.is_zero() && self.groups.iter().all(Group::is_burst);
        if self.timeline.measure.is_zero() && !is_burst {
            return Err(Invalid::new(
                "timeline.measure",
                "must be longer than 0: set a time, such as 10s",
            ));
        }
        for (field, phase) in [
            ("warmup", self.timeline.warmup),
            ("measure", self.timeline.measure),
            ("drain", self.timeline.drain),
        ] {
            if phase > 24 * LONGEST {
                return Err(Invalid::new(
                    format!("timeline.{field}"),
                    "is longer than a day: split the run",
                ));
            }
        }
        if self.groups.is_empty() {
            return Err(Invalid::new(
                "groups",
                "is empty: add a [[groups]] with `clients` or a `rate`",
            ));
        }
        self.groups
            .iter()
            .enumerate()
            .try_for_each(|(index, group)| group.validate(&format!("groups[{index}]")))?;
        self.ramps_fit()?;
        self.stages_fit()?;
        if !(1..=MOST_INSTANCES).contains(&self.instances) {
            let problem = format!("{} is not between 1 and {MOST_INSTANCES}", self.instances);
            return Err(Invalid::new("instances (--instances)", problem));
        }
        fault::validate(&self.faults, self.planned())
    }

    /// Refuses a ramp of clients that are used once each if some begin after the end: a fixed number starts in full.
    fn ramps_fit(&self) -> Result<(), Invalid> {
        let planned = self.planned();
        let misfit = |group: &Group| group.is_used_once() && group.ramp > planned;
        let Some(index) = self.groups.iter().position(misfit) else {
            return Ok(());
        };
        let problem = format!(
            "{} is longer than timeline.warmup and timeline.measure together, {}: lengthen timeline.measure, so that all clients begin",
            duration::format(self.groups[index].ramp),
            duration::format(planned)
        );
        Err(Invalid::new(format!("groups[{index}].ramp"), problem))
    }

    /// Parses the thresholds with the series and errors of the driver.
    ///
    /// # Errors
    /// The first threshold that can't be parsed, with the known figures, or that counts an unknown kind of error.
    pub fn thresholds(&self, spec: &Spec) -> Result<Vec<Threshold>, Invalid> {
        let series = spec.series_names();
        let errors: Vec<&str> = spec
            .errors
            .iter()
            .map(|error| error.name.as_ref())
            .collect();
        let read = |(index, text): (usize, &String)| {
            let wrong =
                |problem| Invalid::new(format!("thresholds[{index}] (--threshold)"), problem);
            let threshold = Threshold::parse(text, &series)
                .map_err(|malformed| wrong(malformed.to_string()))?;
            match threshold.error_kind().filter(|kind| !errors.contains(kind)) {
                Some(kind) => Err(wrong(format!(
                    "{text}: there is no error kind `{kind}`: use one of {}",
                    errors.join(", ")
                ))),
                None => Ok(threshold),
            }
        };
        self.thresholds.iter().enumerate().map(read).collect()
    }

    /// Returns the planned duration, without the drain phase.
    #[must_use]
    pub fn planned(&self) -> Duration {
        self.timeline.warmup + self.timeline.measure
    }

    /// Returns the schedules of all groups for one share of the load.
    #[must_use]
    pub fn schedules(&self, share: Share) -> Vec<Schedule> {
        self.groups
            .iter()
            .enumerate()
            .map(|(index, group)| group.schedule(self, index as u64, share))
            .collect()
    }

    /// Returns the level of the load, which names a folder of results.
    #[must_use]
    pub fn level(&self) -> String {
        let one = |group: &Group| match (group.rate, group.stages.is_empty()) {
            (Some(rate), _) => format!("{rate}-per-s"),
            (None, false) => "staged".to_owned(),
            (None, true) => group.clients.to_string(),
        };
        let groups = || self.groups.iter().map(one).collect::<Vec<_>>().join("x");
        self.level.clone().unwrap_or_else(groups)
    }

    /// Describes the load as part of a sentence: `100 started over 10s, once each`.
    #[must_use]
    pub fn load_sentence(&self) -> String {
        self.groups
            .iter()
            .map(Group::sentence)
            .collect::<Vec<_>>()
            .join(", and ")
    }
}

/// Checks that a name can be used as the name of a result folder, so that the folder stays where it belongs.
///
/// # Errors
/// The field, the problem, and what a name may contain.
pub fn check_folder_name(field: &str, name: &str) -> Result<(), Invalid> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain) {
        return Ok(());
    }
    let problem = format!(
        "`{name}` is used as a folder name: use letters, digits, `-`, `_` and `.`, and no `.` first"
    );
    Err(Invalid::new(field, problem))
}

impl Group {
    /// Returns true if a fixed number of clients does one operation each.
    fn is_used_once(&self) -> bool {
        self.rate.is_none() && self.stages.is_empty() && self.ops == Some(1)
    }

    /// Returns true if all clients do one operation at once, which takes no time.
    fn is_burst(&self) -> bool {
        self.is_used_once() && self.ramp.is_zero()
    }

    fn validate(&self, path: &str) -> Result<(), Invalid> {
        let rates = self
            .rate
            .iter()
            .copied()
            .chain(self.stages.iter().filter_map(PlannedStage::rate));
        for rate in rates {
            if !(0.0..=HIGHEST_RATE).contains(&rate) {
                return Err(Invalid::new(
                    format!("{path}.rate (--rate)"),
                    format!("{rate} is not between 0 and 10,000,000 per second"),
                ));
            }
        }
        if self.rate == Some(0.0) {
            return Err(Invalid::new(
                format!("{path}.rate (--rate)"),
                "0 starts nothing: give a rate above 0, or leave it out for a closed loop",
            ));
        }
        if self.rate.is_some() && !self.stages.is_empty() {
            return Err(Invalid::new(
                format!("{path}.stages"),
                "cannot be combined with `rate`: give one of the two",
            ));
        }
        if !self.stages.is_empty() {
            return self.validate_stages(path);
        }
        let open = self.rate.is_some();
        if !open && self.clients == 0 {
            return Err(Invalid::new(
                format!("{path}.clients"),
                "0 clients do nothing: give at least 1, or a `rate`",
            ));
        }
        if open && self.clients > 0 {
            return Err(Invalid::new(
                format!("{path}.clients"),
                "a group with a rate starts operations at that rate: leave `clients` out",
            ));
        }
        if self.clients > MOST_CLIENTS {
            return Err(Invalid::new(
                format!("{path}.clients"),
                format!("{} is more than 10,000,000: lower it", self.clients),
            ));
        }
        if self.ops == Some(0) {
            return Err(Invalid::new(
                format!("{path}.ops"),
                "0 operations do nothing: give at least 1, or leave it out",
            ));
        }
        if self.ramp > LONGEST {
            return Err(Invalid::new(
                format!("{path}.ramp"),
                "is longer than an hour: shorten it",
            ));
        }
        Ok(())
    }

    fn schedule<D>(&self, plan: &Plan<D>, index: u64, share: Share) -> Schedule {
        let seed = plan.seed.wrapping_add(index);
        let limited = |schedule: Schedule| match self.ops {
            Some(ops) => schedule.limited(ops),
            None => schedule,
        };
        if let Some(rate) = self.rate {
            let plateau = plan.planned().saturating_sub(self.ramp);
            let stages = [
                Stage {
                    from: 0.0,
                    to: rate,
                    over: self.ramp,
                },
                Stage {
                    from: rate,
                    to: rate,
                    over: plateau,
                },
            ];
            return limited(Schedule::rate(&stages, self.arrival, seed, share));
        }
        if !self.stages.is_empty() {
            return limited(self.staged(seed, share));
        }
        match self.ops {
            // Workers that are used once each are arrivals: their starts are due independently of the daemon.
            Some(1) => Schedule::spread(self.clients, self.ramp, share),
            _ => limited(Schedule::closed(self.clients, self.ramp, share)),
        }
    }

    fn sentence(&self) -> String {
        let ramp = |verb: &str| match self.ramp {
            Duration::ZERO => " at once".to_owned(),
            ramp => format!(" {verb} {}", duration::format(ramp)),
        };
        let in_all = self
            .ops
            .map_or_else(String::new, |ops| format!(", {ops} in all"));
        if let Some(rate) = self.rate {
            let risen = if self.ramp.is_zero() {
                String::new()
            } else {
                ramp("reached within")
            };
            return format!("{rate} starts per second ({}){risen}{in_all}", self.arrival);
        }
        if !self.stages.is_empty() {
            return format!("{}{in_all}", self.stages_sentence());
        }
        let each = match self.ops {
            Some(1) => ", once each".to_owned(),
            Some(ops) => format!(", {ops} times each"),
            None => String::new(),
        };
        format!("{} started{}{each}", self.clients, ramp("over"))
    }
}

/// An error in loading a plan file.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file can't be read.
    #[error("--plan {path}: {problem}: give the path of a plan, such as one of configs/")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the system.
        problem: std::io::Error,
    },
    /// The file is not a plan.
    #[error("--plan {path}: {problem}")]
    Malformed {
        /// The file.
        path: String,
        /// The problem, and its position.
        problem: String,
    },
    /// The file sets the environment of daemons, and somebody else may have written it.
    #[error("--plan {0}\n  or copy the plan, and check its `daemon_env` before you run it")]
    Untrusted(#[source] Untrusted),
    /// An argument of `--set` names no field or gives no value.
    #[error("--set {setting}: {problem}")]
    Setting {
        /// The argument.
        setting: String,
        /// The problem with it.
        problem: String,
    },
    /// A field can't be run.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Reads a plan, applies `path=value` settings to it, and checks it.
///
/// # Errors
/// The file can't be read, a key is unknown or missing (named with its line), or a value can't be run. A `daemon_env`
/// decides what a daemon executes, and is refused in a file that somebody else may have written.
pub fn load<D: DeserializeOwned>(path: &Path, settings: &[String]) -> Result<Plan<D>, PlanError> {
    let shown = path.display().to_string();
    let malformed = |problem: String| PlanError::Malformed {
        path: shown.clone(),
        problem,
    };
    let unreadable = |problem| PlanError::Unreadable {
        path: shown.clone(),
        problem,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    let mut plan: Plan<D> = if settings.is_empty() {
        toml::from_str(&text).map_err(|error| malformed(error.to_string()))?
    } else {
        let mut table: toml::Table =
            toml::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        settings
            .iter()
            .try_for_each(|setting| set(&mut table, setting))?;
        let settings = settings.join(" --set ");
        table.try_into().map_err(|error: toml::de::Error| {
            malformed(format!("with --set {settings}: {}", error.message()))
        })?
    };
    // A pipe belongs to the caller.
    if plan.sets_environment() && file.metadata().is_ok_and(|file| file.is_file()) {
        trust::require_open(path, &file).map_err(PlanError::Untrusted)?;
    }
    plan.measure_the_stages();
    plan.validate()?;
    Ok(plan)
}

/// Applies `path.to.key=value`; a number in the path is an index into a list. The value is TOML, or else a plain
/// string.
fn set(table: &mut toml::Table, setting: &str) -> Result<(), PlanError> {
    let wrong = |problem: &str| PlanError::Setting {
        setting: setting.to_owned(),
        problem: problem.to_owned(),
    };
    let (path, value) = setting
        .split_once('=')
        .ok_or_else(|| wrong("write it as path=value, such as timeline.measure=10s"))?;
    let value = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut keys = path.split('.');
    let last = keys
        .next_back()
        .filter(|key| !key.is_empty())
        .ok_or_else(|| wrong("names no field"))?;
    let mut current = table;
    while let Some(key) = keys.next() {
        let entry = current
            .entry(key)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        current = match entry {
            toml::Value::Array(list) => {
                let index = keys
                    .next()
                    .and_then(|index| index.parse::<usize>().ok())
                    .ok_or_else(|| {
                        wrong("is a list: name an index in it, such as groups.0.rate")
                    })?;
                list.get_mut(index)
                    .and_then(toml::Value::as_table_mut)
                    .ok_or_else(|| wrong("has no entry with that index"))?
            }
            toml::Value::Table(table) => table,
            _ => return Err(wrong("goes through a field that is not a table")),
        };
    }
    // An older name of the field.
    let last = match (path.starts_with("groups."), last) {
        (true, "workers") => "clients",
        (_, last) => last,
    };
    if last == "clients" {
        current.remove("workers");
    }
    current.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_name_of_clients_is_read_in_files_and_settings() {
        let text = |field: &str| {
            format!(
                "name = 'p'\n[timeline]\nmeasure = '1s'\ndrain = '1s'\n[[groups]]\nname = 'g'\n{field} = 3\n[driver]\n"
            )
        };
        for (field, settings, expected) in [
            ("clients", vec![], 3),
            ("workers", vec![], 3),
            ("workers", vec!["groups.0.clients=5".to_owned()], 5),
            ("clients", vec!["groups.0.workers=5".to_owned()], 5),
        ] {
            let folder = tempfile::tempdir().expect("a folder for temporary files");
            let path = folder.path().join("plan.toml");
            std::fs::write(&path, text(field)).expect("the folder is writable");
            let plan: Plan<toml::Table> = load(&path, &settings).expect("the plan can be run");
            assert_eq!(plan.groups[0].clients, expected, "{field} {settings:?}");
            let stored = toml::to_string(&plan).expect("a plan can be stored");
            assert!(stored.contains("clients = ") && !stored.contains("workers"));
        }
    }
}
