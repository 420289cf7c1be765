//! Daemons that are built once, before they are measured.

use std::fs;

use crate::support::{Project, assert_contains, ends_with, messages};

/// A daemon whose build writes a line to a file.
const DAEMON: &str = "about = 'a'\nserves = ['fake']\nbuild = [['sh', '-c', 'echo built >> {dir}/log']]\n\
    run = ['true']\nready = { line = 'up' }\n";

#[test]
fn with_built_programs_a_daemon_is_built_by_its_own_command_only() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a']\n");
    project.file("Cargo.toml", "[workspace]\n");
    project.file("daemons/a/daemon.toml", DAEMON);
    let call = |arguments: &str| {
        let mut command = project.drover(arguments);
        command.env("DROVER_PROGRAMS", project.path("bin"));
        command.env("CARGO_TARGET_DIR", project.path("target"));
        command.output().unwrap()
    };
    let run = "run configs/fake/tiny.toml --force";
    let builds = || fs::read_to_string(project.path("daemons/a/log")).unwrap_or_default();

    let output = call(run);
    ends_with(&output, 1);
    assert_contains(&messages(&output), &["build it with `drover build a`"]);
    assert_eq!((builds().as_str(), project.log().len()), ("", 0));

    ends_with(&call("build a"), 0);
    ends_with(&call(run), 0);
    assert_eq!((builds().as_str(), project.log().len()), ("built\n", 1));

    fs::remove_file(project.path("bin/fake-gen")).unwrap();
    let output = call(&format!("{run} --fresh"));
    assert_contains(&messages(&output), &["which DROVER_PROGRAMS names"]);
}

#[test]
fn a_daemon_whose_tool_is_missing_is_left_out_unless_it_is_named() {
    let project = Project::new("[driver]\n[suite]\ndaemons = ['a']\n");
    project.daemon("b", "no-such-tool-anywhere");
    let output = project.call("build", 0);
    assert_contains(
        &messages(&output),
        &["skipped: b (needs no-such-tool-anywhere)"],
    );
    project.call("build b", 1);
    project.call("build none", 2);
}
