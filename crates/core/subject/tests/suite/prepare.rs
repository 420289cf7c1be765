//! What happens before a daemon is started: its tools, its build, and errors in its manifest.

use harness_testing::assert_contains;
use harness_testing::processes::wait_until;
use subject::daemon::{Daemon, DaemonError, Options};

use crate::project::{Project, script};

#[test]
fn a_missing_tool_is_named_with_the_remedy() {
    let project = Project::with(
        "needs-a-tool",
        &format!(
            "needs = [['drover-has-no-such-tool', '--version']]\n{}",
            script("exit 1")
        ),
    );
    let error = project.prepare("needs-a-tool").unwrap_err();
    assert!(
        matches!(&error, DaemonError::ToolMissing { tool, .. } if tool == "drover-has-no-such-tool"),
        "{error}"
    );
    assert_contains(&error.to_string(), &["no executable program", "install it"]);
    let project = Project::with(
        "needs-a-tool",
        &format!(
            "needs = [['sh', '-c', 'echo too old >&2; exit 4']]\n{}",
            script("exit 1")
        ),
    );
    let error = project.prepare("needs-a-tool").unwrap_err().to_string();
    assert_contains(&error, &["needs `sh`", "exited with status 4: too old"]);
}

#[test]
fn a_failed_build_shows_the_end_of_its_log_and_where_the_rest_is() {
    let build = "build = [['sh', '-c', 'echo first'], ['sh', '-c', 'echo error: no such symbol >&2; exit 2'], ['touch', '{dir}/third']]\n";
    let project = Project::with("does-not-build", &(build.to_owned() + &script("exit 1")));
    let error = project.prepare("does-not-build").unwrap_err();
    let DaemonError::StepFailed {
        problem,
        last_lines,
        log,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert!(
        problem.starts_with("`sh -c 'echo error") && problem.ends_with("` exited with status 2"),
        "{error}"
    );
    assert!(last_lines.ends_with("error: no such symbol"), "{error}");
    assert!(std::fs::read_to_string(log).unwrap().contains("first"));
    assert_contains(&error.to_string(), &[&log.display().to_string()]);
    assert!(!project.dir("does-not-build").join("third").exists());
}

#[tokio::test]
async fn a_build_runs_in_order_with_progress_and_what_it_built_is_run() {
    let manifest = "build = [['sh', '-c', 'echo $0 >{build}/word', 'built'], ['cp', '{build}/word', '{build}/copy']]\n\
                    version = ['sh', '-c', 'echo; echo one 1.2; echo more']\n\
                    run = ['sh', '-c', 'cat {build}/copy; pwd; exec sleep 1000']\nready = { line = 'built' }\ncwd = '{root}'";
    let project = Project::with("builds", manifest);
    let mut steps = Vec::new();
    let prepared = Daemon::prepare(project.root(), "builds", "test", &mut |step| {
        if step.elapsed.is_zero() {
            steps.push(format!("{}: {}", step.what, step.command.unwrap()));
        }
    })
    .unwrap();
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(
        steps[0].starts_with("building builds: sh -c ")
            && steps[1].starts_with("building builds: cp "),
        "{steps:?}"
    );
    assert_eq!(prepared.version(), Some("one 1.2"));
    let daemon = prepared.start(&[], &Options::default()).await.unwrap();
    assert_eq!(
        (daemon.name(), daemon.version()),
        ("builds", Some("one 1.2"))
    );
    let root = project.root().canonicalize().unwrap();
    wait_until("it says where it is", || {
        daemon.last_lines(1) == root.to_string_lossy()
    });
}

#[test]
fn an_unknown_daemon_and_one_of_another_protocol_name_those_that_would_do() {
    let project = Project::with("one", &script("exit 1"));
    project.add("two", &script("exit 1"));
    let error = project.prepare("three").unwrap_err();
    assert!(
        matches!(&error, DaemonError::UnknownDaemon { known, .. } if known == &["one", "two"]),
        "{error}"
    );
    assert_contains(&error.to_string(), &["known daemons: one, two"]);
    assert!(matches!(
        project.prepare("../one"),
        Err(DaemonError::UnknownDaemon { .. })
    ));
    std::fs::write(
        project.dir("one").join("daemon.toml"),
        format!("about = ''\nserves = ['amqp']\n{}", script("exit 1")),
    )
    .unwrap();
    let error = project.prepare("one").unwrap_err();
    assert!(
        matches!(&error, DaemonError::OtherProtocol { known, .. } if known == &["two"]),
        "{error}"
    );
    assert_contains(&error.to_string(), &["serves amqp, not test"]);
}

#[test]
fn an_unknown_placeholder_is_found_before_anything_runs() {
    let project = Project::with("misspelt", &script("touch {dir}/ran; echo {sokcet}"));
    let error = project.prepare("misspelt").unwrap_err();
    assert!(matches!(error, DaemonError::BadManifest(_)), "{error}");
    for part in ["misspelt/daemon.toml", "`run`", "{sokcet}", "{socket}"] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in: {error}"
        );
    }
    assert!(!project.dir("misspelt").join("ran").exists());
}
