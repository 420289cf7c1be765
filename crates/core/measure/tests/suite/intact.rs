//! A stored result of a real run whose fields were changed by hand: each change is refused by the field.

use measure::result::RunResult;
use measure::warning::{Severity, verdict};
use serde_json::{Value, json};

/// An open loop of 300 requests per second for five seconds after one of warm-up, beside other work.
const STORED: &str = include_str!("../data/result-2-http.json");

/// Fields whose numbers follow from others. The rest is known only to the run.
const DERIVED: &str =
    "/operations /throughput /counts /series /lag /usage/daemon /usage/driver /seconds";
/// Ends of the paths below them that nothing else in a result determines, or only within wide bounds. Gauges are summed once
/// a second, and are no sums.
const FREE: &str = "
    /response_growth /clamped /cpus /user_s /system_s /cpu_peak_pct /wait_s /busiest_thread_pct /processes_peak
    /backlog_peak /voluntary_switches /involuntary_switches /cpu_avg_pct /active /active_peak /active_mean /active_slack
    /count /p99_ns /max_ns /second /counts/held /counts/opened
";

fn stored() -> Value {
    serde_json::from_str(STORED).unwrap()
}

fn is_intact(result: Value) -> Result<(), String> {
    let result: RunResult = serde_json::from_value(result).unwrap();
    result.check_intact().map_err(|damaged| damaged.to_string())
}

/// Collects the paths of all numbers that are not 0.
fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                numbers(value, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                numbers(value, &format!("{path}/{index}"), found);
            }
        }
        Value::Number(number) if number.as_f64() != Some(0.0) => found.push(path.to_owned()),
        _ => {}
    }
}

/// Returns a number that is ten times as large, and one that is a tenth.
fn bent(number: &Value) -> [Value; 2] {
    match number.as_u64() {
        Some(whole) => [json!(whole * 10), json!(whole / 10)],
        None => {
            let number = number.as_f64().unwrap();
            [json!(number * 10.0), json!(number / 10.0)]
        }
    }
}

#[test]
fn a_stored_result_is_intact_until_a_figure_of_it_is_made_ten_times_as_large_or_as_small() {
    let whole = stored();
    assert_eq!(is_intact(whole.clone()), Ok(()));
    let mut paths = Vec::new();
    for root in DERIVED.split(' ') {
        numbers(whole.pointer(root).unwrap(), root, &mut paths);
    }
    let is_of_second = |path: &str| path.starts_with("/seconds");
    paths.retain(|path| {
        let is_free = FREE.split_whitespace().any(|end| path.ends_with(end));
        // The figures of a series over the run follow from its histogram.
        let is_of_series = path.starts_with("/series") || path.starts_with("/lag");
        let is_gauge = path.contains("/gauges_peak/");
        (!is_free || is_of_series && !path.ends_with("/clamped"))
            && !is_gauge
            && (!is_of_second(path) || path.contains("/counts/"))
    });
    assert!(paths.len() > 100, "{paths:?}");
    let mut accepted = Vec::new();
    for path in &paths {
        for value in bent(whole.pointer(path).unwrap()) {
            let mut result = whole.clone();
            let change = format!("{path} = {value}");
            *result.pointer_mut(path).unwrap() = value;
            if is_intact(result).is_ok() {
                accepted.push(change);
            }
        }
    }
    assert_eq!(accepted, [""; 0]);
}

#[test]
fn a_warning_that_the_figures_demand_cannot_be_removed_or_made_milder() {
    let whole: RunResult = serde_json::from_str(STORED).unwrap();
    let demanded = |warning: &&measure::warning::Warning| warning.severity > Severity::Note;
    let kinds: Vec<_> = whole.warnings.iter().filter(demanded).collect();
    assert!(kinds.len() >= 2, "{kinds:?}");
    for warning in kinds {
        let refused = |result: &mut RunResult| {
            result.verdict = verdict(&result.warnings);
            let refused = result.check_intact().unwrap_err();
            assert_eq!(refused.field, format!("warnings.{:?}", warning.kind));
            assert_eq!(refused.expected, "invalid");
            refused.found
        };
        let mut result = whole.clone();
        result.warnings.retain(|other| other.kind != warning.kind);
        assert_eq!(refused(&mut result), "absent");
        let mut result = whole.clone();
        for other in &mut result.warnings {
            other.severity = other.severity.min(Severity::Note);
        }
        assert_eq!(
            result.check_intact().unwrap_err().field,
            "verdict",
            "the verdict alone contradicts the warnings"
        );
    }
    let mut result = stored();
    result["verdict"] = json!("VALID");
    result["warnings"] = json!([]);
    let refused = is_intact(result).unwrap_err();
    assert!(
        refused.contains("`warnings.") && refused.contains("absent"),
        "{refused}"
    );
}

#[test]
fn failures_of_the_warm_up_are_the_sum_of_their_kinds() {
    let mut result: RunResult = serde_json::from_str(STORED).unwrap();
    for (name, count) in [("", 2), (".reset", 1), (".timeout", 1)] {
        let name = format!("warmup_failed{name}");
        result.counts.insert(name.clone(), count);
        result.seconds[0].counts.insert(name, count);
    }
    assert_eq!(result.check_intact(), Ok(()));
    for counts in [&mut result.counts, &mut result.seconds[0].counts] {
        counts.insert("warmup_failed.timeout".to_owned(), 2);
    }
    let refused = result.check_intact().unwrap_err();
    assert_eq!(refused.field, "counts.warmup_failed");
    assert_eq!((&*refused.found, &*refused.expected), ("2", "3"));
}

/// Operations of the warm-up that end in the measured time may all be good, and the others not.
#[test]
fn the_goodput_of_the_measured_time_may_be_of_the_warm_up() {
    let mut result: RunResult = serde_json::from_str(STORED).unwrap();
    let of_warmup = result.counts["warmup"];
    result.counts.insert("goodput".to_owned(), 10);
    let checked = |measured: u64| {
        let mut result = result.clone();
        let throughput = result.throughput.as_mut().unwrap();
        throughput.counts.insert("goodput".to_owned(), measured);
        result.check_intact()
    };
    assert_eq!(checked(10 + of_warmup), Ok(()));
    let refused = checked(100 + of_warmup).unwrap_err();
    assert_eq!(refused.field, "throughput.counts.goodput");
}

#[test]
fn a_result_without_its_seconds_or_the_summary_of_disturbances_is_refused() {
    let without = |change: fn(&mut Value)| {
        let mut result = stored();
        change(&mut result);
        is_intact(result).unwrap_err()
    };
    let refused = without(|result| result["seconds"] = json!([]));
    assert!(refused.contains("`seconds`"), "{refused}");
    let refused = without(|result| {
        result["usage"]
            .as_object_mut()
            .unwrap()
            .remove("disturbance");
    });
    assert!(refused.contains("`usage.disturbance`"), "{refused}");
}
