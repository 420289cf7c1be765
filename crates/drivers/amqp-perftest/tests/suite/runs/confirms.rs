//! What a broker confirms, refuses or returns.

use null_broker::{Fault, Script};
use serde_json::Value;

use super::run;

#[test]
fn refused_and_returned_messages_are_errors_and_not_lost() {
    let script = Script::with_faults([(3, Fault::Nack), (4, Fault::Nack)]);
    for consumers in ["0", "1"] {
        let load = format!("--pmessages 100 --confirms --consumers {consumers}");
        let (code, result) = run(script.clone(), &load);
        assert_eq!(
            (code, result.error("nacked"), result.error("lost")),
            (1, 2, 0)
        );
        result.counts(&[("nacked", 2), ("confirmed", 98)]);
        let (code, result) = run(
            Script::default(),
            &format!("{load} --routing-key nowhere --mandatory"),
        );
        assert_eq!(
            (code, result.error("returned")),
            (1, 100),
            "{}",
            result["errors"]
        );
        result.counts(&[("returned", 100), ("confirmed", 100)]);
    }
}

#[test]
fn confirms_that_make_no_sense_are_counted_and_doubted() {
    // lapin skips them silently.
    if super::ENGINE != "wire" {
        return;
    }
    let twice = Script::with_faults([(100, Fault::ConfirmTwice), (200, Fault::ConfirmTwice)]);
    let beyond = Script::with_faults([(490, Fault::ConfirmBeyond)]);
    for (script, faults) in [(twice, 2), (beyond, 1)] {
        let (code, result) = run(
            script,
            "--pmessages 500 --confirm 50 --prefetch 50 --duration 20s",
        );
        assert_ne!((code, &result["verdict"]), (0, &Value::from("VALID")));
        result.counts(&[("protocol", faults)]);
    }
}

#[test]
fn a_message_returned_after_its_confirm_ends_once() {
    let script = Script {
        returns_late: true,
        ..Script::default()
    };
    for consumers in ["0", "1"] {
        let load = format!("--pmessages 100 --consumers {consumers}");
        // The sum is checked for each run.
        let (_, result) = run(
            script.clone(),
            &format!("{load} --routing-key nowhere --mandatory --confirms"),
        );
        if super::ENGINE == "wire" {
            result.counts(&[("returned", 100), ("protocol", 100)]);
            assert_eq!(result.error("returned"), 100 * u64::from(consumers == "1"));
        }
    }
}

#[test]
fn a_message_without_a_confirm_in_time_has_failed() {
    let script = Script::with_faults([(50, Fault::Withhold)]);
    let patience = "--confirm-timeout 300ms --duration 4s";
    let (code, result) = run(
        script,
        &format!("--pmessages 100 --confirm 10 --consumers 0 {patience} --drain 2s"),
    );
    assert_eq!(code, 1);
    assert!(
        result.error("confirm_timeout") >= 10,
        "{}",
        result["errors"]
    );
    assert_eq!(result.error("connection_lost"), 0);
}
