//! Nothing is left of a run that ends at any moment.

use harness_testing::left_over::end;

#[test]
fn nothing_is_left_of_a_run_that_ends_at_any_moment() {
    let load = "--plan configs/presence/quick.toml --set timeline.measure=1s --set timeline.warmup=0s --set timeline.drain=1s --set driver.ramp_up=0s";
    let more = ["", "--processes 2"];
    end(100, env!("CARGO_BIN_EXE_presence-load"), load, &more);
}
