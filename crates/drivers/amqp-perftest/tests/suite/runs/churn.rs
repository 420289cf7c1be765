//! Connections, channels, queues and bindings that are opened and closed again.

use null_broker::Script;

use super::{nothing_failed, run};

#[test]
fn every_opened_object_is_closed_again_and_both_are_measured() {
    // The test is independent of the engine.
    if super::ENGINE != "wire" {
        return;
    }
    for churn in ["connection", "channel", "queue", "binding"] {
        for rate in ["0", "200"] {
            let load = format!("--churn {churn} --producers 3 --pmessages 20");
            let (code, result) = run(
                Script::default(),
                &format!("{load} --rate {rate} --duration 5s"),
            );
            nothing_failed(code, &result);
            result.counts(&[("published", 0)]);
            // On a busy machine the last ones due may be missed.
            let ok = result["operations"]["ok"].as_u64().unwrap();
            let missed = result["operations"]["missed"].as_u64().unwrap();
            assert_eq!(ok + missed, 60, "{churn} {rate}");
            assert!(ok > 0 && (rate != "0" || missed == 0), "{missed}");
            assert_eq!((result.values("churn"), result.values("open")), (ok, ok));
        }
    }
}

#[test]
fn churn_that_a_broker_refuses_is_counted_and_goes_on() {
    // The test is independent of the engine.
    if super::ENGINE != "wire" {
        return;
    }
    let script = Script::with_queue("perftest-1");
    // The queue exists with another durability: 406, once, since its client then finds the connection closed. Clients
    // of one thread take starts as they are free; of two threads each has its own five.
    let load = "--churn queue --producers 2 --pmessages 5";
    let (code, result) = run(script, &format!("{load} --threads 2 --reconnect-after 1ms"));
    assert_eq!(code, 1);
    let refused = result.error("refused");
    assert_eq!(
        (refused, result.count("churned")),
        (5, 5),
        "{}",
        result["errors"]
    );
}
