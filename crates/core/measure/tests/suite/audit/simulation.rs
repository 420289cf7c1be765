//! The audit of simulated runs.

use super::*;

/// Simulates users that run operations one after the other, with lengths drawn from `ns`, from warm-up to drain.
fn simulate(
    users: u64,
    warmup_s: f64,
    measure_s: f64,
    think: f64,
    mut draw: impl FnMut() -> f64,
) -> RunResult {
    let end = warmup_s + measure_s;
    let (mut times, mut spans) = (Distribution::default(), Vec::new());
    let (mut last, mut sum) = (0.0_f64, 0.0);
    for user in 0..users {
        // The users do not start in step.
        let mut at = user as f64 / users as f64 * 1e-3;
        while at < end {
            let took = draw();
            if at >= warmup_s {
                times.record((took * 1e9) as u64);
                spans.push((at, at + took));
                sum += took;
                last = last.max(at + took);
            }
            at += took * (1.0 + think);
        }
    }
    let wall_s = last.max(end);
    let mut seconds: Vec<Second> = (0..=wall_s as u64)
        .map(|second| Second {
            second,
            active_mean: Some(0.0),
            ..Second::default()
        })
        .collect();
    for (from, to) in &spans {
        for second in *from as u64..=*to as u64 {
            let open = (to.min(second as f64 + 1.0) - from.max(second as f64)).max(0.0);
            *seconds[second as usize].active_mean.get_or_insert(0.0) += open;
        }
    }
    assert!(
        (seconds
            .iter()
            .filter_map(|row| row.active_mean)
            .sum::<f64>()
            - sum)
            .abs()
            < 1e-6 * (1.0 + sum)
    );
    let operations = spans.len() as u64;
    RunResult {
        wall_s,
        phases: phases(warmup_s, measure_s, 60.0),
        operations: Operations {
            started: operations,
            ok: operations,
            peak_active: users,
            ..Operations::default()
        },
        counts: BTreeMap::new(),
        errors: BTreeMap::new(),
        series: SeriesResult::from_distribution("response", &times)
            .into_iter()
            .collect(),
        seconds,
        warnings: Vec::new(),
        audit_inputs: AuditInputs {
            lifetime: Some(Lifetime::new("response")),
            users: Some(users as f64),
            load_s: Some(end),
            ..AuditInputs::default()
        },
        ..example::full()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_closed_loop_of_busy_users_is_suspect(
        users in 1..60_u64,
        warmup_ms in 0..3_000_u32,
        measure_ms in 500..6_000_u32,
        median_us in 5_000..20_000_u32,
        spread in 1.0..10.0_f64,
        seed in 1..u64::MAX,
    ) {
        let mut state = seed;
        // From the median to `spread` times the median; long ones are rare.
        let draw = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
            f64::from(median_us) * 1e-6 * (1.0 + (spread - 1.0) * share.powi(8))
        };
        let result = simulate(users, f64::from(warmup_ms) / 1e3, f64::from(measure_ms) / 1e3, 0.0, draw);
        prop_assert_eq!(failing(&result), Vec::<String>::new());
    }

    #[test]
    fn users_that_wait_twice_as_long_as_they_are_busy_are_found(
        users in 10..60_u64,
        measure_ms in 2_000..6_000_u32,
        median_us in 5_000..40_000_u32,
    ) {
        let result = simulate(users, 0.5, f64::from(measure_ms) / 1e3, 2.0, || f64::from(median_us) * 1e-6);
        let found = failing(&result);
        prop_assert_eq!(found.len(), 1);
        prop_assert!(found[0].starts_with("busy users"), "{:?}", found);
    }

    #[test]
    fn no_result_makes_the_audit_panic(
        numbers in proptest::collection::vec(any::<u64>(), 8),
        floats in proptest::collection::vec(any::<f64>(), 5),
    ) {
        let mut result = good();
        result.wall_s = floats[0];
        result.audit_inputs.users = Some(floats[1]);
        result.audit_inputs.load_s = Some(floats[2]);
        result.phases = phases(floats[0], floats[2], floats[3]);
        result.audit_inputs.staged = staged(floats[1], floats[3]);
        result.audit_inputs.worker_cpu_pct = Some(floats[4]);
        result.seconds[0].active_mean = Some(floats[0]);
        result.series[0].count = numbers[0];
        result.audit_inputs.lifetime.as_mut().unwrap().counted_late_ns = numbers[1];
        for (name, number) in ["answers", "body_bytes", "opened", "retries"].iter().zip(&numbers[2..]) {
            result.counts.insert((*name).to_owned(), *number);
        }
        for row in audit::comparisons(&result) {
            prop_assert!(!row.what.is_empty() && !row.found.is_empty() && !row.expected.is_empty());
        }
    }
}
