//! Nothing is left of a run that ends at any moment.

use harness_testing::left_over::end;

#[test]
fn nothing_is_left_of_a_run_that_ends_at_any_moment() {
    let load = "--plan configs/issue/quick.toml --set groups.0.ops=10";
    let more = ["", "--daemon issue-direct"];
    end(100, env!("CARGO_BIN_EXE_issue-stress"), load, &more);
}
