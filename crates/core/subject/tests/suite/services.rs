//! Services: servers that the instances of a daemon share.

use std::process::Command;

use harness_testing::assert_contains;
use harness_testing::processes::{is_running, wait_for_pids, wait_until};
use harness_testing::skip;
use nix::sys::signal::Signal;
use subject::daemon::{Daemon, DaemonError, Options};

use crate::project::{Project, script};

/// A service that writes what it was given, and stays alive with a child.
const SHARED: &str = "[services.shared]\n\
    version = ['echo', 'shared 1.2']\n\
    run = ['sh', '-c', 'sleep 1000 & echo $! >>{scratch}/pids; echo $$ >>{scratch}/pids; echo up {port} {port2} {socket}; wait']\n\
    ready = { line = 'up', timeout = '60s' }\n";

/// A daemon that writes what it knows of the service.
fn user() -> String {
    let text = "echo $SHARED_PORT {shared.port2} {shared.socket} {shared.scratch} {port}; echo ready; exec sleep 1000";
    format!(
        "{}env = {{ SHARED_PORT = '{{shared.port}}' }}\n{SHARED}",
        script(text)
    )
}

/// Returns the first line of a daemon's output.
fn first_line(daemon: &Daemon) -> String {
    let lines = daemon.last_lines(9);
    lines.lines().next().unwrap_or_default().to_owned()
}

fn pids(service: &Daemon) -> Vec<i32> {
    wait_for_pids(&service.log_path().with_file_name("pids"), 2)
}

#[tokio::test]
async fn instances_share_a_service_and_know_its_ports_its_socket_and_its_folder() {
    let project = Project::with("user", &user());
    let prepared = project.prepare("user").unwrap();
    let options = Options::default();
    let services = prepared.start_services(&options).await.unwrap();
    let one = prepared.start_with(&services, &[], &options).await.unwrap();
    let two = prepared.start_with(&services, &[], &options).await.unwrap();
    let [shared] = services.as_slice() else {
        panic!("{services:?}")
    };
    assert_eq!(shared.name(), "shared");
    assert_eq!(shared.version(), Some("shared 1.2"));
    let scratch = shared.log_path().parent().unwrap();
    let given = first_line(shared);
    let known = format!("{} {}", given.trim_start_matches("up "), scratch.display());
    for daemon in [&one, &two] {
        let port = daemon.endpoint().port.unwrap();
        assert_eq!(first_line(daemon), format!("{known} {port}"));
        assert_ne!(Some(port), shared.endpoint().port);
        assert_ne!(daemon.pid(), shared.pid(), "a process group of its own");
        assert!(daemon.services().is_empty(), "nobody starts another");
    }
}

#[tokio::test]
async fn a_daemon_that_is_launched_alone_has_its_own_service_and_stops_it() {
    let project = Project::with("user", &user());
    let mut daemon = project.start("user").await.unwrap();
    let [shared] = daemon.services() else {
        panic!("{daemon:?}")
    };
    let pids = pids(shared);
    assert!(pids.iter().all(|pid| is_running(*pid)));
    assert!(daemon.own_pids().contains(&shared.pid()));
    let scratch = shared.log_path().parent().unwrap().to_owned();
    daemon.stop().await;
    assert!(!pids.iter().any(|pid| is_running(*pid)));
    drop(daemon);
    assert!(!scratch.exists());
}

/// A daemon that another one stands in front of, with a build of its own.
const BACKEND: &str = "build = [['sh', '-c', 'echo built >{dir}/product']]\n\
    version = ['echo', 'backend 3']\n\
    run = ['sh', '-c', 'cat {dir}/product; pwd; echo up {socket} {port}; exec sleep 1000']\n\
    ready = { line = 'up', timeout = '60s' }\n";

#[tokio::test]
async fn the_daemon_behind_is_built_and_started_from_its_own_manifest() {
    let front = script("echo {behind.socket} {behind.port}; echo ready; exec sleep 1000");
    let project = Project::with("front", &format!("{front}behind = 'backend'\n"));
    project.add("backend", BACKEND);
    let daemon = project.start("front").await.unwrap();
    let [backend] = daemon.services() else {
        panic!("{daemon:?}")
    };
    assert_eq!(backend.name(), "backend");
    assert_eq!(backend.version(), Some("backend 3"));
    let lines = backend.last_lines(3);
    let (before, given) = lines.split_once("up ").unwrap();
    let folder = project.dir("backend");
    assert_eq!(before, format!("built\n{}\n", folder.display()));
    assert_eq!(first_line(&daemon), given.trim());
}

#[tokio::test]
async fn a_wrong_daemon_behind_is_named_with_the_remedy() {
    let front = |behind: &str| format!("{}behind = '{behind}'\n", script("echo ready"));
    let project = Project::with("front", &front("front"));
    project.add("missing", &front("nothing"));
    project.add("user", &user());
    project.add("above", &front("user"));
    for (name, words) in [
        (
            "front",
            [
                "`front` needs another server itself",
                "without a daemon behind",
            ],
        ),
        (
            "above",
            ["`user` needs another server itself", "without services"],
        ),
        ("missing", ["daemons/nothing/daemon.toml", "cannot be read"]),
    ] {
        let error = project.prepare(name).unwrap_err().to_string();
        assert_contains(&error, &words);
    }
}

#[tokio::test]
async fn several_instances_share_a_service_that_ends_with_the_last_of_them() {
    let project = Project::with("user", &user());
    let prepared = project.prepare("user").unwrap();
    let started = prepared.start_several(2, &[], &Options::default()).await;
    let [mut one, mut two] = <[Daemon; 2]>::try_from(started.unwrap()).unwrap();
    assert!(one.services().is_empty());
    let [shared] = two.services() else {
        panic!("{two:?}")
    };
    let given = first_line(shared);
    let given = given.trim_start_matches("up ");
    for daemon in [&one, &two] {
        assert!(first_line(daemon).starts_with(given));
    }
    let pids = pids(shared);
    one.stop().await;
    assert!(pids.iter().all(|pid| is_running(*pid)));
    two.stop().await;
    assert!(!pids.iter().any(|pid| is_running(*pid)));
}

#[tokio::test]
async fn a_service_started_again_keeps_its_port_and_its_folder() {
    let project = Project::with("user", &user());
    let prepared = project.prepare("user").unwrap();
    let mut services = prepared.start_services(&Options::default()).await.unwrap();
    let shared = &mut services[0];
    let _ = pids(shared);
    shared.signal(Signal::SIGKILL);
    wait_until("it is over, with its child", || shared.is_over());
    shared.start_again().unwrap();
    assert!(shared.readiness().await);
    wait_until("both starts stand in the log", || {
        let lines = shared.last_lines(9);
        let lines: Vec<&str> = lines.lines().collect();
        lines.len() == 2 && lines[0] == lines[1]
    });
}

#[tokio::test]
async fn a_service_that_exits_early_is_named_and_the_daemon_is_not_started() {
    let manifest = format!(
        "{}[services.shared]\nrun = ['sh', '-c', 'echo the disk is full; exit 3']\nready = {{ line = 'up' }}\n",
        script("touch {dir}/started; echo ready; exec sleep 1000")
    );
    let project = Project::with("user", &manifest);
    let error = project.start("user").await.unwrap_err();
    assert!(matches!(error, DaemonError::ExitedEarly { .. }), "{error}");
    assert_contains(
        &error.to_string(),
        &[
            "the service `shared` of the daemon `user` exited with status 3 before it was ready",
            "| the disk is full",
        ],
    );
    assert!(!project.dir("user").join("started").exists());
}

#[tokio::test]
async fn a_service_that_is_never_ready_is_named_and_killed() {
    let manifest = format!(
        "{}[services.shared]\nrun = ['sh', '-c', 'echo $$ >{{dir}}/pids; exec sleep 1000']\nready = {{ tcp = '127.0.0.1:{{port}}', timeout = '500ms' }}\n",
        script("echo ready; exec sleep 1000")
    );
    let project = Project::with("user", &manifest);
    let error = project.start("user").await.unwrap_err().to_string();
    assert_contains(
        &error,
        &[
            "the service `shared` of the daemon `user` was not ready within 500ms",
            "a connection to 127.0.0.1:",
        ],
    );
    // The script had written its id when it was killed, or was killed before it could.
    let pids = std::fs::read_to_string(project.dir("user").join("pids")).unwrap_or_default();
    assert!(
        pids.trim().parse().is_ok_and(|pid| !is_running(pid)) || pids.is_empty(),
        "{pids}"
    );
}

#[tokio::test]
async fn the_services_of_a_daemon_that_does_not_start_are_killed() {
    let manifest = format!(
        "{}{}",
        script("exit 1"),
        SHARED.replace("{scratch}", "{dir}")
    );
    let project = Project::with("user", &manifest);
    let error = project.start("user").await.unwrap_err().to_string();
    assert_contains(&error, &["the daemon `user` exited with status 1"]);
    let pids = wait_for_pids(&project.dir("user").join("pids"), 2);
    wait_until("the service and its child are gone", || {
        !pids.iter().any(|pid| is_running(*pid))
    });
}

#[test]
fn a_tool_that_a_service_needs_is_missing_as_one_of_the_daemon_is() {
    let manifest = format!(
        "{}needs = [['drover-has-no-such-tool']]\n",
        script("echo ready") + SHARED
    );
    let project = Project::with("user", &manifest);
    for error in [
        project.prepare("user").unwrap_err(),
        Daemon::check_tools(project.root(), "user").unwrap_err(),
    ] {
        assert!(
            matches!(&error, DaemonError::ToolMissing { tool, .. } if tool == "drover-has-no-such-tool"),
            "{error}"
        );
        assert_contains(&error.to_string(), &["the daemon `user` needs"]);
    }
}

/// Returns the answer of a Redis to a command.
fn asked(port: &str, command: &str) -> String {
    let output = Command::new("redis-cli")
        .args(["-p", port, command])
        .output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[tokio::test]
async fn a_redis_is_a_service() {
    let manifest = script("echo $REDIS; echo ready; exec sleep 1000")
        + "env = { REDIS = '{redis.port}' }\n[services.redis]\nneeds = [['redis-server', '--version']]\nversion = ['redis-server', '--version']\n\
           run = ['redis-server', '--bind', '127.0.0.1', '--port', '{port}', '--save', '', '--appendonly', 'no', '--dir', '{scratch}']\n\
           ready = { tcp = '127.0.0.1:{port}' }\nstop = { signal = 'TERM', grace = '5s' }\n";
    let project = Project::with("user", &manifest);
    let mut daemon = match project.start("user").await {
        Err(DaemonError::ToolMissing { tool, .. }) => return skip(tool),
        started => started.unwrap(),
    };
    let redis = &daemon.services()[0];
    assert!(redis.version().unwrap().starts_with("Redis server v="));
    assert_eq!(asked(&first_line(&daemon), "PING").trim(), "PONG");
    let pid = redis.pid().cast_signed();
    daemon.stop().await;
    assert!(!is_running(pid));
}
