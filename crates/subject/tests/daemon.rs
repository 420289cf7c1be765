//! Tests the launcher with daemons that misbehave: real processes, each in its own project.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept, bind, listen, socket,
};
use nix::unistd::Pid;
use subject::daemon::{Daemon, DaemonError, Options, Prepared, StopReport, Stopped};

#[path = "support/processes.rs"]
mod processes;

use processes::{is_alive, wait_for_pids, wait_until};

/// A project with daemons, in a temporary directory.
struct Project {
    root: tempfile::TempDir,
}

impl Project {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates a project with one daemon, `name`, that serves `test`.
    fn with(name: &str, manifest: &str) -> Self {
        let project = Self::new();
        project.add(name, manifest);
        project
    }

    fn add(&self, name: &str, manifest: &str) {
        std::fs::create_dir_all(self.dir(name)).unwrap();
        std::fs::write(
            self.dir(name).join("daemon.toml"),
            format!("about = 'a test'\nserves = ['test']\n{manifest}"),
        )
        .unwrap();
    }

    fn dir(&self, name: &str) -> PathBuf {
        self.root.path().join("daemons").join(name)
    }

    fn prepare(&self, name: &str) -> Result<Prepared, DaemonError> {
        Daemon::prepare(self.root.path(), name, "test", &mut |_| {})
    }

    async fn start(&self, name: &str) -> Result<Daemon, DaemonError> {
        self.prepare(name)?.start(&[], &Options::default()).await
    }
}

/// Returns a manifest that runs a shell script, ready when that writes `ready`.
fn script(text: &str) -> String {
    format!("run = ['sh', '-c', '''{text}''']\nready = {{ line = 'ready', timeout = '60s' }}\n")
}

/// Returns a manifest that runs one of the [`roles`] below.
fn role(name: &str, ready: &str) -> String {
    let exe = std::env::current_exe().unwrap();
    format!(
        "run = ['{}', '--exact', 'plays_the_role_that_the_environment_names', '--nocapture']\n\
         env = {{ DROVER_TEST_ROLE = '{name}', SOCKET = '{{socket}}', PORT = '{{port}}' }}\nready = {ready}\n",
        exe.display()
    )
}

#[tokio::test]
async fn a_daemon_that_exits_at_once_is_reported_with_its_status_and_last_lines() {
    let project = Project::with(
        "exits-at-once",
        &script("echo to stdout; echo the disk is full >&2; exit 3"),
    );
    let error = project.start("exits-at-once").await.unwrap_err();
    let DaemonError::ExitedEarly {
        status, last_lines, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (status.as_str(), last_lines.as_str()),
        ("exited with status 3", "to stdout\nthe disk is full")
    );
    for part in [
        "exits-at-once",
        "exited with status 3",
        "| the disk is full",
        "started as: sh -c",
    ] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in: {error}"
        );
    }
}

#[tokio::test]
async fn a_daemon_that_is_killed_before_it_is_ready_is_reported_with_the_signal() {
    let project = Project::with("kills-itself", &script("kill -s SEGV $$; exec sleep 1000"));
    let error = project.start("kills-itself").await.unwrap_err().to_string();
    assert!(
        error.contains("was killed by SIGSEGV before it was ready")
            && error.contains("it wrote nothing"),
        "{error}"
    );
}

#[tokio::test]
async fn a_daemon_that_is_never_ready_is_killed_and_the_error_says_what_was_waited_for() {
    let manifest = "run = ['sh', '-c', 'echo $$ >{dir}/pids; echo still thinking; sleep 1000; exit']\nready = { unix = '{socket}', timeout = '60s' }";
    let project = Project::with("never-ready", manifest);
    let prepared = project.prepare("never-ready").unwrap();
    let options = Options {
        ready_timeout: Some(Duration::from_millis(700)),
        ..Options::default()
    };
    let error = prepared.start(&[], &options).await.unwrap_err();
    let DaemonError::NotReady {
        waited_for, limit, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*limit, Duration::from_millis(700));
    assert!(
        waited_for.contains("daemon.sock") && waited_for.contains("No such file"),
        "{waited_for}"
    );
    assert!(
        error.to_string().contains("within 700ms") && error.to_string().contains("`timeout`"),
        "{error}"
    );
    // The script had written its id when it was killed, or was killed before it could.
    let pids = std::fs::read_to_string(project.dir("never-ready").join("pids")).unwrap_or_default();
    assert!(
        pids.trim().parse().is_ok_and(|pid| !is_alive(pid)) || pids.is_empty(),
        "{pids}"
    );
}

#[tokio::test]
async fn every_kind_of_probe_says_what_it_waited_for() {
    for (ready, expected) in [
        ("{ tcp = '127.0.0.1:{port}' }", "a connection to 127.0.0.1:"),
        (
            "{ http = 'http://127.0.0.1:{port}/healthz' }",
            "/healthz, last: ",
        ),
        (
            "{ line = 'listening on' }",
            "the text \"listening on\" in its output",
        ),
    ] {
        let project = Project::with(
            "silent",
            &format!("run = ['sleep', '1000']\nready = {ready}"),
        );
        let options = Options {
            ready_timeout: Some(Duration::from_millis(20)),
            ..Options::default()
        };
        let error = project
            .prepare("silent")
            .unwrap()
            .start(&[], &options)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(expected) && error.contains("within 20ms"),
            "{error}"
        );
    }
}

/// A command that writes its number of starts, its group and its port, and stays alive with a child.
const COUNTED: &str = "run = ['sh', '-c', 'echo >>{scratch}/starts; sleep 1000 & echo start $(wc -l <{scratch}/starts) port {port}; echo $! >>{scratch}/pids; echo $$ >>{scratch}/pids; wait']\nready = { line = 'start', timeout = '60s' }";

#[tokio::test]
async fn a_daemon_started_again_keeps_its_ports_its_directory_and_its_log() {
    let project = Project::with("counted", COUNTED);
    let mut daemon = project.start("counted").await.unwrap();
    let scratch = daemon.log_path().parent().unwrap().to_owned();
    let first = wait_for_pids(&scratch.join("pids"), 2);
    let (port, pid) = (daemon.endpoint().port.unwrap(), daemon.pid());
    assert!(!daemon.is_over());
    daemon.signal(Signal::SIGKILL);
    wait_until("it is over, with its child", || daemon.is_over());
    assert!(!first.iter().any(|pid| is_alive(*pid)));
    daemon.start_again().unwrap();
    assert!(daemon.readiness().await, "its new line, not the old one");
    assert_ne!(daemon.pid(), pid);
    let second = wait_for_pids(&scratch.join("pids"), 4);
    wait_until("both starts stand in the log", || {
        daemon.last_lines(9) == format!("start 1 port {port}\nstart 2 port {port}")
    });
    assert_eq!(daemon.own_pids().len(), 2, "the process and its guard");
    drop(daemon);
    wait_until("nothing of it is left", || {
        !second.iter().any(|pid| is_alive(*pid)) && !scratch.exists()
    });
}

#[tokio::test]
async fn a_daemon_that_does_not_come_back_is_not_ready_by_what_it_said_before() {
    let manifest = "run = ['sh', '-c', '[ -e {scratch}/again ] || echo ready; touch {scratch}/again; exec sleep 1000']\nready = { line = 'ready', timeout = '1s' }";
    let project = Project::with("once", manifest);
    let mut daemon = project.start("once").await.unwrap();
    wait_until("it has left its mark", || {
        daemon.log_path().with_file_name("again").exists()
    });
    daemon.signal(Signal::SIGKILL);
    wait_until("it is over", || daemon.is_over());
    daemon.start_again().unwrap();
    assert!(!daemon.readiness().await);
}

#[tokio::test]
async fn a_daemon_that_obeys_is_terminated_and_says_goodbye() {
    let project = Project::with(
        "obeys",
        &script("trap 'echo goodbye; exit 0' TERM; echo ready; while :; do sleep 0.01; done"),
    );
    let mut daemon = project.start("obeys").await.unwrap();
    assert_eq!(daemon.try_exit(), None);
    let pid = daemon.pid().cast_signed();
    assert!(is_alive(pid));
    let report = daemon.stop().await;
    assert!(
        matches!(
            report,
            StopReport {
                how: Stopped::Terminated,
                left: 0,
                ..
            }
        ),
        "{report:?}"
    );
    assert_eq!(report.status, "exited with status 0");
    assert_eq!(daemon.last_lines(1), "goodbye");
    assert!(!is_alive(pid));
    let again = daemon.stop().await;
    assert_eq!(
        (again.how, again.status),
        (Stopped::AlreadyDead, report.status)
    );
}

#[tokio::test]
async fn a_daemon_that_ignores_the_signal_is_killed_after_the_grace_time() {
    let manifest = script("trap '' TERM; echo ready; while :; do sleep 0.1; done")
        + "stop = { grace = '200ms' }";
    let project = Project::with("ignores-term", &manifest);
    let mut daemon = project.start("ignores-term").await.unwrap();
    let report = daemon.stop().await;
    assert_eq!(
        (report.how, report.left, report.status.as_str()),
        (Stopped::Killed, 0, "was killed by SIGKILL")
    );
    assert!(report.took >= Duration::from_millis(200), "{report:?}");
}

#[tokio::test]
async fn the_manifest_chooses_the_signal() {
    let manifest =
        script("trap '' TERM; trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done");
    let project = Project::with(
        "wants-usr1",
        &(manifest + "stop = { signal = 'USR1', grace = '60s' }"),
    );
    let report = project.start("wants-usr1").await.unwrap().stop().await;
    assert_eq!(
        (report.how, report.status.as_str()),
        (Stopped::Terminated, "exited with status 7")
    );
}

#[tokio::test]
async fn a_stopped_daemon_can_be_terminated() {
    let text = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let project = Project::with("is-stopped", &(script(text) + "stop = { grace = '10s' }"));
    let mut daemon = project.start("is-stopped").await.unwrap();
    kill(Pid::from_raw(daemon.pid().cast_signed()), Signal::SIGSTOP).unwrap();
    let report = daemon.stop().await;
    assert_eq!(
        (report.how, report.status.as_str()),
        (Stopped::Terminated, "exited with status 0")
    );
}

#[tokio::test]
async fn a_forked_child_that_outlives_its_parent_is_killed_too() {
    let child = "sh -c \"trap '' TERM; echo \\$\\$ >>{dir}/pids; while :; do sleep 0.1; done\" & while ! [ -s {dir}/pids ]; do sleep 0.01; done";
    let manifest =
        script(&format!("{child}; echo ready; exec sleep 1000")) + "stop = { grace = '200ms' }";
    let project = Project::with("forks", &manifest);
    let mut daemon = project.start("forks").await.unwrap();
    let pids = wait_for_pids(&project.dir("forks").join("pids"), 1);
    assert!(is_alive(pids[0]));
    let report = daemon.stop().await;
    assert_eq!(
        (report.how, report.left, report.status.as_str()),
        (Stopped::Killed, 0, "was killed by SIGTERM")
    );
    assert!(!is_alive(pids[0]));
}

#[tokio::test]
async fn a_forked_child_has_the_grace_time_to_finish_its_work() {
    let child = "sh -c \"trap '' TERM; echo up >{dir}/up; while ! [ -e {dir}/finish ]; do sleep 0.01; done; echo done >{dir}/done\"";
    let text = format!(
        "{child} & while ! [ -s {{dir}}/up ]; do sleep 0.01; done; trap 'echo >{{dir}}/finish; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    );
    let project = Project::with("drains", &(script(&text) + "stop = { grace = '60s' }"));
    let report = project.start("drains").await.unwrap().stop().await;
    assert_eq!((report.how, report.left), (Stopped::Terminated, 0));
    assert_eq!(
        std::fs::read_to_string(project.dir("drains").join("done")).unwrap(),
        "done\n"
    );
}

#[tokio::test]
async fn dropping_a_daemon_kills_it_and_its_children() {
    let text = "sleep 1000 & echo $! >>{dir}/pids; echo $$ >>{dir}/pids; echo ready; wait";
    let project = Project::with("dropped", &script(text));
    let daemon = project.start("dropped").await.unwrap();
    let scratch = daemon.log_path().parent().unwrap().to_owned();
    let pids = wait_for_pids(&project.dir("dropped").join("pids"), 2);
    assert!(pids.iter().all(|pid| is_alive(*pid)) && scratch.exists());
    drop(daemon);
    wait_until("both are gone", || !pids.iter().any(|pid| is_alive(*pid)));
    assert!(!scratch.exists());
}

#[tokio::test]
async fn a_daemon_that_dies_by_itself_is_noticed_with_its_last_words() {
    let project = Project::with(
        "dies",
        &script(
            "echo ready; while ! [ -e {dir}/die ]; do sleep 0.01; done; echo out of memory >&2; exit 9",
        ),
    );
    let mut daemon = project.start("dies").await.unwrap();
    {
        let exited = daemon.exited();
        tokio::pin!(exited);
        assert!(
            tokio::time::timeout(Duration::from_millis(50), &mut exited)
                .await
                .is_err()
        );
        std::fs::write(project.dir("dies").join("die"), "").unwrap();
        let status = tokio::time::timeout(Duration::from_secs(60), exited)
            .await
            .unwrap();
        assert_eq!(status, "exited with status 9");
    }
    assert_eq!(daemon.try_exit().as_deref(), Some("exited with status 9"));
    assert_eq!(daemon.last_lines(1), "out of memory");
    let report = daemon.stop().await;
    assert_eq!(
        (report.how, report.status.as_str(), report.left),
        (Stopped::AlreadyDead, "exited with status 9", 0)
    );
}

#[tokio::test]
async fn a_flood_on_stderr_neither_blocks_nor_fills_memory_or_disk() {
    let text = "yes 'a line of noise' | head -c 300000000 >&2; echo ready; exec sleep 1000";
    let project = Project::with("floods", &script(text));
    let options = Options {
        log_limit: 1 << 20,
        ..Options::default()
    };
    let mut daemon = project
        .prepare("floods")
        .unwrap()
        .start(&[], &options)
        .await
        .unwrap();
    let shortened = async {
        while std::fs::metadata(daemon.log_path()).unwrap().len() > options.log_limit {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), shortened)
        .await
        .unwrap();
    assert_eq!(daemon.last_lines(1), "ready");
    assert!(
        std::fs::read_to_string(daemon.log_path())
            .unwrap()
            .contains("bytes above this line were dropped")
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak_kb: u64 = status
        .split("VmHWM:")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        peak_kb < 200_000,
        "the flood of 300 MB went through memory: {peak_kb} kB"
    );
    daemon.stop().await;
}

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
    assert!(
        error.to_string().contains("no executable program")
            && error.to_string().contains("install it"),
        "{error}"
    );
    let project = Project::with(
        "needs-a-tool",
        &format!(
            "needs = [['sh', '-c', 'echo too old >&2; exit 4']]\n{}",
            script("exit 1")
        ),
    );
    let error = project.prepare("needs-a-tool").unwrap_err().to_string();
    assert!(
        error.contains("needs `sh`") && error.contains("exited with status 4: too old"),
        "{error}"
    );
}

#[test]
fn a_failed_build_shows_the_end_of_its_log_and_where_the_rest_is() {
    let build = "build = [['sh', '-c', 'echo first'], ['sh', '-c', 'echo error: no such symbol >&2; exit 2'], ['touch', '{dir}/third']]\n";
    let project = Project::with("does-not-build", &(build.to_owned() + &script("exit 1")));
    let error = project.prepare("does-not-build").unwrap_err();
    let DaemonError::BuildFailed {
        status,
        last_lines,
        log,
        command,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(status, "exited with status 2");
    assert!(
        last_lines.ends_with("error: no such symbol") && command.starts_with("sh -c 'echo error"),
        "{error}"
    );
    assert!(std::fs::read_to_string(log).unwrap().contains("first"));
    assert!(
        error.to_string().contains(&log.display().to_string()),
        "{error}"
    );
    assert!(!project.dir("does-not-build").join("third").exists());
}

#[tokio::test]
async fn a_build_runs_in_order_with_progress_and_what_it_built_is_run() {
    let manifest = "build = [['sh', '-c', 'echo $0 >{build}/word', 'built'], ['cp', '{build}/word', '{build}/copy']]\n\
                    version = ['sh', '-c', 'echo; echo one 1.2; echo more']\n\
                    run = ['sh', '-c', 'cat {build}/copy; pwd; exec sleep 1000']\nready = { line = 'built' }\ncwd = '{root}'";
    let project = Project::with("builds", manifest);
    let mut steps = Vec::new();
    let prepared = Daemon::prepare(project.root.path(), "builds", "test", &mut |step| {
        steps.push(step.to_owned())
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
    let root = project.root.path().canonicalize().unwrap();
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
    assert!(
        error.to_string().contains("known daemons: one, two"),
        "{error}"
    );
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
    assert!(
        error.to_string().contains("serves amqp, not test"),
        "{error}"
    );
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

/// Creates a project whose commands leave a mark when they run.
fn marking() -> Project {
    let manifest = "needs = [['sh', '-c', 'echo >>{root}/ran']]\nversion = ['{dir}/version']\n";
    let project = Project::with("marks", &(manifest.to_owned() + &script("exit 1")));
    std::fs::write(project.dir("marks").join("version"), "").unwrap();
    project
}

/// Prepares the daemon of [`marking`], which must be refused before anything runs; returns the message.
fn refused_as_foreign(project: &Project) -> String {
    let error = project.prepare("marks").unwrap_err();
    assert!(matches!(error, DaemonError::BadManifest(_)), "{error}");
    let error = Daemon::check_tools(project.root.path(), "marks").unwrap_err();
    assert!(!project.root.path().join("ran").exists(), "{error}");
    error.to_string()
}

#[test]
fn what_others_may_write_is_refused_before_any_of_its_commands_runs() {
    use std::os::unix::fs::PermissionsExt as _;
    for (path, mode, plain) in [
        ("", 0o777, 0o755),
        ("daemons", 0o777, 0o755),
        ("daemons/marks", 0o777, 0o755),
        ("daemons/marks/daemon.toml", 0o666, 0o644),
        ("daemons/marks/version", 0o757, 0o755),
    ] {
        let project = marking();
        // Without the `/` that joining an empty path leaves at the end.
        let path: PathBuf = project.root.path().join(path).components().collect();
        let set = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap();
        };
        set(mode);
        let said = refused_as_foreign(&project);
        for part in ["may be written by every user", "chmod go-w", "DROVER_ROOT"] {
            assert!(said.contains(part), "{part:?} is not in: {said}");
        }
        assert!(said.contains(&path.display().to_string()), "{said}");
        set(plain);
        let _ = project.prepare("marks");
        assert!(project.root.path().join("ran").exists());
    }
}

#[test]
fn a_link_to_a_folder_that_others_may_write_is_refused_as_that_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = marking();
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("marks");
    std::fs::rename(project.dir("marks"), &target).unwrap();
    std::os::unix::fs::symlink(&target, project.dir("marks")).unwrap();
    let permissions = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&target, permissions).unwrap();
    let said = refused_as_foreign(&project);
    assert!(said.starts_with(&target.display().to_string()), "{said}");
}

#[test]
fn what_belongs_to_another_user_is_refused_unless_that_user_is_trusted_by_number() {
    let owner = nix::unistd::Uid::from_raw(4711);
    if !nix::unistd::geteuid().is_root() {
        let required = std::env::var_os("DROVER_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(!required, "only root can give a file to another user");
        let _ = writeln!(
            std::io::stderr(),
            "skipped: only root can give a file to another user"
        );
        return;
    }
    for path in [
        "",
        "daemons",
        "daemons/marks",
        "daemons/marks/daemon.toml",
        "daemons/marks/version",
    ] {
        let project = marking();
        let path = project.root.path().join(path);
        nix::unistd::chown(&path, Some(owner), None).unwrap();
        let said = refused_as_foreign(&project);
        for part in ["belongs to user 4711", "DROVER_TRUST_UID=4711", "chown"] {
            assert!(said.contains(part), "{part:?} is not in: {said}");
        }
        let trusting = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "plays_the_role_that_the_environment_names",
                "--nocapture",
            ])
            .env("DROVER_TEST_ROLE", "preparer")
            .env("DROVER_TEST_ROOT", project.root.path())
            .env("DROVER_TRUST_UID", "4711")
            .output()
            .unwrap();
        assert!(trusting.status.success());
        assert!(project.root.path().join("ran").exists());
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let project = Project::with(
        "no-program",
        "run = ['{build}/nothing']\nready = { line = 'x' }",
    );
    let error = project.start("no-program").await.unwrap_err();
    assert!(
        matches!(error, DaemonError::Io { .. }) && error.to_string().contains("starting `"),
        "{error}"
    );
    assert!(error.to_string().contains("/nothing`"), "{error}");
}

#[tokio::test]
async fn a_daemon_sees_only_the_listed_environment() {
    let manifest = "env = { OWN = 'of {port}', BOTH = 'manifest' }\n".to_owned()
        + &script("env | sort; echo ready; exec sleep 1000");
    let project = Project::with("environment", &manifest);
    let extra = [("BOTH".to_owned(), "extra".to_owned())];
    let daemon = project
        .prepare("environment")
        .unwrap()
        .start(&extra, &Options::default())
        .await
        .unwrap();
    let log = std::fs::read_to_string(daemon.log_path()).unwrap();
    let names: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    // The last three are set by the shell itself.
    let allowed = [
        "PATH", "HOME", "LANG", "TZ", "TMPDIR", "OWN", "BOTH", "PWD", "OLDPWD", "SHLVL", "_",
    ];
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    assert!(
        log.contains("BOTH=extra\n")
            && log.contains(&format!("OWN=of {}\n", daemon.endpoint().port.unwrap())),
        "{log}"
    );
    assert!(
        std::env::vars().any(|(name, _)| !allowed.contains(&name.as_str())),
        "the test's own environment is too small to show it"
    );
}

#[tokio::test]
async fn the_commands_beside_run_see_the_listed_environment_and_what_the_manifest_names() {
    let manifest = "needs = [['sh', '-c', 'env >{build}/needs']]\n\
                    build = [['sh', '-c', 'env >{build}/build']]\n\
                    test = [['sh', '-c', 'env >{build}/test']]\n\
                    version = ['sh', '-c', 'env >{build}/version; echo 1']\n\
                    env = { OWN = 'of {dir}', OF_A_RUN = '{port}' }\npass_env = ['CARGO_PKG_NAME']\n"
        .to_owned()
        + &script("env | sort; echo ready; exec sleep 1000");
    let project = Project::with("environments", &manifest);
    let prepared = project.prepare("environments").unwrap();
    let log = prepared.test().unwrap();
    let daemon = prepared.start(&[], &Options::default()).await.unwrap();
    let seen = ["needs", "build", "test", "version"]
        .map(|command| log.with_file_name(command))
        .into_iter()
        .chain([daemon.log_path().to_owned()]);
    for (place, file) in seen.enumerate() {
        let text = std::fs::read_to_string(&file).unwrap();
        let has = |line: &str| text.lines().any(|it| it == line);
        let starts = |name: &str| text.lines().any(|line| line.starts_with(name));
        let own = format!("OWN=of {}", project.dir("environments").display());
        assert!(has(&own), "{}: {text}", file.display());
        // Set by the caller of this test, and passed on by name or not at all.
        assert!(has("CARGO_PKG_NAME=subject"), "{}: {text}", file.display());
        assert!(!starts("CARGO_MANIFEST_DIR"), "{}: {text}", file.display());
        let is_of_run = place == 4;
        assert_eq!(starts("OF_A_RUN="), is_of_run, "{}: {text}", file.display());
        assert_eq!(starts("CARGO_TARGET_DIR="), !is_of_run, "{text}");
    }
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
}

#[tokio::test]
async fn a_unix_socket_of_either_type_is_probed() {
    for kind in ["seqpacket", "stream"] {
        let project = Project::with(kind, &role(kind, "{ unix = '{socket}', timeout = '60s' }"));
        let mut daemon = project.start(kind).await.unwrap();
        let socket = daemon.endpoint().socket.clone().unwrap();
        assert!(socket.exists() && daemon.endpoint().port.is_some());
        // The probe connects and closes: nothing comes after it.
        wait_until("the probe was seen", || daemon.last_lines(1) == "0 bytes");
        daemon.stop().await;
        assert!(!is_alive(daemon.pid().cast_signed()));
    }
}

#[tokio::test]
async fn an_http_probe_waits_for_a_good_status_and_the_metrics_can_be_scraped() {
    let manifest = role(
        "http",
        "{ http = 'http://127.0.0.1:{port}/healthz', timeout = '60s' }",
    );
    let project = Project::with(
        "http",
        &(manifest + "metrics = 'http://127.0.0.1:{port}/metrics'"),
    );
    let daemon = project.start("http").await.unwrap();
    let values = subject::gauges::scrape(daemon.endpoint().metrics.as_deref().unwrap())
        .await
        .unwrap();
    // Three refused probes, one answered probe, and this request.
    assert_eq!(values["requests"], 5.0);
}

#[tokio::test]
async fn a_tcp_probe_and_two_runs_at_once_have_ports_and_directories_of_their_own() {
    let project = Project::with(
        "tcp",
        &role("http", "{ tcp = '127.0.0.1:{port}', timeout = '60s' }"),
    );
    let prepared = project.prepare("tcp").unwrap();
    let one = prepared.start(&[], &Options::default()).await.unwrap();
    let two = prepared.start(&[], &Options::default()).await.unwrap();
    assert_ne!(one.endpoint().port, two.endpoint().port);
    assert_ne!(one.log_path(), two.log_path());
    assert!(one.try_exit().is_none() && two.try_exit().is_none());
}

#[tokio::test]
async fn the_scratch_directory_stays_on_request() {
    let project = Project::with("kept", &script("echo ready; exec sleep 1000"));
    let options = Options {
        keep_scratch: true,
        ..Options::default()
    };
    let daemon = project
        .prepare("kept")
        .unwrap()
        .start(&[], &options)
        .await
        .unwrap();
    let log = daemon.log_path().to_owned();
    drop(daemon);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ready\n");
    std::fs::remove_dir_all(log.parent().unwrap()).unwrap();
}

/// A harness in its own process, with a daemon that has forked a child.
struct Orphanage {
    harness: Child,
    /// The daemon and its child.
    pids: Vec<i32>,
    guards: Vec<i32>,
    scratch: PathBuf,
}

impl Orphanage {
    fn start(project: &Project) -> Self {
        let harness = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "plays_the_role_that_the_environment_names",
                "--nocapture",
            ])
            .env("DROVER_TEST_ROLE", "harness")
            .env("DROVER_TEST_ROOT", project.root.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = project.dir("orphaned").join("started");
        wait_until("the harness has started its daemon", || started.exists());
        let pids = wait_for_pids(&project.dir("orphaned").join("pids"), 2);
        let guards = wait_for_pids(&started, 1);
        let scratch = std::fs::read_to_string(project.dir("orphaned").join("scratch")).unwrap();
        let scratch = PathBuf::from(scratch.trim());
        assert!(pids.iter().chain(&guards).all(|pid| is_alive(*pid)) && scratch.exists());
        Self {
            harness,
            pids,
            guards,
            scratch,
        }
    }

    fn kill_harness(&mut self) {
        self.harness.kill().unwrap();
        self.harness.wait().unwrap();
    }
}

const ORPHANED: &str = "echo $$ >>{dir}/pids; sleep 1000 & echo $! >>{dir}/pids; echo {scratch} >{dir}/scratch; echo ready; wait";

#[test]
fn a_daemon_its_children_and_its_directory_go_with_a_harness_that_is_killed() {
    let project = Project::with("orphaned", &script(ORPHANED));
    let mut orphanage = Orphanage::start(&project);
    orphanage.kill_harness();
    let Orphanage {
        pids,
        guards,
        scratch,
        ..
    } = orphanage;
    wait_until("the daemon, its child and the guard are gone", || {
        !pids.iter().chain(&guards).any(|pid| is_alive(*pid))
    });
    assert!(!scratch.exists());
}

#[test]
fn a_daemon_dies_with_a_killed_harness_even_without_its_guard() {
    let project = Project::with("orphaned", &script(ORPHANED));
    let mut orphanage = Orphanage::start(&project);
    kill(Pid::from_raw(orphanage.guards[0]), Signal::SIGKILL).unwrap();
    wait_until("the guard is gone", || !is_alive(orphanage.guards[0]));
    assert!(is_alive(orphanage.pids[0]));
    orphanage.kill_harness();
    wait_until("the daemon is gone", || !is_alive(orphanage.pids[0]));
    // Without the guard, nothing kills the child.
    let _ = kill(Pid::from_raw(orphanage.pids[1]), Signal::SIGKILL);
    std::fs::remove_dir_all(orphanage.scratch).unwrap();
}

/// A build with a child, as cargo has compilers.
const BUILT: &str = "build = [['sh', '-c', 'echo $$ >>{dir}/pids; sleep 1000 & echo $! >>{dir}/pids; wait']]\nrun = ['true']\nready = { line = 'up' }\n";

#[test]
fn a_build_and_its_children_go_with_a_harness_that_is_killed() {
    let project = Project::with("built", BUILT);
    let mut harness = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "plays_the_role_that_the_environment_names",
            "--nocapture",
        ])
        .env("DROVER_TEST_ROLE", "builder")
        .env("DROVER_TEST_ROOT", project.root.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pids = wait_for_pids(&project.dir("built").join("pids"), 2);
    harness.kill().unwrap();
    harness.wait().unwrap();
    wait_until("the build and its child are gone", || {
        !pids.iter().any(|pid| is_alive(*pid))
    });
}

/// Plays a role for other tests, which run this file again to get a daemon or a harness; it is not a test by itself.
#[test]
fn plays_the_role_that_the_environment_names() {
    match std::env::var("DROVER_TEST_ROLE").as_deref() {
        Ok("seqpacket") => roles::listen_on_a_unix_socket(SockType::SeqPacket),
        Ok("stream") => roles::listen_on_a_unix_socket(SockType::Stream),
        Ok("http") => roles::serve_http(),
        Ok("preparer") => roles::prepare_what_is_trusted(),
        Ok("harness") => roles::start_a_daemon_and_wait_to_be_killed(),
        Ok("builder") => roles::build_a_daemon_and_wait_to_be_killed(),
        _ => {}
    }
}

mod roles {
    use super::*;
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

    /// Reports the number of bytes on each connection.
    pub(super) fn listen_on_a_unix_socket(kind: SockType) {
        let path = std::env::var("SOCKET").unwrap();
        let listener = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(
            listener.as_raw_fd(),
            &UnixAddr::new(Path::new(&path)).unwrap(),
        )
        .unwrap();
        listen(&listener, Backlog::new(8).unwrap()).unwrap();
        loop {
            let connection = accept(listener.as_raw_fd()).unwrap();
            // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
            #[expect(unsafe_code, reason = "nix's accept returns a bare descriptor")]
            let mut connection = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(connection) });
            let bytes = connection.read_to_end(&mut Vec::new()).unwrap();
            println_raw(&format!("{bytes} bytes"));
        }
    }

    /// Refuses the first three requests, then answers with the number of requests.
    pub(super) fn serve_http() {
        let port: u16 = std::env::var("PORT").unwrap().parse().unwrap();
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
        for requests in 1.. {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            // A TCP probe sends nothing.
            if stream.read(&mut request).unwrap_or(0) == 0 {
                continue;
            }
            let status = if requests <= 3 {
                "503 Service Unavailable"
            } else {
                "200 OK"
            };
            let body = format!("requests {requests}\n");
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    }

    /// Prepares the daemon; its tools are checked whatever comes of the rest.
    pub(super) fn prepare_what_is_trusted() {
        let root = PathBuf::from(std::env::var("DROVER_TEST_ROOT").unwrap());
        let _ = Daemon::prepare(&root, "marks", "test", &mut |_| {});
    }

    pub(super) fn start_a_daemon_and_wait_to_be_killed() {
        let root = PathBuf::from(std::env::var("DROVER_TEST_ROOT").unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let prepared = Daemon::prepare(&root, "orphaned", "test", &mut |_| {}).unwrap();
            let daemon = prepared.start(&[], &Options::default()).await.unwrap();
            let guards = daemon
                .own_pids()
                .iter()
                .skip(1)
                .map(|pid| format!("{pid}\n"))
                .collect::<String>();
            let half_written = root.join("daemons/orphaned/half-written");
            std::fs::write(&half_written, guards).unwrap();
            std::fs::rename(&half_written, root.join("daemons/orphaned/started")).unwrap();
            daemon.exited().await;
        });
    }

    pub(super) fn build_a_daemon_and_wait_to_be_killed() {
        let root = PathBuf::from(std::env::var("DROVER_TEST_ROOT").unwrap());
        let _ = Daemon::prepare(&root, "built", "test", &mut |_| {});
    }

    /// Prints a line that the test runner does not capture, as it captures `println!`.
    fn println_raw(line: &str) {
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{line}").unwrap();
        stdout.flush().unwrap();
    }
}
