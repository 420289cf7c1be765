//! The curve of a rate that rises in steps, from handmade seconds.

use measure::report::{Options, html, markdown, terminal};
use measure::result::{RateStep, RunResult, Second, SecondSeries};
use measure::suite::Suite;

use crate::assert_contains;
use crate::example::result as example;

/// Steps of four seconds each.
const STEP_S: u64 = 4;

/// Builds a run whose load begins at 2 s. Of each step, the offered rate, the served one and its time in milliseconds;
/// the first second of a step is slow.
fn run(steps: &[(f64, u64, u64)], objectives: &[&str]) -> RunResult {
    let mut result = example::full();
    let opening = measure::result::OpeningTime {
        took_s: 2.0,
        limit_s: 10.0,
        complete: true,
    };
    result.audit_inputs.opening = Some(opening);
    result.plan = serde_json::json!({ "objectives": objectives });
    result.seconds = Vec::new();
    for (index, (offered, served, ms)) in steps.iter().enumerate() {
        let from_s = (index as u64 * STEP_S) as f64;
        result.audit_inputs.steps.push(RateStep {
            from_s,
            to_s: from_s + STEP_S as f64,
            per_s: *offered,
            dispersion: 0.0,
        });
        for second in 0..STEP_S {
            let is_first = second == 0;
            let ms = if is_first { 5_000 } else { *ms };
            let values = example::spread(*served, ms * 1_000_000, 0);
            result.seconds.push(Second {
                second: 2 + index as u64 * STEP_S + second,
                counts: [
                    ("ok".to_owned(), *served),
                    ("goodput".to_owned(), served / 2),
                ]
                .into(),
                series: Vec::from_iter(SecondSeries::from_distribution("first_byte", &values)),
                ..Second::default()
            });
        }
    }
    result.wall_s = 2.0 + (steps.len() as u64 * STEP_S) as f64;
    result
}

fn suite(results: Vec<RunResult>) -> Suite {
    Suite {
        results,
        ..Suite::default()
    }
}

/// Returns the knee on the screen of a terminal.
fn knee(steps: &[(f64, u64, u64)], objectives: &[&str]) -> String {
    let screen = terminal::render(&suite(vec![run(steps, objectives)]), &Options::default());
    let mut lines = screen.lines().map(str::trim_start);
    let knee = lines.find_map(|line| line.strip_prefix("knee      "));
    knee.unwrap_or_else(|| panic!("no knee: {screen}"))
        .to_owned()
}

#[test]
fn the_knee_is_the_last_step_that_was_served_in_time() {
    let steps = [
        (100.0, 100, 10),
        (200.0, 199, 12),
        (400.0, 396, 60),
        (800.0, 700, 900),
    ];
    assert_eq!(
        knee(&steps, &[]),
        "400/s was held, and 800/s was not: served 87.50 % of the offered rate"
    );
    assert_eq!(
        knee(&steps, &["first_byte < 50ms"]),
        "200/s was held, and 400/s was not: first_byte p99 60.0 ms, not first_byte < 50ms"
    );
    assert_eq!(
        knee(&steps[..3], &[]),
        "not reached: 400/s, the last step, was held; go higher"
    );
    assert_eq!(
        knee(&steps, &["first_byte < 10ms"]),
        "below 100/s, the first step: first_byte p99 10.0 ms, not first_byte < 10ms; begin lower"
    );
    let dip = [
        (100.0, 100, 10),
        (200.0, 150, 10),
        (400.0, 400, 10),
        (800.0, 1, 10),
    ];
    assert_eq!(
        knee(&dip, &[]),
        "400/s was held, and 800/s was not: served 0.12 % of the offered rate; a lower step, 200/s, was not held: repeat the run"
    );
}

#[test]
fn constant_and_random_arrivals_may_differ_by_chance_from_the_planned_number() {
    // Of 30 that were due, two are fewer than the edges of the step explain, and three are not.
    let steps = |served: u64| [(10.0, 10, 1), (20.0, 20, 1), (30.0, served, 1)];
    assert_eq!(
        knee(&steps(30), &[]),
        "not reached: 30.0/s, the last step, was held; go higher"
    );
    assert_eq!(
        knee(&steps(29), &[]),
        "20.0/s was held, and 30.0/s was not: served 96.66 % of the offered rate"
    );
    let mut random = run(&steps(27), &[]);
    for step in &mut random.audit_inputs.steps {
        step.dispersion = 1.0;
    }
    let screen = terminal::render(&suite(vec![random]), &Options::default());
    assert_contains(&screen, &["not reached: 30.0/s"]);
}

#[test]
fn every_report_has_the_steps_and_pages_draw_them() {
    let steps = [(100.0, 100, 10), (200.0, 199, 12), (400.0, 300, 60)];
    let one = run(&steps, &["first_byte < 50ms"]);
    let text = markdown::render(&suite(vec![one.clone()]));
    let (_, section) = text.split_once("## Rising rate\n").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("another section");
    insta::assert_snapshot!(section, @r"
    - **knee:** 200/s was held, and 400/s was not: served 75.00 % of the offered rate

    A step is a stage in which the rate stays the same, without its first second. It was held if at least 99 % of the offered operations were served, and the p99 meets each objective. The knee is the last step that was held.

    | offered/s | served/s | served % | TTFB p50, ms | TTFB p99, ms | goodput % | held |
    | --- | ---: | ---: | ---: | ---: | ---: | --- |
    | 100 | 100 | 100 | 10.0 | 10.0 | 50.00 | yes |
    | 200 | 199 | 99.50 | 12.0 | 12.0 | 49.50 | yes |
    | 400 | 300 | 75.00 | 60.0 | 60.0 | 37.50 | no: served 75.00 % of the offered rate |
    ");
    let page = html::render(&suite(vec![one.clone()])).unwrap();
    assert_contains(
        &page,
        &[
            "id=\"ramp-latency\"",
            "p99 60.0 ms at 400/s",
            "id=\"ramp-served\"",
            "300/s of 400/s",
            "first_byte &lt; 50ms",
        ],
    );
    let again = RunResult {
        run_id: "again".to_owned(),
        ..one.clone()
    };
    let several = markdown::render(&suite(vec![one, again]));
    assert_contains(&several, &["rust-streaming, run 2: 200/s was held"]);
    // Another load has no such section.
    let other = markdown::render(&suite(vec![example::full()]));
    assert!(!other.contains("Rising rate"), "{other}");
}
