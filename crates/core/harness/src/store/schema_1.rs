//! Reads results of schema 1, which store neither the specification of their driver nor the phases of their plan.
//!
//! The specifications of the drivers and tools that wrote such results are data beside this file, so that no code names
//! a driver.

use load::plan::{Group, Plan, Timeline};
use measure::result::{AuditInputs, RunResult};
use measure::spec::Spec;
use serde::Deserialize;

/// The drivers of schema 1.
const DRIVERS: &str = include_str!("schema_1.json");

/// A driver that wrote results of schema 1.
#[derive(Debug, Deserialize)]
struct Driver {
    /// Its names: one of a driver, or several of tools.
    names: Vec<String>,
    /// The setting that keeps connections open between requests, if it has one.
    #[serde(default)]
    keep_alive: Option<String>,
    spec: Spec,
}

/// The parts of a stored plan that later schemas store as figures.
#[derive(Debug, Deserialize)]
struct StoredPlan {
    timeline: Timeline,
    groups: Vec<Group>,
}

/// Adds what a result of schema 1 does not store. The names in the result of an unknown driver get the plainest roles.
pub(super) fn complete(result: &mut RunResult) {
    let drivers: Vec<Driver> =
        serde_json::from_str(DRIVERS).expect("the file is part of the program");
    let driver = drivers
        .into_iter()
        .find(|driver| driver.names.contains(&result.driver));
    let setting = driver
        .as_ref()
        .and_then(|driver| driver.keep_alive.as_deref());
    let reuses_connections =
        setting.is_some_and(|setting| result.plan["driver"][setting].as_bool() == Some(true));
    result.spec = driver.map(|driver| driver.spec).unwrap_or_default();
    // The plan of another tool is not one of this project.
    let stored = serde_json::from_value::<StoredPlan>(result.plan.clone()).ok();
    let plan = stored.map(|stored| Plan::new("", stored.timeline, stored.groups, ()));
    result.phases = plan.as_ref().map(Plan::phases);
    let planned = plan.map(|plan| plan.audit_inputs()).unwrap_or_default();
    result.audit_inputs = AuditInputs {
        reuses_connections,
        idle_tail_s: planned.idle_tail_s,
        staged: planned.staged,
        ..std::mem::take(&mut result.audit_inputs)
    };
}

#[cfg(test)]
mod tests {
    use measure::spec::{CounterRole, ErrorCause};

    use super::*;

    const OLD: &str = include_str!("../../../measure/tests/data/result-1.json");

    fn completed(change: impl FnOnce(&mut RunResult)) -> RunResult {
        let mut result = serde_json::from_str(OLD).unwrap();
        change(&mut result);
        complete(&mut result);
        result
    }

    #[test]
    fn an_old_result_gets_the_roles_of_its_driver() {
        let result = completed(|_| {});
        assert_eq!(result.spec.driver, result.driver);
        assert_eq!(result.spec.cause("aborted"), ErrorCause::Expected);
        assert_eq!(result.counted(CounterRole::BytesReceived), Some(1_219_870));
        assert_eq!(result.phases, None, "this plan has none");
    }

    #[test]
    fn an_old_plan_gets_its_phases_stages_and_reuse_of_connections() {
        let result = completed(|result| {
            result.driver = "http-load".to_owned();
            result.plan = serde_json::json!({
                "timeline": { "warmup": "1s", "measure": "4s", "drain": "5s" },
                "groups": [{ "name": "g", "stages": [
                    { "users": 5, "over": "2s" }, { "users": 0, "over": "2s" },
                ] }],
                "driver": { "keep_alive": true },
            });
        });
        let phases = result.phases.unwrap();
        assert_eq!(
            (phases.warmup_s, phases.measure_s, phases.drain_s),
            (1.0, 4.0, 5.0)
        );
        let inputs = &result.audit_inputs;
        assert!(inputs.reuses_connections);
        assert_eq!((inputs.staged[0].planned_s, inputs.idle_tail_s), (4.0, 0.4));
    }

    #[test]
    fn an_unknown_driver_gets_the_plainest_roles() {
        let result = completed(|result| result.driver = "another".to_owned());
        assert_eq!(result.spec, Spec::UNKNOWN);
    }
}
