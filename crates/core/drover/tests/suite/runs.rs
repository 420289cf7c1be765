//! Tests the order of runs, and the handling of runs that can't be performed.

use std::fs;

use crate::support::{Project, assert_contains, ends_with, messages, shown};

const TWO: &str = "[suite]\ndaemons = ['a', 'b']\nrepeat = 2\nlevels = [{ name = '5', set = { 'groups.0.clients' = 5 } }, { name = '10', set = { 'groups.0.clients' = 10 } }]\n";

fn doing(what: &str) -> Project {
    Project::new(&format!("[driver]\ndo = {{ {what} }}\n{TWO}"))
}

#[test]
fn the_drivers_serve_their_metrics_where_they_are_told_to() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a']\n");
    project.run("--metrics-addr 127.0.0.1:9100", 0);
    let told = fs::read_to_string(project.path("metrics")).unwrap();
    assert_eq!(told, "127.0.0.1:9100");
    project.run("--metrics-addr 9100", 2);
}

#[test]
fn the_drivers_get_the_cpus_of_the_suite_and_a_suite_with_others_is_another_one() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a']\n");
    let lists = "--driver-cpus 0 --daemon-cpus=0 --flamegraph=both";
    project.run(lists, 0);
    let told = || fs::read_to_string(project.path("isolation")).unwrap();
    assert_eq!(told(), "--driver-cpus=0 --daemon-cpus=0 --flamegraph=both");
    let spec = project.record()["suite"].clone();
    assert_eq!(spec["isolation"]["driver_cpus"], "0", "{spec}");
    assert_eq!(spec["flamegraph"], "both", "{spec}");
    let again = messages(&project.run(lists, 0));
    assert_contains(&again, &["Nothing to do"]);
    assert_eq!(project.suites(), 1);
    project.run("", 0);
    assert_eq!((told(), project.suites()), (String::new(), 2));
    let report = fs::read_to_string(project.suite("tiny/summary.md")).unwrap();
    assert_contains(
        &report,
        &["--driver-cpus 0 --daemon-cpus 0 --flamegraph both"],
    );
    let refused = project.run("--driver-cpus 1023", 2);
    assert_contains(&messages(&refused), &["--driver-cpus 1023", "choose from"]);
    assert_eq!(project.suites(), 2);
}

#[test]
fn daemons_take_turns_levels_rise_and_repetitions_are_outermost() {
    let project = doing("");
    let output = project.run("", 0);
    assert_eq!(
        project.log(),
        [
            "a/5/1", "b/5/1", "b/10/1", "a/10/1", "b/5/2", "a/5/2", "a/10/2", "b/10/2"
        ]
    );
    assert_contains(
        &messages(&output),
        &["run 4 of 8 · a · 10 · 1st of 2", " left"],
    );
    let shown = shown(&output);
    for page in ["report.md", "summary.md", "report.html"] {
        let path = project.suite("tiny").join(page);
        let text = fs::read_to_string(path).unwrap();
        assert_contains(&text, &["Which of the scripted daemons"]);
    }
    assert_contains(&shown, &["/tiny/report.html\n", "drover analyze "]);
    // A suite of four runs per daemon ends with one screen.
    assert!(shown.lines().count() <= 24, "{shown}");
    let record = project.record();
    assert_eq!(record["runs"].as_array().unwrap().len(), 8);
    assert!(record["ended_at"].is_string());
    assert_eq!(
        record["suite"]["levels"][1]["set"][0],
        "groups.0.clients=10"
    );
    let result = crate::support::json(&project.suite("tiny/b/10/2/result.json"));
    assert_eq!(
        (&result["operations"]["started"], &result["level"]),
        (&10.into(), &"10".into())
    );
}

#[test]
fn a_level_may_change_how_long_the_stages_last_and_the_measurement_with_them() {
    let project = doing("");
    let level = |over: &str| {
        format!(
            "{{ name = '{over}', set = {{ 'groups.0.stages.0.over' = '{over}', 'groups.0.stages.0.users' = 7 }} }}"
        )
    };
    let plan = format!(
        "name = 'staged'\ntimeline = {{ drain = '1s' }}\n[[groups]]\nname = 'users'\nstages = [{{ users = 3, over = '1s' }}]\n[driver]\n[suite]\ndaemons = ['a']\nlevels = [{}, {}]\n",
        level("1s"),
        level("2s")
    );
    project.file("configs/fake/staged.toml", &plan);
    project.call("run configs/fake/staged.toml --force", 0);
    assert_eq!(project.log(), ["a/1s/1", "a/2s/1"]);
}

#[test]
fn a_suite_with_more_repetitions_keeps_its_runs_and_tells_that_they_were_compared_before() {
    let project = doing("");
    let call = |repeat| project.run(&format!("--level 5 --repeat {repeat}"), 0);
    call("2");
    call("3");
    let report = || std::fs::read_to_string(project.suite("tiny/report.md")).unwrap();
    assert_contains(&report(), &["by 95 % intervals"]);
    let output = call("5");
    assert_contains(&messages(&output), &["6 of 10 runs are complete"]);
    assert_eq!((project.log().len(), project.suites()), (10, 1));
    assert_eq!(project.record()["looks"], serde_json::json!([3]));
    assert_contains(
        &report(),
        &["by 97.5 % intervals", "had been compared before"],
    );
    call("3");
    assert_eq!((project.log().len(), project.suites()), (16, 2));
}

#[test]
fn a_suite_that_is_finished_says_so_and_fresh_or_a_differing_one_begins_beside_it() {
    let project = doing("");
    let few = "--daemon a --level 5 --repeat 1";
    project.run(few, 0);
    let ended = project.record();
    let again = project.run(few, 0);
    assert_contains(
        &messages(&again),
        &[
            "Nothing to do: the only run has its result in ",
            "tiny; --fresh starts over",
        ],
    );
    assert!(shown(&again).contains("report.html"), "the report is shown");
    assert_eq!((project.record(), project.log().len()), (ended, 1));
    project.run(&format!("{few} --fresh"), 0);
    project.run("--daemon a --repeat 1", 0);
    assert_eq!(project.log(), ["a/5/1", "a/5/1", "a/5/1", "a/10/1"]);
    for name in ["tiny", "tiny.2", "tiny.3"] {
        assert!(
            project.suite(name).join("a/5/1/result.json").is_file(),
            "{name}"
        );
    }
}

#[test]
fn a_level_that_the_machine_cannot_reach_is_recorded_with_the_limit_and_tried_once() {
    let project = doing("'a/10' = 'limit'");
    let output = project.run("", 0);
    assert_eq!(
        project
            .log()
            .iter()
            .filter(|run| run.starts_with("a/10"))
            .count(),
        1
    );
    assert_eq!(project.log().len(), 7);
    let record = project.record();
    let missed = &record["unreached"][0];
    assert_eq!(
        (&missed["daemon"], &missed["level"], &missed["why"]),
        (&"a".into(), &"10".into(), &"limit".into())
    );
    assert!(missed["reason"].as_str().unwrap().contains("ulimit -n 999"));
    let page = fs::read_to_string(project.suite("tiny/report.md")).unwrap();
    assert_contains(&page, &["needs 999 open files"]);
    assert_contains(&messages(&output), &["not measured: the driver needs 999"]);
}

#[test]
fn a_call_that_a_driver_refuses_is_a_failure_and_no_limit() {
    let project = doing("'a/10' = 'refuse'");
    project.run("--repeat 1", 1);
    let missed = &project.record()["unreached"][0];
    assert_eq!(
        (&missed["why"], &missed["reason"]),
        (&"failed".into(), &"driver.x: is wrong today".into())
    );
}

#[test]
fn a_run_that_fails_is_tried_once_and_by_the_same_command_again() {
    let project = doing("'a/5' = 'fail'");
    project.run("", 1);
    assert_eq!(project.log().len(), 8);
    project.run("", 1);
    assert_eq!(project.log()[8..], ["a/5/1", "a/5/2"]);
    let record = project.record();
    assert!(record["ended_at"].is_null(), "something is left to do");
    assert_eq!(record["runs"].as_array().unwrap().len(), 6);
    let failed = record["unreached"].as_array().unwrap();
    assert_eq!(
        (failed.len(), &failed[0]["why"], &failed[1]["run"]),
        (2, &"failed".into(), &2.into())
    );
    assert!(
        failed[0]["reason"]
            .as_str()
            .unwrap()
            .contains("`make` exited")
    );
}

#[test]
fn the_exit_code_is_that_of_the_gravest_run() {
    for (what, code) in [
        ("'a/5' = 'suspect'", 3),
        ("'a/5' = 'suspect', 'b/5' = 'errors'", 1),
    ] {
        doing(what).run("--repeat 1", code);
    }
    let project = Project::new(&format!("[driver]\ncapacity = {{ a = 7, b = 20 }}\n{TWO}"));
    let plan = fs::read_to_string(project.path("configs/fake/tiny.toml")).unwrap();
    project.file(
        "configs/fake/tiny.toml",
        &format!("thresholds = ['first_byte.p99 <= 50ms']\n{plan}"),
    );
    project.run("--repeat 1", 4);
}

#[test]
fn a_daemon_whose_tool_is_missing_is_left_out_by_name() {
    let project = doing("");
    project.daemon("a", "drover-no-such-tool");
    let output = project.run("--repeat 1", 0);
    assert_eq!(project.log(), ["b/5/1", "b/10/1"]);
    assert_contains(&messages(&output), &["`a` needs `drover-no-such-tool`"]);
    assert_eq!(project.record()["unreached"].as_array().unwrap().len(), 2);
    let strict = project
        .drover("run configs/fake/tiny.toml --force --repeat 1")
        .env("DROVER_REQUIRE_ALL", "1")
        .output()
        .unwrap();
    ends_with(&strict, 1);
    project.run("--daemon a", 1);
}

#[test]
fn a_plan_of_a_few_lines_is_run_on_the_daemons_that_the_call_names() {
    let project = Project::new("");
    project.file(
        "configs/fake/hand.toml",
        "name = 'hand'\n[timeline]\nmeasure = '1s'\n[[groups]]\nname = 'users'\nclients = 5\nops = 1\n",
    );
    let call = "run configs/fake/hand.toml --force";
    project.call(&format!("{call} --daemon b,a --repeat 2"), 0);
    assert_eq!(project.log(), ["b/5/1", "a/5/1", "a/5/2", "b/5/2"]);
}
