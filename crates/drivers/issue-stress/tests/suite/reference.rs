//! Tests what this driver publishes about itself: its page in `docs/`, and the schema of its plans.

use harness::cli::{command, job};
use harness_testing::options::{Needs, rows};
use harness_testing::reference;
use issue_stress::IssueStress;
use load::driver::Driver;
use load::plan::Plan;

#[test]
fn the_page_of_names_and_options_agrees_with_the_program() {
    let needs = Needs {
        defaults: &["scenario", "duration", "rate"],
        others: &[],
    };
    let rows = rows(&command::<IssueStress>(), needs, |typed| {
        job::<IssueStress>(typed).map(|job| job.plan.to_table().unwrap())
    });
    reference::check(IssueStress::SPEC, &rows);
}

#[test]
fn the_schema_of_plans_agrees_with_their_type() {
    reference::check_plan_schema::<Plan<<IssueStress as Driver>::Config>>(IssueStress::SPEC);
}
