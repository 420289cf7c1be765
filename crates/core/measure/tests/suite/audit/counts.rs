//! Bytes, connections and counters against each other.

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
