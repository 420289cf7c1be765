//! Slurm clusters of tests.

use harness_testing::processes::{is_running, wait_for_pids};
use harness_testing::slurm::Cluster;

#[test]
fn two_clusters_run_at_the_same_time_and_leave_nothing() {
    let Some(first) = Cluster::start(1, 1) else {
        return;
    };
    let second = Cluster::start(1, 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut tasks = Vec::new();
    for (name, cluster) in [("first", &first), ("second", &second)] {
        let file = folder.path().join(name);
        // The last process has neither the variables of a job nor a parent of the job.
        let script = format!(
            "echo $$ >{0}; env -i sleep 600 & echo $! >>{0}; wait",
            file.display()
        );
        let mut sbatch = cluster.command("sbatch");
        sbatch.args(["--output=/dev/null", "--wrap", &script]);
        assert!(sbatch.status().unwrap().success());
        tasks.push(wait_for_pids(&file, 2));
    }
    let daemons = [&first, &second].map(|cluster| cluster.pid_of_node(0).cast_signed());
    drop(first);
    assert!(!is_running(daemons[0]));
    assert!(!tasks[0].iter().any(|pid| is_running(*pid)));
    assert!(is_running(daemons[1]));
    assert!(tasks[1].iter().all(|pid| is_running(*pid)));
    drop(second);
    assert!(!is_running(daemons[1]));
    assert!(!tasks[1].iter().any(|pid| is_running(*pid)));
}
