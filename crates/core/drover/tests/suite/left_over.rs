//! Nothing is left of a run that ends at any moment.

use harness_testing::left_over::end;

#[test]
fn nothing_is_left_of_a_suite_that_ends_at_any_moment() {
    let suite = "run configs/fdpass/quick.toml --daemon rust-streaming,php-streaming --force --retry-invalid 0 --fresh --repeat 1 --level 100 --set groups.0.ramp=500ms --set timeline.measure=1s --set driver.messages=5";
    end(100, env!("CARGO_BIN_EXE_drover"), suite, &[""]);
}
