//! Nothing is left of a run that ends at any moment.

use harness_testing::daemons::prepared;
use harness_testing::left_over::end;

#[test]
fn nothing_is_left_of_a_run_that_ends_at_any_moment() {
    let load = "--connections 50 --ramp-up 500ms --messages 10";
    let mut more = vec!["", "--processes 2"];
    let php = prepared("php-streaming", "fdpass");
    more.extend(php.map(|_| "--daemon php-streaming"));
    end(100, env!("CARGO_BIN_EXE_fdpass-gen"), load, &more);
}
