//! Concurrency, users, stages and times against the plan.

use super::*;

#[test]
fn an_opening_is_not_part_of_the_load_and_is_reported_if_not_all_connections_were_open() {
    let opening = |complete| OpeningTime {
        took_s: 30.0,
        limit_s: 30.0,
        complete,
    };
    let mut result = good();
    result.wall_s += 30.0;
    for row in &mut result.seconds {
        row.second += 30;
    }
    result.audit_inputs.opening = Some(opening(true));
    assert_eq!(failing(&result), Vec::<String>::new());
    result.audit_inputs.opening = Some(opening(false));
    assert_eq!(
        failing(&result),
        [
            "seconds to open the connections, before the load: 30.0 s, not all open for at most 30.0 s"
        ]
    );
    audit::judge(&mut result);
    let hints = result.warnings.iter().map(|warning| &warning.hint);
    assert!(hints.clone().any(|hint| hint.contains("--open-timeout")));
}

#[test]
fn fifteen_busy_users_where_the_plan_averages_1_965_are_suspect() {
    // k6 in the seed document: 3,421,532 requests of 1.05 ms in 240 s, with stages that last 300 s.
    let mut result = Loop {
        users: 15,
        seconds: 240,
        ns: 1_050_000,
    }
    .result();
    result.audit_inputs.users = Some(1_965.0);
    let result = judged(result);
    assert_eq!(
        failing(&result),
        ["busy users, mean (rate × time): 15 for 1,965 planned (1,572 to 2,005)"]
    );
    assert_eq!(result.verdict, Verdict::Suspect);
    let warning = &result.warnings[0];
    assert_eq!(
        (warning.kind, warning.severity),
        (Kind::Audit, Severity::Suspect)
    );
    assert!(
        warning.hint.contains("blocked in the client"),
        "{warning:?}"
    );
    // With a thousand failures it still does not add up.
    let mut result = result;
    result.operations.ok -= 1_000;
    result.operations.failed += 1_000;
    assert!(
        failing(&result)[0].starts_with("busy users"),
        "{:?}",
        failing(&result)
    );
}

#[test]
fn open_operations_must_be_the_rate_times_the_mean_time() {
    let mut result = good();
    for row in &mut result.seconds {
        row.active_mean = Some(1_965.0);
    }
    assert_eq!(
        failing(&result),
        ["open operations, mean (Little's law): 1,965 for 100 = rate × time (72 to 128)"]
    );
    // If half of them have no recorded time, the figures agree.
    result.series[0].count /= 2;
    assert!(
        !failing(&result)
            .iter()
            .any(|row| row.starts_with("open operations"))
    );
    let mut result = good();
    for row in &mut result.seconds {
        row.active_mean = Some(20.0);
    }
    assert_eq!(failing(&result).len(), 1);
    // Times that include waiting before the start may exceed the open time.
    result.audit_inputs.lifetime.as_mut().unwrap().from_due = true;
    assert_eq!(failing(&result), [""; 0]);
}

#[test]
fn stages_that_do_not_fit_are_suspect() {
    let mut result = Loop {
        users: 15,
        seconds: 240,
        ns: 1_050_000,
    }
    .result();
    result.audit_inputs.staged = staged(300.0, 0.0);
    assert_eq!(
        failing(&result),
        ["seconds of load for the stages of users: 240 s for 300 s (at least 294 s)"]
    );
    assert_eq!(judged(result.clone()).verdict, Verdict::Suspect);
    result.phases = phases(0.0, 300.0, 5.0);
    result.audit_inputs.load_s = Some(300.0);
    assert_eq!(failing(&result).len(), 2, "{:?}", failing(&result));
    result.wall_s = 301.0;
    assert!(!failing(&result).iter().any(|row| row.contains("seconds")));
    // Results of another tool have no phases.
    result.phases = None;
    result.wall_s = 240.0;
    assert!(failing(&result)[0].contains("240 s for 300 s"));
}

#[test]
fn a_run_that_ends_early_or_drags_on_is_suspect() {
    for (wall_s, fits) in [
        (7.0, false),
        (9.9, true),
        (15.0, true),
        (24.0, true),
        (40.0, false),
    ] {
        let mut result = good();
        result.wall_s = wall_s;
        let told = failing(&result)
            .iter()
            .any(|row| row.starts_with("seconds from"));
        assert_eq!(told, !fits, "{wall_s}: {:?}", failing(&result));
    }
    let mut result = good();
    result.wall_s = 7.0;
    result.audit_inputs.load_s = None;
    assert!(
        !failing(&result)
            .iter()
            .any(|row| row.starts_with("seconds from"))
    );
}

#[test]
fn users_that_leave_as_the_stages_say_end_the_load_early_and_rightly() {
    let ended = |idle_tail_s: f64, wall_s: f64| {
        let mut result = good();
        result.phases = phases(0.0, 4.0, 5.0);
        result.audit_inputs = AuditInputs {
            load_s: Some(4.0),
            idle_tail_s,
            staged: staged(4.0, idle_tail_s),
            ..AuditInputs::default()
        };
        result.wall_s = wall_s;
        failing(&result)
    };
    assert_eq!(ended(0.4, 3.6), [""; 0]);
    assert_eq!(ended(0.4, 3.2).len(), 2);
    assert_eq!(ended(4.0, 0.1), [""; 0]);
    assert_eq!(ended(1.0, 3.0), [""; 0]);
    assert_eq!(ended(1.0, 2.5).len(), 2);
    assert_eq!(ended(0.0, 3.6).len(), 2);
}

/// At 0.1 per second, one operation is due in a warm-up of 1 s, and none in the 8 s after it.
#[test]
fn a_run_without_an_operation_in_its_measured_time_is_suspect() {
    let mut result = RunResult {
        phases: phases(1.0, 8.0, 5.0),
        wall_s: 0.1,
        audit_inputs: AuditInputs {
            lifetime: Some(Lifetime::new("response")),
            load_s: Some(9.0),
            idle_tail_s: 9.0,
            ..AuditInputs::default()
        },
        ..RunResult::default()
    };
    assert_eq!(failing(&result).len(), 1);
    audit::judge(&mut result);
    assert_eq!(result.verdict, Verdict::Suspect);
    let text = &result.warnings[0].message;
    assert_eq!(
        text,
        "operations due in the measured time: 0, but expected at least 1"
    );
    // The idle connections are what is measured.
    result.audit_inputs.held = Some(10);
    assert!(
        !failing(&result)
            .iter()
            .any(|row| row.starts_with("operations"))
    );
}

/// A burst starts in one turn of the loop, so the start times of its operations are not known exactly.
#[test]
fn a_burst_that_began_in_one_long_turn_is_not_accused() {
    let mut result = good();
    for row in &mut result.seconds {
        row.active_mean = Some(180.0);
    }
    result.audit_inputs.users = None;
    assert_eq!(failing(&result).len(), 1);
    result.seconds[0].active_slack = Some(600.0);
    assert_eq!(failing(&result), [""; 0]);
}
