//! Describes many runs that answer one question: daemons × levels × repetitions, or the search for a capacity.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Invalid, check_folder_name};

/// Maximum number of runs of one daemon at one level.
const MOST_REPEATS: u32 = 1000;
/// Maximum number of times that an INVALID run is made again. A cause that lasts longer does not pass by itself.
pub const MOST_RETRIES: u32 = 10;

/// The runs that `drover run` makes of a plan. A driver that runs the plan itself ignores them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The daemons, by the names of their manifests.
    pub daemons: Vec<String>,
    /// Number of runs of each daemon at each level.
    #[serde(default = "once")]
    pub repeat: u32,
    /// Number of times that `drover run` makes an INVALID run again before it keeps the result.
    #[serde(default = "twice", skip_serializing_if = "is_twice")]
    pub retry_invalid: u32,
    /// The loads; if absent, the plan as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// A search instead of levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

/// A load of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Name of the level and of the folder of its results.
    pub name: String,
    /// Fields that it changes in the plan: `"groups.0.clients" = 1000`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
}

/// A search for the highest load at which the plan's thresholds are met. The load is doubled until a threshold is
/// missed, then bisected, then confirmed. A load that the driver or the machine spoils is tried three times, and then
/// bounds the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// The number that is searched for: `groups.0.clients`.
    pub set: String,
    /// First value of the search.
    pub from: u64,
    /// Highest value of the search.
    pub most: u64,
    /// Required width of the bracket, in percent of its lower end.
    #[serde(default = "five")]
    pub within_pct: f64,
    /// Number of runs that must confirm the result.
    #[serde(default = "twice")]
    pub confirm: u32,
}

impl Level {
    /// Returns its changes as `--set` takes them: `path=value`.
    #[must_use]
    pub fn settings(&self) -> Vec<String> {
        let settings = self.set.iter();
        settings
            .map(|(path, value)| format!("{path}={value}"))
            .collect()
    }
}

impl Suite {
    /// Creates a suite of one run of each daemon, with the plan as it is.
    #[must_use]
    pub fn new(daemons: Vec<String>) -> Self {
        Self {
            daemons,
            repeat: once(),
            retry_invalid: twice(),
            levels: Vec::new(),
            capacity: None,
        }
    }

    /// Checks all that can be known before a run.
    ///
    /// # Errors
    /// The first field that makes no sense, with the remedy.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.daemons.is_empty() {
            let problem = "is empty: name at least one folder of daemons/";
            return Err(Invalid::new("suite.daemons", problem));
        }
        if let Some(name) = repeated(self.daemons.iter()) {
            let problem =
                format!("names `{name}` twice: use `repeat` to measure a daemon several times");
            return Err(Invalid::new("suite.daemons", problem));
        }
        if !(1..=MOST_REPEATS).contains(&self.repeat) {
            let problem = format!("{} is not between 1 and {MOST_REPEATS}", self.repeat);
            return Err(Invalid::new("suite.repeat", problem));
        }
        if self.retry_invalid > MOST_RETRIES {
            let problem = format!(
                "{} is more than {MOST_RETRIES}: a cause that lasts longer does not pass by itself",
                self.retry_invalid
            );
            return Err(Invalid::new("suite.retry_invalid", problem));
        }
        if let Some(name) = repeated(self.levels.iter().map(|level| &level.name)) {
            let problem =
                format!("has `{name}` twice: each level needs a name of its own for its results");
            return Err(Invalid::new("suite.levels", problem));
        }
        let mut names = self.levels.iter().map(|level| &level.name);
        names.try_for_each(|name| check_folder_name("suite.levels", name))?;
        self.capacity.as_ref().map_or(Ok(()), |capacity| {
            if !self.levels.is_empty() {
                let problem = "cannot be combined with `levels`: give one of the two";
                return Err(Invalid::new("suite.capacity", problem));
            }
            if self.repeat != 1 {
                let problem = "a search is not repeated: use `capacity.confirm` to run its result several times";
                return Err(Invalid::new("suite.repeat", problem));
            }
            capacity.validate()
        })
    }
}

impl Capacity {
    /// Returns the setting of a load, as `--set` takes it: `path=value`.
    #[must_use]
    pub fn setting(&self, load: u64) -> String {
        format!("{}={load}", self.set)
    }

    fn validate(&self) -> Result<(), Invalid> {
        let Self {
            from,
            most,
            within_pct,
            confirm,
            ..
        } = self;
        let (field, problem) = if *from == 0 {
            (
                "from",
                "0 can't be doubled: start with at least 1".to_owned(),
            )
        } else if most < from {
            ("most", format!("{most} is below `from`, {from}"))
        } else if !(*within_pct > 0.0 && *within_pct <= 100.0) {
            let problem = format!("{within_pct} is not between 0 and 100: write 5 for 5 %");
            ("within_pct", problem)
        } else if *confirm > MOST_REPEATS {
            ("confirm", format!("{confirm} is more than {MOST_REPEATS}"))
        } else {
            return Ok(());
        };
        Err(Invalid::new(format!("suite.capacity.{field}"), problem))
    }
}

fn repeated<'a>(mut names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = BTreeSet::new();
    names.find(|name| !seen.insert(*name))
}

fn once() -> u32 {
    1
}

fn twice() -> u32 {
    2
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_twice(number: &u32) -> bool {
    *number == twice()
}

fn five() -> f64 {
    5.0
}

#[cfg(test)]
mod tests {
    use test_kit::{assert_contains, rows};

    use super::*;

    fn problem(text: &str) -> String {
        let suite: Suite = toml::from_str(text).unwrap();
        suite.validate().unwrap_err().to_string()
    }

    #[test]
    fn contradictions_are_named_with_their_field() {
        let table = r"
            daemons = [] => suite.daemons … empty
            daemons = ['a', 'a'] => suite.daemons … `a` twice
            daemons = ['a']\nrepeat = 0 => suite.repeat … between 1
            daemons = ['a']\nretry_invalid = 11 => suite.retry_invalid … more than 10
            daemons = ['a']\nlevels = [{ name = '../x', set = {} }] => suite.levels … folder
            daemons = ['a']\nlevels = [{ name = 'x', set = {} }, { name = 'x', set = {} }] => suite.levels … `x` twice
            daemons = ['a']\ncapacity = { set = 'n', from = 0, most = 9 } => suite.capacity.from … at least 1
            daemons = ['a']\ncapacity = { set = 'n', from = 9, most = 8 } => suite.capacity.most … below
            daemons = ['a']\ncapacity = { set = 'n', from = 1, most = 8, within_pct = 0.0 } => suite.capacity.within_pct … 5 %
            daemons = ['a']\nrepeat = 2\ncapacity = { set = 'n', from = 1, most = 8 } => suite.repeat … confirm
        ";
        for (text, parts) in rows(table) {
            assert_contains(&problem(&text.replace(r"\n", "\n")), &parts);
        }
    }

    #[test]
    fn a_search_has_the_documented_defaults() {
        let suite: Suite =
            toml::from_str("daemons = ['a']\ncapacity = { set = 'n', from = 1, most = 8 }")
                .unwrap();
        suite.validate().unwrap();
        let capacity = suite.capacity.unwrap();
        assert_eq!(
            (suite.repeat, capacity.within_pct, capacity.confirm),
            (1, 5.0, 2)
        );
    }
}
