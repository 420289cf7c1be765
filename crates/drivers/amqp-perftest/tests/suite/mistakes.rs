//! Typical mistakes in calls: each message says what is wrong, where, and what to do.

use harness_testing::mistakes::check;

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    check(
        env!("CARGO_BIN_EXE_amqp-perftest"),
        &[],
        r#"
            --uri amqp://127.0.0.1:1/ => 127.0.0.1:1 … start the broker … leave --uri out
            --uri http://127.0.0.1:1/ => scheme … write it as amqp://
            --uri amqp://no.such.host.invalid/ => no.such.host.invalid … correct the name of the host
            --uri amqp://me:secret@::1:5672/x => did you mean amqp://me:[redacted]@[::1]:5672/x?
            rabbitmq => did you mean --daemon rabbitmq?
            --prefetch 70k => --prefetch … larger than this option
            --threshold 'counts.duplicatd == 0' => `duplicatd` … did you mean `duplicated`?
            --threshold 'goodput >= 1' => thresholds[0] (--threshold) … --objective "end_to_end <
            --consumers 0 --threshold 'goodput >= 1' => thresholds[0] (--threshold) … --objective "publish <
        "#,
    );
}
