//! Calls that can't be right.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::support::{Project, ends_with, said};

fn refused(project: &Project, arguments: &[&str], parts: &[&str]) {
    let output = project.drover(arguments).output().unwrap();
    ends_with(&output, 2);
    let said = said(&output);
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    assert!(project.log().is_empty(), "nothing was run");
}

#[test]
fn a_call_that_cannot_be_right_is_refused_before_anything_runs() {
    let project =
        Project::new("[driver]\n[suite]\ndaemons = ['a']\nlevels = [{ name = '5', set = {} }]\n");
    project.plan("plain", "[driver]\n");
    project.plan(
        "refused",
        "[driver]\nrefuse = true\n[suite]\ndaemons = ['a']\n",
    );
    project.plan("wrong", "[driver]\n[suite]\ndaemons = ['a']\nlevels = [{ name = 'x', set = { 'groups.0.workers' = -1 } }]\n");
    project.plan(
        "most",
        "[driver]\n[suite]\ndaemons = ['a']\n[suite.capacity]\nset = 'groups.0.workers'\nfrom = 1\nmost = 99999999999\n",
    );
    let run = |plan: &str, more: &[&str], parts: &[&str]| {
        let plan = format!("configs/fake/{plan}.toml");
        let arguments = [&["run", plan.as_str(), "--force"], more].concat();
        refused(&project, &arguments, parts);
    };
    run("nonesuch", &[], &["nonesuch.toml"]);
    run("plain", &[], &["no [suite]", "daemons ="]);
    run("refused", &[], &["driver.refuse", "refused.toml"]);
    run("wrong", &[], &["level x", "workers"]);
    run("most", &[], &["level 99999999999", "workers"]);
    run("tiny", &["--daemon", "z"], &["`z`", "a, b, c"]);
    run("tiny", &["--level", "6"], &["--level 6", "choose of 5"]);
    run("tiny", &["--repeat", "0"], &["--repeat"]);
    run("tiny", &["--set", "nonsense=1"], &["nonsense"]);
    run("tiny", &["--set", "timeline.measure=9"], &["measure"]);
    run(
        "tiny",
        &["--out", "/proc/nowhere"],
        &["--out /proc/nowhere"],
    );
    refused(&project, &["run"], &["PLAN"]);
    refused(&project, &["nonsense"], &["nonsense"]);
    refused(&project, &["doctor", "nonesuch.toml"], &["nonesuch.toml"]);
}
