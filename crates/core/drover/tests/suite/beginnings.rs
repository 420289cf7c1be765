//! Tests what happens before the first run of a suite: the wait for the machine, and builds.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use harness_testing::processes::wait_until;
use harness_testing::terminal::TerminalProgram;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Project, Started, assert_contains, ends_with, has_exited, interrupt, messages,
};

const SUITE: &str = "[driver]\n[suite]\ndaemons = ['a']\n";

/// Lets a shell build a daemon.
fn build_by(project: &Project, daemon: &str, script: &str) {
    let file = project.path(&format!("daemons/{daemon}/daemon.toml"));
    let manifest = fs::read_to_string(&file).unwrap();
    let build = format!("build = [['sh', '-c', '{script}']]\n{manifest}");
    fs::write(file, build).unwrap();
}

#[test]
fn a_suite_waits_for_the_machine_and_ctrl_c_ends_the_wait() {
    let hanging = "[driver]\ndo = { 'a/5' = 'hang' }\n[suite]\ndaemons = ['a']\nlevels = [{ name = '5', set = {} }]\n";
    let holder = Project::new(hanging);
    let (first, _) = holder.hang("");
    let project = Project::new(SUITE);
    let mut command = project.drover("run tiny");
    let mut waiting = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let who = line();
    assert!(
        who.starts_with(&format!(
            "waiting for another drover run: pid {}, for ",
            first.pid
        )),
        "{who}"
    );
    let how = line();
    assert_contains(&how, &["Ctrl-C ends the wait", "--no-wait", "--force"]);
    let pid = Pid::from_raw(waiting.id().cast_signed());
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(3));
    assert!(line().contains("nothing was measured"));
    assert!(project.log().is_empty(), "nothing was run");
    assert!(
        !project.path("bench-results").exists(),
        "nothing was stored"
    );

    let mut waiting = TerminalProgram::start(&project.drover("run tiny"), 24, 80);
    waiting.until("the seconds of the wait", |screen| {
        screen.lines().any(|line| {
            let seconds = line.strip_prefix("waiting for another drover run: ");
            seconds.is_some_and(|rest| rest.contains(" s, pid "))
        })
    });
    waiting.type_keys("\x03");
    assert_eq!(waiting.end().code(), Some(3), "{}", waiting.written());
    interrupt(&first);
    ends_with(&first.end(), 3);
}

#[test]
fn builds_of_daemons_are_shown_before_the_runs_and_one_that_fails_is_named_once() {
    let suite = "[driver]\n[suite]\ndaemons = ['a', 'b']\nlevels = [{ name = '5', set = {} }, { name = '10', set = {} }]\n";
    let project = Project::new(suite);
    let go = project.path("go");
    build_by(
        &project,
        "a",
        &format!(
            "echo linking it; until test -e {}; do sleep 0.1; done",
            go.display()
        ),
    );
    let remedy = project.path("remedy");
    build_by(
        &project,
        "b",
        &format!(
            "test -e {} || {{ echo no compiler here; exit 7; }}",
            remedy.display()
        ),
    );
    let arguments = "run tiny --force";
    let mut suite = TerminalProgram::start(&project.drover(arguments), 24, 100);
    suite.until("the last line of the build", |screen| {
        screen.contains("building a: ") && screen.contains(" s, linking it")
    });
    assert!(project.log().is_empty(), "no run begins before the builds");
    project.file("go", "");
    let status = suite.end();
    assert_eq!(status.code(), Some(1), "{}", suite.written());
    assert_eq!(project.log(), ["a/5/1", "a/10/1"]);
    let unreached = &project.record()["unreached"];
    assert_eq!(unreached.as_array().unwrap().len(), 2, "{unreached}");
    let reason = unreached[0]["reason"].as_str().unwrap();
    assert_contains(reason, &["building", "no compiler here"]);

    // The same command continues once the build works, and shows the builds in a log too.
    project.file("remedy", "");
    let continued = project.run("", 0);
    assert_contains(&messages(&continued), &["building b: sh -c"]);
    assert_eq!(project.log().len(), 4);
}

#[test]
fn ctrl_c_during_a_build_ends_the_suite_before_its_first_run() {
    let project = Project::new(SUITE);
    let pid = project.path("pid");
    let script = format!("echo $$ > {}; exec sleep 1000", pid.display());
    build_by(&project, "a", &script);
    let arguments = "run tiny --force";
    let suite = Started::spawn(&mut project.drover(arguments));
    let mut builder = None;
    wait_until("the build", || {
        let text = fs::read_to_string(&pid).unwrap_or_default();
        builder = text.trim().parse().ok().map(Pid::from_raw);
        builder.is_some()
    });
    interrupt(&suite);
    let output = suite.end();
    ends_with(&output, 3);
    assert!(messages(&output).contains("Interrupted"));
    assert!(project.log().is_empty());
    wait_until("the end of the build", || has_exited(builder.unwrap()));
}
