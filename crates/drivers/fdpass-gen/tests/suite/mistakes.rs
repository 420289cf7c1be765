//! Typical mistakes in calls and plans: each message says what is wrong, where, and what to do.

use harness_testing::mistakes::check;

#[test]
fn a_wrong_call_is_named_with_its_remedy() {
    let group = "[[groups]]\nname = 'a'\nrate = 5\n";
    let plan =
        format!("name = 'two'\n[timeline]\nmeasure = '9s'\ndrain = '1s'\n{group}{group}[driver]\n");
    check(
        env!("CARGO_BIN_EXE_fdpass-gen"),
        &[("two.toml", &plan)],
        &"
            --socket /no/such.sock => --socket /no/such.sock … start the daemon first
            --socket @name => --socket @name … abstract sockets … name a file
            go-streaming => did you mean --daemon go-streaming?
            my.toml => did you mean the plan --plan my.toml?
            --duration 5s => use --hold:
            -d 5s => use --hold:
            -c 10 => use --connections:
            http://127.0.0.1:1/ => use --socket:
            --hold 1x => --hold … such as 1m30s
            --plan {dir}/two.toml --rate 1k => --rate … 2 groups … --set groups.0.rate=… or --set groups.1.rate=…
            --connections 10k --hold 1s --ramp-up 2h => ramp … shorten
            --socket /{long} => 107 bytes … use a shorter path
            --socket {dir} => --socket … {dir}
        "
        .replace("{long}", &"x".repeat(120)),
    );
}
