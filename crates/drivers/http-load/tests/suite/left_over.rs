//! Nothing is left of a run that ends at any moment.

use harness_testing::daemons::prepared;
use harness_testing::left_over::end;

#[test]
fn nothing_is_left_of_a_run_that_ends_at_any_moment() {
    let load = "--connections 10 --duration 1s";
    let mut more = vec!["", "--processes 2", "--flamegraph both"];
    more.extend(prepared("nginx", "http").map(|_| "--daemon nginx"));
    end(100, env!("CARGO_BIN_EXE_http-load"), load, &more);
}
