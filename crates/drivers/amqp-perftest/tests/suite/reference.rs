//! Tests what this driver publishes about itself: its page in `docs/`, and the schema of its plans.

use amqp_perftest::driver::Perftest;
use harness::cli::{command, job};
use harness_testing::options::{Needs, rows};
use harness_testing::reference;
use load::driver::Driver;
use load::plan::Plan;

#[test]
fn the_page_of_names_and_options_agrees_with_the_program() {
    let needs = Needs {
        defaults: &["churn"],
        others: &[
            ("queue-pattern", "--queue-pattern-to=7"),
            ("queue-pattern-to", "--queue-pattern=q%d"),
        ],
    };
    let rows = rows(&command::<Perftest>(), needs, |typed| {
        job::<Perftest>(typed).map(|job| job.plan.to_table().unwrap())
    });
    reference::check(Perftest::SPEC, &rows);
}

#[test]
fn the_schema_of_plans_agrees_with_their_type() {
    reference::check_plan_schema::<Plan<<Perftest as Driver>::Config>>(Perftest::SPEC);
}
