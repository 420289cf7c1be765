//! Typical mistakes in calls: each message says what is wrong, where, and what to do.

use harness_testing::mistakes::{check, refused};

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    check(
        env!("CARGO_BIN_EXE_issue-stress"),
        &[],
        &[
            refused(&["--clients", "5"], &["use --agents:"]),
            refused(&["-o", "x.json"], &["use --output:"]),
            refused(
                &["/no/such.sock"],
                &[
                    "no daemon answers at /no/such.sock",
                    "start it",
                    "leave it out",
                ],
            ),
            refused(
                &["postgresql:/no/such"],
                &["/no/such", "start it", "correct the target"],
            ),
            refused(&["issue-deamon"], &["did you mean --daemon issue-daemon?"]),
            refused(
                &["--scenario", "polling"],
                &["--scenario", "polling-agents"],
            ),
        ],
    );
}
