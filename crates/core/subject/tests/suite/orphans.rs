//! A harness that is killed leaves no daemon, no build and no directory behind.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use harness_testing::processes::{is_running, wait_for_pids, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::project::{Project, script};
use crate::roles;

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
        let harness = roles::command("harness", project.root())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = project.dir("orphaned").join("started");
        wait_until("the harness has started its daemon", || started.exists());
        let pids = wait_for_pids(&project.dir("orphaned").join("pids"), 2);
        let guards = wait_for_pids(&started, 1);
        let scratch = std::fs::read_to_string(project.dir("orphaned").join("scratch")).unwrap();
        let scratch = PathBuf::from(scratch.trim());
        assert!(pids.iter().chain(&guards).all(|pid| is_running(*pid)) && scratch.exists());
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
        !pids.iter().chain(&guards).any(|pid| is_running(*pid))
    });
    assert!(!scratch.exists());
}

#[test]
fn a_daemon_dies_with_a_killed_harness_without_its_guard_and_the_next_start_removes_its_directory()
{
    let project = Project::with("orphaned", &script(ORPHANED));
    let mut orphanage = Orphanage::start(&project);
    kill(Pid::from_raw(orphanage.guards[0]), Signal::SIGKILL).unwrap();
    wait_until("the guard is gone", || !is_running(orphanage.guards[0]));
    assert!(is_running(orphanage.pids[0]));
    orphanage.kill_harness();
    wait_until("the daemon is gone", || !is_running(orphanage.pids[0]));
    // Without the guard, nothing kills the child.
    let _ = kill(Pid::from_raw(orphanage.pids[1]), Signal::SIGKILL);
    let next = Project::with("orphaned", &script(ORPHANED));
    Orphanage::start(&next).kill_harness();
    assert!(!orphanage.scratch.exists());
}

/// A daemon with a process that has been forked twice, leads a session of its own, and has no environment.
const ESCAPED: &str = "echo $$ >>{dir}/pids; env -i setsid -f sh -c 'echo $$ >>{dir}/pids; exec sleep 1000'; echo {scratch} >{dir}/scratch; echo ready; sleep 1000";

#[test]
fn a_process_that_left_the_daemon_goes_with_a_harness_that_is_killed() {
    let project = Project::with("orphaned", &script(ESCAPED));
    let mut orphanage = Orphanage::start(&project);
    orphanage.kill_harness();
    let Orphanage { pids, guards, .. } = orphanage;
    wait_until("the daemon, what left it and the guard are dead", || {
        !pids.iter().chain(&guards).any(|pid| is_running(*pid))
    });
}

#[tokio::test]
async fn a_process_that_left_the_daemon_ends_when_it_is_stopped_and_when_it_is_killed() {
    let project = Project::with("orphaned", &script(ESCAPED));
    let file = project.dir("orphaned").join("pids");
    let mut daemon = project.start("orphaned").await.unwrap();
    let first = wait_for_pids(&file, 2);
    daemon.signal(Signal::SIGKILL);
    wait_until("the daemon is killed with what left it", || {
        !first.iter().any(|pid| is_running(*pid))
    });
    daemon.start_again().unwrap();
    let pids = wait_for_pids(&file, 4);
    let report = daemon.stop().await;
    assert_eq!(report.left, 0);
    wait_until("what left the daemon is dead", || {
        !pids.iter().any(|pid| is_running(*pid))
    });
}

#[test]
fn a_service_and_its_children_go_with_a_harness_that_is_killed() {
    let service = "[services.shared]\nrun = ['sh', '-c', 'sleep 1000 & echo $! >>{dir}/of-service; echo $$ >>{dir}/of-service; echo up; wait']\nready = { line = 'up', timeout = '60s' }\n";
    let project = Project::with("orphaned", &format!("{}{service}", script(ORPHANED)));
    let mut orphanage = Orphanage::start(&project);
    let of_service = wait_for_pids(&project.dir("orphaned").join("of-service"), 2);
    assert!(of_service.iter().all(|pid| is_running(*pid)));
    orphanage.kill_harness();
    wait_until("the service and its child are gone", || {
        !of_service
            .iter()
            .chain(&orphanage.pids)
            .any(|pid| is_running(*pid))
    });
}

/// A build with a child, as cargo has compilers.
const BUILT: &str = "build = [['sh', '-c', 'echo $$ >>{dir}/pids; sleep 1000 & echo $! >>{dir}/pids; wait']]\nrun = ['true']\nready = { line = 'up' }\n";

#[test]
fn a_build_and_its_children_go_with_a_harness_that_is_killed() {
    let project = Project::with("built", BUILT);
    let mut harness = roles::command("builder", project.root())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pids = wait_for_pids(&project.dir("built").join("pids"), 2);
    harness.kill().unwrap();
    harness.wait().unwrap();
    wait_until("the build and its child are gone", || {
        !pids.iter().any(|pid| is_running(*pid))
    });
}
