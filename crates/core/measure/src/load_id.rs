//! The load of a run: runs are repetitions of each other only if their loads are the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::result::RunResult;
use crate::suite::Suite;

/// Fields of a plan that leave the load as it is: names, the daemon that is compared, the seed of random choices, what
/// operations and a run should meet, what decides, and the suite around it.
const NOT_LOAD: [&str; 8] = [
    "name",
    "level",
    "daemon",
    "seed",
    "objectives",
    "thresholds",
    "primary",
    "suite",
];
/// Bytes of the hash that an ID shows, as two hexadecimal digits each.
const ID_BYTES: usize = 4;

/// Returns a level with the ID of the load at its end, eight hexadecimal digits: `100-3f2a91c0`. The load is given by a
/// stored plan and the target of its run, both without secrets. The address of a daemon that is launched for a run changes from run to run and
/// is left out.
pub fn level_with_load_id(level: &str, plan: &Value, target: &str) -> String {
    let hash = Sha256::digest(load(plan, target).to_string());
    let bytes = hash.iter().take(ID_BYTES);
    let id: String = bytes.map(|byte| format!("{byte:02x}")).collect();
    match level {
        "" => id,
        _ => format!("{level}-{id}"),
    }
}

/// Returns what has to be equal in two runs.
fn load(plan: &Value, target: &str) -> Value {
    let mut load = plan.clone();
    if let Value::Object(fields) = &mut load {
        if fields.get("daemon").is_none_or(Value::is_null) {
            fields.insert("target".to_owned(), target.into());
        }
        NOT_LOAD.iter().for_each(|name| {
            fields.remove(*name);
        });
    }
    load
}

impl Suite {
    /// Separates the runs of one daemon at one level whose loads differ: their level gets the ID of the load, as the
    /// folders of single runs have it. Returns a sentence about each level that was separated.
    pub fn separate_loads(&mut self) -> Vec<String> {
        let key = |run: &RunResult| (run.daemon.name.clone(), run.level.clone());
        let loads: Vec<Value> = self.results.iter().map(load_of).collect();
        let runs = || self.results.iter().zip(&loads);
        let mixed = runs().filter(|(run, own)| {
            let mut others = runs().filter(|(other, _)| key(run) == key(other));
            others.any(|(_, other)| *own != other)
        });
        let levels: BTreeSet<String> = mixed.map(|(run, _)| run.level.clone()).collect();
        let sentences = levels.iter().map(|level| {
            let at_level = runs().filter(|(run, _)| run.level == *level);
            let loads: Vec<&Value> = at_level.map(|(_, load)| load).collect();
            let mut differences = BTreeMap::new();
            for other in &loads[1..] {
                add_differences("", loads[0], other, &mut differences);
            }
            let paths: Vec<String> = differences.into_keys().collect();
            format!(
                "The runs at level {level} are not repetitions of each other, and are shown apart: their loads differ in {}.",
                paths.join(", ")
            )
        });
        let sentences = sentences.collect();
        for run in &mut self.results {
            if levels.contains(&run.level) {
                run.level = level_with_load_id(&run.level, &run.plan, &run.daemon.target);
            }
        }
        sentences
    }
}

/// Returns a field by which the loads of two runs differ, and both its values. The addresses of two daemons differ, if they
/// were not launched for the runs.
pub(crate) fn difference(one: &RunResult, other: &RunResult) -> Option<(String, Value, Value)> {
    let target = if one.daemon.name == other.daemon.name {
        &other.daemon.target
    } else {
        &one.daemon.target
    };
    let mut differences = BTreeMap::new();
    let (one, other) = (load_of(one), load(&other.plan, target));
    add_differences("", &one, &other, &mut differences);
    let (field, (one, other)) = differences.pop_first()?;
    Some((field, one, other))
}

/// Returns the daemon of a run, and its level if it has one.
pub(crate) fn daemon_at_level(run: &RunResult) -> String {
    match run.level.as_str() {
        "" => run.daemon.name.clone(),
        level => format!("{} at {level}", run.daemon.name),
    }
}

fn load_of(run: &RunResult) -> Value {
    load(&run.plan, &run.daemon.target)
}

/// Adds the paths of the fields whose values differ (`driver.path`, `groups.0.clients`), with the values.
fn add_differences(
    path: &str,
    one: &Value,
    other: &Value,
    differences: &mut BTreeMap<String, (Value, Value)>,
) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    match (one, other) {
        (one, other) if one == other => {}
        (Value::Object(fields), Value::Object(others)) => {
            for name in fields.keys().chain(others.keys()) {
                add_differences(&below(name), &one[name], &other[name], differences);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                add_differences(&below(&index.to_string()), one, other, differences);
            }
        }
        _ => {
            differences.insert(path.to_owned(), (one.clone(), other.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TARGET: &str = "http://127.0.0.1:8080/fast";

    fn plan(change: impl FnOnce(&mut Value)) -> Value {
        let mut plan = json!({
            "name": "command-line",
            "groups": [{ "name": "users", "clients": 5 }],
            "driver": { "path": "/", "header": ["X-Token: abc"] },
        });
        change(&mut plan);
        plan
    }

    #[test]
    fn a_load_is_known_by_its_plan_and_by_the_address_of_a_running_daemon() {
        let id = |change: fn(&mut Value)| level_with_load_id("5", &plan(change), TARGET);
        let first = id(|_| {});
        assert_eq!(first.len(), "5-01234567".len());
        assert_eq!(first, id(|plan| plan["seed"] = json!(7)));
        assert_eq!(first, id(|plan| plan["thresholds"] = json!(["errors < 1"])));
        assert_ne!(first, id(|plan| plan["driver"]["path"] = json!("/other")));
        assert_ne!(first, id(|plan| plan["driver"]["method"] = json!("POST")));
        let slow = "http://127.0.0.1:8080/slow";
        assert_ne!(first, level_with_load_id("5", &plan(|_| {}), slow));
        // A daemon that is launched has another address each time.
        let nginx = plan(|plan| plan["daemon"] = json!("nginx"));
        let launched = |target| level_with_load_id("5", &nginx, target);
        assert_eq!(launched(TARGET), launched(slow));
    }
}
