//! Typical mistakes in calls and plans: each message says what is wrong, where, and what to do.

use harness_testing::mistakes::{check, refused};

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    let long = format!("/tmp/{}.sock", "x".repeat(120));
    let group = "[[groups]]\nname = 'a'\nrate = 5\n";
    let plan =
        format!("name = 'two'\n[timeline]\nmeasure = '9s'\ndrain = '1s'\n{group}{group}[driver]\n");
    let not_a_socket = env!("CARGO_MANIFEST_DIR");
    check(
        env!("CARGO_BIN_EXE_fdpass-gen"),
        &[("two.toml", &plan)],
        &[
            refused(
                &["--socket", "/no/such.sock"],
                &["--socket /no/such.sock", "start the daemon first"],
            ),
            refused(&["--socket", &long], &["107 bytes", "use a shorter path"]),
            refused(
                &["--socket", "@name"],
                &["--socket @name", "abstract sockets", "name a file"],
            ),
            refused(&["--socket", not_a_socket], &["--socket", not_a_socket]),
            refused(&["go-streaming"], &["did you mean --daemon go-streaming?"]),
            refused(&["my.toml"], &["did you mean the plan --plan my.toml?"]),
            refused(&["--duration", "5s"], &["use --hold:"]),
            refused(&["-d", "5s"], &["use --hold:"]),
            refused(&["-c", "10"], &["use --connections:"]),
            refused(&["http://127.0.0.1:1/"], &["use --socket:"]),
            refused(&["--hold", "1x"], &["--hold", "such as 1m30s"]),
            refused(
                &["--plan", "{dir}/two.toml", "--rate", "1k"],
                &[
                    "--rate",
                    "2 groups",
                    "--set groups.0.rate=… or --set groups.1.rate=…",
                ],
            ),
            refused(
                &["--connections", "10k", "--hold", "1s", "--ramp-up", "2h"],
                &["ramp", "shorten"],
            ),
        ],
    );
}
