//! Tests invalid command lines.

use crate::support::{Project, assert_contains, ends_with, messages};

fn refused(project: &Project, arguments: &str, parts: &[&str]) {
    let output = project.call(arguments, 2);
    assert_contains(&messages(&output), parts);
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
    project.plan("wrong", "[driver]\n[suite]\ndaemons = ['a']\nlevels = [{ name = 'x', set = { 'groups.0.clients' = -1 } }]\n");
    project.plan(
        "most",
        "[driver]\n[suite]\ndaemons = ['a']\n[suite.capacity]\nset = 'groups.0.clients'\nfrom = 1\nmost = 99999999999\n",
    );
    let run = |plan: &str, more: &str, parts: &[&str]| {
        let arguments = format!("run configs/fake/{plan}.toml --force {more}");
        refused(&project, &arguments, parts);
    };
    run("nonesuch", "", &["nonesuch.toml"]);
    run("plain", "", &["no [suite]", "--daemon NAME", "daemons ="]);
    run("refused", "", &["driver.refuse", "refused.toml"]);
    run("wrong", "", &["level x", "clients"]);
    run("most", "", &["level 99999999999", "clients"]);
    run("tiny", "--daemon z", &["`z`", "a, b, c"]);
    run("tiny", "--level 6", &["--level 6", "use one of 5"]);
    run("tiny", "--repeat 0", &["--repeat"]);
    run("tiny", "--set nonsense=1", &["nonsense"]);
    run("tiny", "--set timeline.measure=soon", &["measure"]);
    run("tiny", "--out /proc/nowhere", &["--out /proc/nowhere"]);
    refused(&project, "run", &["PLAN"]);
    refused(&project, "nonsense", &["nonsense"]);
    refused(&project, "doctor nonesuch.toml", &["nonesuch.toml"]);
}

/// Calls the program below the root of a project, without naming the project.
fn called_below(project: &Project, more: &[(&str, &std::path::Path)]) -> std::process::Output {
    let below = project.path("below");
    std::fs::create_dir_all(&below).unwrap();
    let mut command = project.drover("list");
    command.current_dir(below).envs(more.iter().copied());
    command.output().unwrap()
}

#[test]
fn a_root_that_others_may_write_is_refused_and_one_that_is_named_goes_before_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::new("[driver]\n");
    ends_with(&called_below(&project, &[]), 0);
    let permissions = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(project.path(""), permissions).unwrap();
    let output = called_below(&project, &[]);
    ends_with(&output, 2);
    assert_contains(
        &messages(&output),
        &["finding the project", "every user", "DROVER_ROOT"],
    );
    let named = Project::new("[driver]\n");
    named.daemon("only-here", "true");
    let output = called_below(&project, &[("DROVER_ROOT", &named.path(""))]);
    ends_with(&output, 0);
    let shown = crate::support::shown(&output);
    assert_contains(&shown, &["only-here"]);
}

#[test]
fn a_plan_that_sets_the_environment_of_daemons_is_nobody_else_s() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::new("[driver]\n");
    let suite = "[driver]\n[suite]\ndaemons = ['a']\n";
    project.plan("harmless", suite);
    project.plan(
        "sets",
        &format!("{suite}levels = [{{ name = '5', set = {{ 'daemon_env.LD_PRELOAD' = 'x' }} }}]\n"),
    );
    for plan in ["harmless", "sets"] {
        let path = project.path(&format!("configs/fake/{plan}.toml"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
    }
    let sets = "run configs/fake/sets.toml --force";
    refused(
        &project,
        sets,
        &["every user", "`daemon_env`", "chmod go-w"],
    );
    let output = project
        .drover("run configs/fake/harmless.toml --force")
        .output()
        .unwrap();
    assert!(
        !messages(&output).contains("every user"),
        "{}",
        messages(&output)
    );
}

#[test]
fn a_plan_with_a_secret_is_refused_before_it_is_kept_beside_results() {
    let project = Project::new("[driver]\n");
    let suite = "[suite]\ndaemons = ['a']\n";
    for (name, plan) in [
        (
            "field",
            format!("[driver]\nheaders = ['Authorization: s3cret']\n{suite}"),
        ),
        (
            "variable",
            format!("[daemon_env]\nAPI_KEY = 's3cret'\n[driver]\n{suite}"),
        ),
        (
            "level",
            format!(
                "[driver]\n{suite}levels = [{{ name = '5', set = {{ 'driver.headers' = ['Cookie: s3cret'] }} }}]\n"
            ),
        ),
    ] {
        project.plan(name, &plan);
        let arguments = format!("run configs/fake/{name}.toml --force");
        refused(&project, &arguments, &["@FILE", "pass_env"]);
        let output = project.drover(&arguments).output().unwrap();
        assert!(
            !messages(&output).contains("s3cret"),
            "{}",
            messages(&output)
        );
        assert!(!project.path("bench-results").exists());
    }
}
