//! Tests what this driver publishes about itself: its page in `docs/`, and the schema of its plans.

use harness::cli::{command, job};
use harness_testing::options::{Needs, rows};
use harness_testing::reference;
use load::driver::Driver;
use load::plan::Plan;
use presence_load::PresenceLoad;

#[test]
fn the_page_of_names_and_options_agrees_with_the_program() {
    let needs = Needs {
        defaults: &["mode", "ack-timeout"],
        others: &[],
    };
    let rows = rows(&command::<PresenceLoad>(), needs, |typed| {
        job::<PresenceLoad>(typed).map(|job| job.plan.to_table().unwrap())
    });
    reference::check(PresenceLoad::SPEC, &rows);
}

#[test]
fn the_schema_of_plans_agrees_with_their_type() {
    reference::check_plan_schema::<Plan<<PresenceLoad as Driver>::Config>>(PresenceLoad::SPEC);
}
