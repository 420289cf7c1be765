//! Tests what this driver publishes about itself: its page in `docs/`, and the schema of its plans.

use harness::cli::{command, job};
use harness_testing::options::{Needs, rows};
use harness_testing::reference;
use http_load::HttpLoad;
use load::driver::Driver;
use load::plan::Plan;

#[test]
fn the_page_of_names_and_options_agrees_with_the_program() {
    let needs = Needs {
        defaults: &[
            "connections",
            "events",
            "replay",
            "keep-open",
            "requests",
            "stage",
            "rate-stage",
            "timeout",
        ],
        others: &[("requests", "--connections=7"), ("streams", "--http2")],
    };
    let rows = rows(&command::<HttpLoad>(), needs, |typed| {
        job::<HttpLoad>(typed).map(|job| job.plan.to_table().unwrap())
    });
    reference::check(HttpLoad::SPEC, &rows);
}

#[test]
fn the_schema_of_plans_agrees_with_their_type() {
    reference::check_plan_schema::<Plan<<HttpLoad as Driver>::Config>>(HttpLoad::SPEC);
}
