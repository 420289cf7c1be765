//! Describes a load: built from flags or a TOML file, validated before anything starts, stored whole in the result.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::objective::Objective;
use measure::spec::Spec;
use measure::tally::Series;
use measure::threshold::Threshold;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod audit_inputs;
mod fault;
mod file;
mod group;
mod stages;
mod suite;

pub use fault::{Fault, Signal};
pub use file::{PlanError, load, read};
pub use group::Group;
pub use stages::{Goal, PlannedStage};
pub use suite::{Capacity, Level, MOST_RETRIES, Suite};

use crate::duration;
use crate::schedule::{Arrival, Schedule, Share};

/// A description of a load and its target. `D` holds the driver's own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = without_driver)]
pub struct Plan<D> {
    /// Name of the plan and of the folder of its results.
    pub name: String,
    /// The protocol, which decides its driver. If it is absent, the folder `configs/<protocol>/` or the daemons decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The daemon to launch, by the name of its manifest; absent if the driver's settings name a running one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<String>,
    /// The addresses of daemons that already run, as the driver takes them on its command line: URLs, or paths of sockets,
    /// which begin with a slash or a dot. Instead of `daemon`; an address or a daemon on the command line takes precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Name, in the manifest's `[urls]`, of the daemon's URL to drive; if absent, its `url` or its socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Number of daemons that are started side by side and share the load, each with its own socket.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub instances: u64,
    /// Environment of the daemon, in addition to its manifest's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub daemon_env: BTreeMap<String, String>,
    /// Durations of the phases.
    pub timeline: Timeline,
    /// Groups of clients that put on the load.
    pub groups: Vec<Group>,
    /// Time after which an operation of a rate that is due is not started any more, but missed; unlimited if absent.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<duration::Text>")]
    pub deadline: Option<Duration>,
    /// Name of the load and of the folder of its results; if absent, it is made from the groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// Random seed.
    #[serde(default)]
    pub seed: u64,
    /// Limits that every operation should meet, such as `response < 200ms`. The operations that meet all of them are counted
    /// as goodput.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<String>,
    /// Conditions that a run must meet, such as `first_byte.p99 <= 50ms`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<String>,
    /// Ends the run when a threshold is missed, judged each second from this long into the measured time on; if it is absent,
    /// thresholds are judged at the end only.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<duration::Text>")]
    pub abort_on_fail: Option<Duration>,
    /// The metric that decides which daemon is better, such as `response.p99`; if it is absent, the downtime after faults, or
    /// the median of the headline series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// Faults that are injected into the daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// The suite of runs that the plan belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<Suite>,
    /// The driver's own settings; a file may leave the table out if none is set.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// Load that is applied and not counted.
    #[serde(default, with = "duration")]
    #[schemars(with = "duration::Text")]
    pub warmup: Duration,
    /// Load that is counted. If it is absent and the groups have stages, it lasts for the rest of the stages.
    #[serde(default, with = "duration")]
    #[schemars(with = "duration::Text")]
    pub measure: Duration,
    /// Time that open operations may take to finish; the run ends earlier once none is open. If it is absent, it is 31
    /// seconds: one more than an operation may take by default.
    #[serde(default = "drain", with = "duration")]
    #[schemars(with = "duration::Text")]
    pub drain: Duration,
}

fn drain() -> Duration {
    Duration::from_secs(31)
}

/// Lets the schema accept a plan without the table `driver`, as reading does.
fn without_driver(schema: &mut schemars::Schema) {
    if let Some(required) = schema
        .get_mut("required")
        .and_then(|required| required.as_array_mut())
    {
        required.retain(|name| name != "driver");
    }
}

impl Timeline {
    /// Creates a timeline without a warm-up.
    #[must_use]
    pub const fn new(measure: Duration, drain: Duration) -> Self {
        Self {
            warmup: Duration::ZERO,
            measure,
            drain,
        }
    }
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

    /// Creates an error about a driver's setting, which is named as in a plan and as on the command line.
    pub fn setting(name: &str, problem: impl Into<String>) -> Self {
        let option = name.replace('_', "-");
        Self::new(format!("driver.{name} (--{option})"), problem)
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
            protocol: None,
            daemon: None,
            targets: Vec::new(),
            endpoint: None,
            instances: 1,
            daemon_env: BTreeMap::new(),
            timeline,
            groups,
            deadline: None,
            level: None,
            seed: 0,
            objectives: Vec::new(),
            thresholds: Vec::new(),
            abort_on_fail: None,
            primary: None,
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
            let problem = "must be longer than 0: set a time, such as 10s";
            return Err(Invalid::new("timeline.measure", problem));
        }
        for (field, phase) in [
            ("warmup", self.timeline.warmup),
            ("measure", self.timeline.measure),
            ("drain", self.timeline.drain),
        ] {
            if phase > 24 * LONGEST {
                let problem = "is longer than a day: split the run";
                return Err(Invalid::new(format!("timeline.{field}"), problem));
            }
        }
        if self.groups.is_empty() {
            let problem = "is empty: add a [[groups]] with `clients` or a `rate`";
            return Err(Invalid::new("groups", problem));
        }
        self.groups
            .iter()
            .enumerate()
            .try_for_each(|(index, group)| group.validate(&format!("groups[{index}]")))?;
        self.ramps_fit()?;
        self.arrivals_fit()?;
        self.stages_fit()?;
        self.deadline_fits()?;
        self.abort_fits()?;
        if !(1..=MOST_INSTANCES).contains(&self.instances) {
            let problem = format!("{} is not between 1 and {MOST_INSTANCES}", self.instances);
            return Err(Invalid::new("instances (--instances)", problem));
        }
        fault::validate(&self.faults, self.planned(), self.instances)
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

    /// Refuses random arrivals if no group has a rate: only its starts are distributed.
    fn arrivals_fit(&self) -> Result<(), Invalid> {
        let is_random = |group: &Group| group.arrival != Arrival::default();
        match self.groups.iter().position(is_random) {
            Some(index) if self.groups.iter().all(Group::is_closed) => {
                let problem = "distributes the starts of a rate: give a rate, or leave it out";
                let field = format!("groups[{index}].arrival (--arrival)");
                Err(Invalid::new(field, problem))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a deadline if no operation has a due time that it could be late for.
    fn deadline_fits(&self) -> Result<(), Invalid> {
        let problem = match self.deadline {
            Some(deadline) if deadline.is_zero() => {
                "must be longer than 0: every operation starts a moment after it is due"
            }
            Some(_) if self.groups.iter().all(Group::is_unpaced) => {
                "is for operations that are due at a time, and the clients of a closed loop start theirs when the last one has ended: give a rate, or leave it out"
            }
            _ => return Ok(()),
        };
        Err(Invalid::new("deadline (--deadline)", problem))
    }

    /// Refuses an early end that would judge nothing.
    fn abort_fits(&self) -> Result<(), Invalid> {
        let problem = match self.abort_on_fail {
            Some(_) if self.thresholds.is_empty() => {
                "ends the run when a threshold is missed: give one (--threshold), or leave it out"
            }
            Some(after) if after >= self.timeline.measure => {
                "must be shorter than timeline.measure: the rest is the time in which thresholds are judged"
            }
            _ => return Ok(()),
        };
        Err(Invalid::new("abort_on_fail (--abort-on-fail)", problem))
    }

    /// Parses the thresholds with the series, errors and counters of the driver.
    ///
    /// # Errors
    /// The first threshold that can't be parsed, or that names something unknown, with what it may mean.
    pub fn thresholds(&self, spec: &Spec) -> Result<Vec<Threshold>, Invalid> {
        let read = |(index, text): (usize, &String)| {
            Threshold::parse_for(text, spec)
                .map_err(|malformed| threshold_error(index, malformed.to_string()))
        };
        self.thresholds.iter().enumerate().map(read).collect()
    }

    /// Parses the objectives with the series of the driver.
    ///
    /// # Errors
    /// The first objective that can't be parsed, or that names an unknown series, with what it may mean.
    pub fn objectives(&self, spec: &Spec) -> Result<Vec<Objective>, Invalid> {
        let read = |(index, text): (usize, &String)| {
            Objective::parse(text, spec)
                .map_err(|malformed| objective_error(index, malformed.to_string()))
        };
        self.objectives.iter().enumerate().map(read).collect()
    }

    /// Checks that all objectives are on `possible` series, and that there are some if a threshold is about goodput.
    ///
    /// # Errors
    /// The first objective or threshold for which this is not so, or that can't be parsed, with the reason.
    pub(crate) fn objectives_on(&self, spec: &Spec, possible: &[Series]) -> Result<(), Invalid> {
        let name = |series: Series| spec.series[series.0].name.as_ref();
        let objectives = self.objectives(spec)?;
        let thresholds = self.thresholds(spec)?;
        let of_goodput = thresholds.iter().position(Threshold::needs_objectives);
        if let Some(index) = of_goodput.filter(|_| objectives.is_empty()) {
            let remedy = match possible.first() {
                Some(first) => format!("set one, such as --objective \"{} < 200ms\"", name(*first)),
                None => "leave it out, because this load can have none".to_owned(),
            };
            let problem = format!(
                "`{}`: goodput counts operations that meet objectives: {remedy}",
                self.thresholds[index]
            );
            return Err(threshold_error(index, problem));
        }
        let Some(index) = objectives
            .iter()
            .position(|objective| !possible.contains(&objective.series))
        else {
            return Ok(());
        };
        let possible: Vec<&str> = possible.iter().map(|series| name(*series)).collect();
        let remedy = match possible.as_slice() {
            [] => "leave objectives out".to_owned(),
            possible => format!("use {}", possible.join(" or ")),
        };
        let problem = format!(
            "`{}`: not every operation of this load has a time of {} when it ends: {remedy}",
            self.objectives[index],
            name(objectives[index].series),
        );
        Err(objective_error(index, problem))
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
        let groups = self.groups.iter().map(Group::sentence);
        let mut sentence = groups.collect::<Vec<_>>().join(", and ");
        if let Some(deadline) = self.deadline {
            let after = duration::format(deadline);
            sentence.push_str(&format!(", missed if not started within {after}"));
        }
        sentence
    }
}

fn threshold_error(index: usize, problem: String) -> Invalid {
    Invalid::new(format!("thresholds[{index}] (--threshold)"), problem)
}

fn objective_error(index: usize, problem: String) -> Invalid {
    Invalid::new(format!("objectives[{index}] (--objective)"), problem)
}

/// Checks that a name can be used as the name of a result folder, so that the folder stays where it belongs.
///
/// # Errors
/// The field, the problem, and what a name may contain.
pub fn check_folder_name(field: &str, name: &str) -> Result<(), Invalid> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain) {
        return Ok(());
    }
    let problem = format!(
        "`{name}` is used as a folder name: use letters, digits, `-`, `_`, `.` and `@`, and no `.` first"
    );
    Err(Invalid::new(field, problem))
}
