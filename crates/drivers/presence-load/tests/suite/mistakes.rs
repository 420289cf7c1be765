//! Typical mistakes in calls: each message says what is wrong, where, and what to do.

use harness_testing::mistakes::check;

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    check(
        env!("CARGO_BIN_EXE_presence-load"),
        &[],
        "
            -c 5 => use --rooms:
            --rate 5 => use --heartbeats-per-sec:
            {url} => 127.0.0.1:1 … start the server
            127.0.0.1:3000 => no scheme … did you mean http://127.0.0.1:3000?
            unix:/run/a.sock => `unix` … write http://
            http:/127.0.0.1:3000 => did you mean http://127.0.0.1:3000?
            presence-deamon => did you mean --daemon presence-daemon?
            --rooms 0 {url} => --rooms … between 1 and
            --churn-cut 2 {url} => --churn-cut … from 0 to 1
        ",
    );
}
