//! Typical mistakes in calls: each message says what is wrong, where, and what to do.

use harness_testing::mistakes::{check, refused};

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    check(
        env!("CARGO_BIN_EXE_presence-load"),
        &[],
        &[
            refused(&["-c", "5"], &["use --rooms:"]),
            refused(&["--rate", "5"], &["use --heartbeats-per-sec:"]),
            refused(
                &["http://127.0.0.1:1"],
                &["127.0.0.1:1", "start the server"],
            ),
            refused(
                &["127.0.0.1:3000"],
                &["no scheme", "did you mean http://127.0.0.1:3000?"],
            ),
            refused(&["unix:/run/a.sock"], &["`unix`", "write http://"]),
            refused(
                &["http:/127.0.0.1:3000"],
                &["did you mean http://127.0.0.1:3000?"],
            ),
            refused(
                &["presence-deamon"],
                &["did you mean --daemon presence-daemon?"],
            ),
            refused(
                &["--rooms", "0", "http://127.0.0.1:1"],
                &["--rooms", "between 1 and"],
            ),
            refused(
                &["--churn-cut", "2", "http://127.0.0.1:1"],
                &["--churn-cut", "from 0 to 1"],
            ),
        ],
    );
}
