//! Nothing is left of a run that ends at any moment.

use harness_testing::daemons::prepared;
use harness_testing::left_over::end;

#[test]
fn nothing_is_left_of_a_run_that_ends_at_any_moment() {
    let load = "--duration 1s --rate 1000";
    let program = env!("CARGO_BIN_EXE_amqp-perftest");
    end(100, program, load, &["", "--processes 2"]);
    // Its epmd forks twice and leads a session of its own. It takes seconds to start, so there are fewer ends.
    if prepared("rabbitmq", "amqp").is_some() {
        end(20, program, &format!("{load} --daemon rabbitmq"), &[""]);
    }
}
