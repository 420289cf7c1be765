//! Bytes, connections and counters against each other.

use measure::report::{Options, terminal};
use measure::threshold::Threshold;
use measure::throughput::Throughput;

use super::*;

#[test]
fn a_server_that_answers_the_wrong_file_with_200_is_suspect() {
    let mut result = good();
    let answers = result.count("answers");
    result.counts.insert("body_bytes".to_owned(), 145 * answers);
    assert_eq!(
        failing(&result),
        ["bytes per answer, body: 145 B for 1,024 B (1,014 B to 1,034 B)"]
    );
    assert_eq!(judged(result.clone()).verdict, Verdict::Suspect);
    // Another tool reports only all bytes, so the body alone would be larger.
    result.counts.remove("body_bytes");
    result.counts.insert("bytes".to_owned(), 145 * answers);
    assert_eq!(
        failing(&result),
        ["bytes per answer, head and body: 145 B for 1,024 B (at least 1,014 B)"]
    );
    // If the expected value is not known, the row only shows the figure.
    result.counts.remove("expected_body_bytes");
    assert_eq!(failing(&result), [""; 0]);
    let rows = audit::comparisons(&result);
    assert!(
        rows.iter()
            .any(|row| row.found == "145 B" && row.expected == "not known")
    );
}

#[test]
fn halves_of_answers_that_failed_are_no_wrong_file() {
    let mut result = good();
    let answers = result.count("answers");
    result.operations.ok -= 50_000;
    result.operations.failed += 50_000;
    result.errors.insert("length".to_owned(), 50_000);
    result
        .counts
        .insert("body_bytes".to_owned(), 1_024 * answers + 512 * 50_000);
    assert_eq!(failing(&result), [""; 0]);
    result
        .counts
        .insert("body_bytes".to_owned(), 2_048 * answers);
    assert_eq!(failing(&result).len(), 1);
}

#[test]
fn a_client_that_opens_a_connection_for_each_request_is_suspect() {
    let mut result = good();
    result.counts.insert("opened".to_owned(), 42_850);
    result.counts.insert("answers".to_owned(), 42_848);
    for bytes in ["body_bytes", "expected_body_bytes"] {
        result.counts.remove(bytes);
    }
    assert_eq!(
        failing(&result),
        ["connections opened, with keep-alive: 42,850 for at most 4,384"]
    );
    assert_eq!(judged(result.clone()).verdict, Verdict::Suspect);
    // These are allowed: a server that closes after 100 requests, failed connections, and a plan without keep-alive.
    result.counts.insert("opened".to_owned(), 528);
    assert_eq!(failing(&result), [""; 0]);
    result.counts.insert("opened".to_owned(), 42_850);
    let mut failed = result.clone();
    failed.operations.ok -= 42_750;
    failed.operations.failed += 42_750;
    assert!(
        !failing(&failed)
            .iter()
            .any(|row| row.starts_with("connections"))
    );
    let mut held = result.clone();
    held.seconds[0].counts.insert("held".to_owned(), 42_000);
    held.counts.insert("lost".to_owned(), 850);
    assert_eq!(failing(&held), [""; 0], "held, and opened again where lost");
    result.audit_inputs.reuses_connections = false;
    assert_eq!(failing(&result), [""; 0]);
}

#[test]
fn planned_connections_are_not_a_fault_although_few_of_them_were_busy() {
    let mut result = good();
    result.audit_inputs.users = None;
    result.operations.peak_active = 1;
    result.counts.insert("opened".to_owned(), 20);
    result.counts.insert("answers".to_owned(), 140);
    for bytes in ["body_bytes", "expected_body_bytes"] {
        result.counts.remove(bytes);
    }
    let row = "connections opened, with keep-alive: 20 for at most 15";
    assert!(failing(&result).iter().any(|failed| failed == row));
    result.audit_inputs.connections = Some(20);
    let is_connections = |row: &String| row.starts_with("connections");
    assert!(!failing(&result).iter().any(is_connections));
    result.counts.insert("opened".to_owned(), 40);
    assert!(failing(&result).iter().any(is_connections));
}

#[test]
fn a_run_that_held_fewer_connections_than_planned_or_lost_some_is_suspect() {
    let mut result = good();
    let mut held = |held: u64, lost: u64| {
        result.audit_inputs.held = Some(1_000_000);
        result.seconds[0].counts.insert("held".to_owned(), held);
        result.counts.insert("lost".to_owned(), lost);
        failing(&result)
    };
    assert_eq!(held(1_000_000, 0), [""; 0]);
    assert_eq!(
        held(500_001, 0),
        ["connections held, peak: 500,001 for 1,000,000, none lost"]
    );
    assert_eq!(
        held(1_000_000, 3),
        ["connections held, peak: 1,000,000, 3 lost for 1,000,000, none lost"]
    );
}

#[test]
fn counts_that_differ_are_rows_and_are_reported_once() {
    let mut result = good();
    result.audit_inputs.compared[0].daemon -= 1;
    result.operations.ok -= 1;
    assert_eq!(failing(&result).len(), 2);
    let told = judged(result.clone());
    assert_eq!((told.verdict, told.warnings.len()), (Verdict::Suspect, 2));
    result
        .warnings
        .push(Warning::counts_disagree("requests", 2, 1));
    let told = judged(result.clone());
    assert_eq!(told.warnings.len(), 1, "{:?}", told.warnings);
    // A restarted daemon may have lost some counts, but cannot have more.
    let mut started_again = good();
    started_again.audit_inputs.compared[0].whole = false;
    started_again.audit_inputs.compared[0].daemon -= 1_000;
    assert_eq!(failing(&started_again), [""; 0]);
    started_again.audit_inputs.compared[0].daemon += 2_000;
    assert_eq!(failing(&started_again).len(), 1);
    // A failed worker loses its unreported counts.
    let mut lost_worker = good();
    lost_worker.audit_inputs.compared[0].driver_short = true;
    lost_worker.audit_inputs.compared[0].daemon += 1_000;
    assert_eq!(failing(&lost_worker), [""; 0]);
    lost_worker.audit_inputs.compared[0].daemon -= 2_000;
    assert_eq!(failing(&lost_worker).len(), 1);
    lost_worker.audit_inputs.compared[0].whole = false;
    assert_eq!(failing(&lost_worker), [""; 0]);
}

/// Of 1,000 operations, every tenth took 10 ms and the others 1 ms.
fn with_goodput(objectives: &[&str], goodput: u64) -> RunResult {
    let mut result = good();
    let mut times = Distribution::default();
    (0..1_000)
        .for_each(|index| times.record([1_000_000, 10_000_000][usize::from(index % 10 == 0)]));
    result.series = Vec::from_iter(SeriesResult::from_distribution("response", &times));
    (result.operations.started, result.operations.ok) = (1_000, 1_000);
    result.plan = serde_json::json!({ "objectives": objectives });
    result.counts.insert("goodput".to_owned(), goodput);
    result
}

/// Returns the audit's row of the goodput, and whether it adds up.
fn goodput(result: &RunResult) -> (String, bool) {
    let rows = audit::comparisons(result).into_iter();
    let mut rows = rows.filter(|row| row.what == "operations that met the objectives");
    let row = rows.next().expect("the plan has objectives");
    (row.expected, row.consistent)
}

#[test]
fn goodput_fits_the_times_above_the_limits() {
    for (objectives, counted, expected, fits) in [
        (&["response < 5ms"][..], 900, "900", true),
        (&["response < 5ms"], 901, "900", false),
        (&["response < 5ms"], 899, "900", false),
        (&["response < 1s"], 1_000, "1,000", true),
        (&["response < 1us"], 0, "0", true),
        // The limit is in the bucket of the times, so it does not tell on which side they are.
        (&["response < 10ms"], 950, "900 to 1,000", true),
        // Each may have been missed by other operations.
        (
            &["response < 5ms", "response < 6ms"],
            850,
            "800 to 900",
            true,
        ),
        // Not every operation has such a time.
        (&["response < 5ms", "service < 1ms"], 1, "0 to 900", true),
    ] {
        let result = with_goodput(objectives, counted);
        assert_eq!(
            goodput(&result),
            (expected.to_owned(), fits),
            "{objectives:?}"
        );
    }
    let mut more = with_goodput(&["service < 1ms"], 1_000);
    more.operations.ok = 999;
    assert_eq!(goodput(&more), ("0 to 999".to_owned(), false));
    let warnings = judged(more).warnings;
    assert!(warnings.iter().any(|warning| warning.kind == Kind::Audit));
}

#[test]
fn goodput_is_a_share_of_all_that_was_due_and_stands_in_every_report() {
    let mut result = with_goodput(&["response < 5ms"], 900);
    result.operations.missed = 200;
    result.throughput = Some(Throughput {
        measured_s: 2.0,
        ok: 1_000,
        counts: named(&[("goodput", 890)]),
        ..Throughput::default()
    });
    for (text, measured, met) in [
        ("goodput.pct >= 75%", "75.000 %", true),
        ("goodput.pct >= 99", "75.000 %", false),
        ("goodput >= 445", "445.0/s", true),
        ("counts.goodput == 900", "900", true),
    ] {
        let threshold = Threshold::parse_for(text, &result.spec).unwrap();
        assert!(threshold.needs_objectives(), "{text}");
        let judged = threshold.judge(&result);
        assert_eq!(
            (judged.measured.as_deref(), judged.met),
            (Some(measured), met)
        );
    }
    let line = "445/s, 75.00 % of all due operations: response &lt; 5ms";
    let suite = |results| Suite {
        results,
        ..Suite::default()
    };
    let one = suite(vec![result.clone()]);
    assert_contains(&html::render(&one).unwrap(), &[line]);
    let fact = format!("- **goodput:** {line}");
    assert_contains(&markdown::render(&one), &[&fact]);
    let screen = terminal::render(&one, &Options::default());
    let shown = "goodput   445/s, 75.00 % of all due operations: response < 5ms";
    assert_contains(&screen, &[shown]);
    let again = RunResult {
        run_id: "again".to_owned(),
        ..result.clone()
    };
    let several = markdown::render(&suite(vec![result, again]));
    assert_contains(&several, &[" goodput/s | goodput % |"]);
    // A plan without objectives has none.
    let mut without = with_goodput(&[], 0);
    without.counts.remove("goodput");
    let judged = Threshold::parse("goodput >= 0", &[])
        .unwrap()
        .judge(&without);
    assert_eq!((judged.measured, judged.met), (None, false));
}
