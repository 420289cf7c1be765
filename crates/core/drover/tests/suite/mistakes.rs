//! Typical mistakes in calls and plans: each message says what is wrong, where, and what to do.

use harness_testing::program::ended_with;
use serde_json::Value;
use test_kit::rows;

use crate::support::{Project, assert_contains, ends_with, messages};

const SUITE: &str = "[driver]\n[suite]\ndaemons = ['a']\n";

#[test]
fn a_wrong_call_is_named_with_what_it_may_mean() {
    let project = Project::new(SUITE);
    project.plan("other", SUITE);
    project.file(
        "daemons/stranger/daemon.toml",
        "about = 's'\nserves = ['smtp']\nrun = ['true']\nready = { line = 'up' }\n",
    );
    project.file("configs/more/other.toml", "name = 'other'\n");
    project.file(
        "configs/fake/number.toml",
        "name = 'n'\n[timeline]\nmeasure = 10\ndrain = '1s'\n",
    );
    for (call, parts) in rows(
        r#"
            rnu => 'rnu' … did you mean drover run?
            compare a => <OTHER> … SUITE#nginx SUITE#caddy
            compare a#x b => a: there is no such file or folder … drover list
            run => <PLAN> … drover list
            analyze => <DIR> … drover list
            merge nope => nope … --result-dir
            sample abc x.csv => 'abc' … <PID> … not a number
            run tiny --metrics-addr 9100 => --metrics-addr … such as 127.0.0.1:9100
            configs/fake/tiny.toml => did you mean drover run configs/fake/tiny.toml?
            run tniy => no plan `tniy` … did you mean configs/fake/tiny.toml?
            run xyz => no plan `xyz` … drover list
            run other => several plans … configs/fake/other.toml, configs/more/other.toml
            run configs/fake/tinny.toml => tinny.toml … did you mean configs/fake/tiny.toml?
            run number => number.toml … line 3: timeline.measure … "10s"
            run tiny --daemon stranger => `stranger` serves smtp … for fake … choose one of a, b, c
            run tiny --daemon strangr => no daemon `strangr` … did you mean `stranger`?
            run tiny --level 7 => --level 7 … use one of 5
            report nowhere => nowhere … no such file or folder … drover list
        "#,
    ) {
        let output = project.drover(call).output().unwrap();
        ended_with(&output, 2, &parts, &call);
    }
    let mut command = project.drover("run tiny");
    let output = command.env("FAKE_GEN_RATE", "5").output().unwrap();
    ended_with(
        &output,
        2,
        &["FAKE_GEN_RATE", "unset it", "--set"],
        &command,
    );
    assert!(project.log().is_empty(), "nothing was run");
}

#[test]
fn a_plan_is_found_by_its_name_and_compared_with_its_own_past_only() {
    let project = Project::new(SUITE);
    project.call("run tiny --force", 0);
    assert_eq!(project.log(), ["a/5/1"]);
    let now = project.suite("tiny");
    type Change = fn(&mut Value);
    let compare = |change: Change| {
        let text = std::fs::read_to_string(now.join("a/5/1/result.json")).unwrap();
        let mut earlier = serde_json::from_str(&text).unwrap();
        change(&mut earlier);
        let base = project.file("base/result.json", &earlier.to_string());
        let call = format!("report {} --base {}", now.display(), base.display());
        project.drover(&call).output().unwrap()
    };
    ends_with(&compare(|run| run["plan"]["name"] = "renamed".into()), 0);
    let others: [(Change, &str); 3] = [
        (
            |run| run["plan"]["groups"][0]["workers"] = 6.into(),
            "base has runs of a at 5 with groups.0.workers = 6, and tiny of a at 5 with 1000",
        ),
        (
            |run| run["daemon"]["target"] = "x.sock".into(),
            "target = \"x.sock\"",
        ),
        (
            |run| run["daemon"]["name"] = "b".into(),
            "base has runs of b at 5, and tiny of a at 5",
        ),
    ];
    for (change, difference) in others {
        let output = compare(change);
        ends_with(&output, 2);
        assert_contains(&messages(&output), &["--base", difference, "drover list"]);
    }
}
