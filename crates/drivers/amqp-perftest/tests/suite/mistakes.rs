//! Typical mistakes in calls: each message says what is wrong, where, and what to do.

use harness_testing::mistakes::{check, refused};

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    check(
        env!("CARGO_BIN_EXE_amqp-perftest"),
        &[],
        &[
            refused(
                &["--uri", "amqp://127.0.0.1:1/"],
                &["127.0.0.1:1", "start the broker", "leave --uri out"],
            ),
            refused(
                &["--uri", "http://127.0.0.1:1/"],
                &["scheme", "write it as amqp://"],
            ),
            refused(
                &["--uri", "amqp://no.such.host.invalid/"],
                &["no.such.host.invalid", "correct the name of the host"],
            ),
            refused(
                &["--uri", "amqp://me:secret@::1:5672/x"],
                &["did you mean amqp://me:[redacted]@[::1]:5672/x?"],
            ),
            refused(&["rabbitmq"], &["did you mean --daemon rabbitmq?"]),
            refused(
                &["--prefetch", "70k"],
                &["--prefetch", "larger than this option"],
            ),
            refused(
                &["--threshold", "counts.duplicatd == 0"],
                &["`duplicatd`", "did you mean `duplicated`?"],
            ),
            refused(
                &["--threshold", "goodput >= 1"],
                &["thresholds[0] (--threshold)", "--objective \"end_to_end <"],
            ),
            refused(
                &["--consumers", "0", "--threshold", "goodput >= 1"],
                &["thresholds[0] (--threshold)", "--objective \"publish <"],
            ),
        ],
    );
}
