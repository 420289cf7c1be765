//! The end of a daemon: its signal and grace time, its children, its own death, and its return.

use std::time::Duration;

use harness_testing::processes::{is_running, wait_for_pids, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use subject::daemon::{StopReport, Stopped};

use crate::project::{Project, script};

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
    assert!(!first.iter().any(|pid| is_running(*pid)));
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
        !second.iter().any(|pid| is_running(*pid)) && !scratch.exists()
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
    assert!(is_running(pid));
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
    assert!(!is_running(pid));
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
    assert!(is_running(pids[0]));
    let report = daemon.stop().await;
    assert_eq!(
        (report.how, report.left, report.status.as_str()),
        (Stopped::Killed, 0, "was killed by SIGTERM")
    );
    assert!(!is_running(pids[0]));
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
    assert!(pids.iter().all(|pid| is_running(*pid)) && scratch.exists());
    drop(daemon);
    wait_until("both are gone", || !pids.iter().any(|pid| is_running(*pid)));
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
