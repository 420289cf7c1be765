//! Slurm clusters of tests: what tasks read from their environment, and what the loss of a node does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use harness_testing::processes::{is_running, wait_for_pids, wait_until};
use harness_testing::slurm::{Cluster, JobEnd};

#[test]
fn tasks_of_a_step_have_a_rank_and_a_node_each() {
    let Some(cluster) = Cluster::start(3, 2) else {
        return;
    };
    let line = "echo $SLURM_PROCID $SLURM_NTASKS $SLURM_STEP_ID $SLURMD_NODENAME";
    let mut srun = cluster.command("srun");
    let output = srun
        .args(["-N3", "-n3", "sh", "-c", line])
        .output()
        .unwrap();
    let stdout = succeeded(&output);
    let lines: BTreeSet<&str> = stdout.lines().collect();
    let expected = ["0 3 0 node0", "1 3 0 node1", "2 3 0 node2"];
    assert_eq!(lines, BTreeSet::from(expected));
}

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
        succeeded(&sbatch.output().unwrap());
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

/// A job of two components: a daemon with one task, and a driver with three. Components share no nodes.
const TWO_COMPONENTS: &str = "\
#!/bin/sh
#SBATCH --nodes=1 --ntasks=1
#SBATCH hetjob
#SBATCH --nodes=3 --ntasks=3
srun --het-group=0 sh -c 'env >daemon-$SLURM_PROCID' &
srun --het-group=1 sh -c 'env >driver-$SLURM_PROCID' &
wait
";

#[test]
fn each_component_of_a_heterogeneous_job_counts_its_own_tasks() {
    let Some(cluster) = Cluster::start(4, 1) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let id = submit_and_wait(&cluster, folder.path(), TWO_COMPONENTS);

    let daemon = environment(&folder.path().join("daemon-0"));
    let drivers = [0, 1, 2].map(|rank| {
        let name = format!("driver-{rank}");
        environment(&folder.path().join(name))
    });
    let written = fs::read_dir(&folder).unwrap().count();
    assert_eq!(written, 1 + 3 + 2, "the tasks, the script and its output");

    let (first, second) = (id.to_string(), (id + 1).to_string());
    let same = [
        ("SLURM_HET_SIZE", "2"),
        // The first component gives its id to all; only these two tell the components apart.
        ("SLURM_JOB_ID", &first),
        ("SLURM_JOBID", &first),
        ("SLURM_JOB_ID_HET_GROUP_0", &first),
        ("SLURM_JOB_ID_HET_GROUP_1", &second),
        ("SLURM_NTASKS_HET_GROUP_0", "1"),
        ("SLURM_NTASKS_HET_GROUP_1", "3"),
        ("SLURM_JOB_NODELIST_HET_GROUP_0", "node0"),
        ("SLURM_JOB_NODELIST_HET_GROUP_1", "node[1-3]"),
    ];
    has(&daemon, &same);
    has(
        &daemon,
        &[
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "1"),
            ("SLURM_NPROCS", "1"),
            ("SLURM_STEP_NUM_TASKS", "1"),
            ("SLURM_STEP_NODELIST", "node0"),
            ("SLURM_JOB_NODELIST", "node0"),
            ("SLURM_NODEID", "0"),
            ("SLURM_LOCALID", "0"),
            ("SLURMD_NODENAME", "node0"),
        ],
    );
    for (rank, driver) in drivers.iter().enumerate() {
        let (node, rank) = (format!("node{}", rank + 1), rank.to_string());
        has(driver, &same);
        has(
            driver,
            &[
                ("SLURM_PROCID", &rank),
                ("SLURM_NTASKS", "3"),
                ("SLURM_NPROCS", "3"),
                ("SLURM_STEP_NUM_TASKS", "3"),
                ("SLURM_STEP_NODELIST", "node[1-3]"),
                ("SLURM_JOB_NODELIST", "node[1-3]"),
                ("SLURM_NODEID", &rank),
                ("SLURM_LOCALID", "0"),
                ("SLURMD_NODENAME", &node),
            ],
        );
    }
    // Each srun is a step of the first component. Which is the first step is chance.
    let step = |of: &Environment| of["SLURM_STEP_ID"].clone();
    let steps = BTreeSet::from([step(&daemon), step(&drivers[0])]);
    assert_eq!(steps, BTreeSet::from(["0".to_owned(), "1".to_owned()]));
    assert!(
        drivers
            .iter()
            .all(|driver| step(driver) == step(&drivers[0]))
    );
}

/// Both components in one step.
const ONE_STEP: &str = "\
#!/bin/sh
#SBATCH --nodes=1 --ntasks=1
#SBATCH hetjob
#SBATCH --nodes=3 --ntasks=3
srun --het-group=0,1 sh -c 'env >task-$SLURM_PROCID'
";

#[test]
fn a_step_of_all_components_counts_their_tasks_together() {
    let Some(cluster) = Cluster::start(4, 1) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    submit_and_wait(&cluster, folder.path(), ONE_STEP);
    for rank in 0..4 {
        let task = environment(&folder.path().join(format!("task-{rank}")));
        has(
            &task,
            &[
                ("SLURM_NTASKS", "4"),
                ("SLURM_STEP_NUM_TASKS", "4"),
                ("SLURM_STEP_ID", "0"),
                ("SLURMD_NODENAME", &format!("node{rank}")),
            ],
        );
    }
}

#[test]
fn a_step_with_no_kill_outlives_a_node() {
    let Some(cluster) = Cluster::start(3, 1) else {
        return;
    };
    let lost = lose_a_node(&cluster, &["--no-kill", "--kill-on-bad-exit=0"], true);
    let stdout = String::from_utf8_lossy(&lost.srun.stdout);
    let lines: BTreeSet<&str> = stdout.lines().collect();
    assert_eq!(lines, BTreeSet::from(["done 0", "done 2"]), "{lost:?}");
    // The lost task shows in the message only.
    let message = String::from_utf8_lossy(&lost.srun.stderr);
    assert!(message.contains("Node failure on node1"), "{message}");
    assert_eq!(lost.srun.status.code(), Some(0), "{lost:?}");
    assert_eq!(lost.job, end("COMPLETED", "0:0"));
}

#[test]
fn a_step_without_no_kill_ends_with_its_node() {
    let Some(cluster) = Cluster::start(3, 1) else {
        return;
    };
    let lost = lose_a_node(&cluster, &["--kill-on-bad-exit=0"], false);
    assert_eq!(lost.srun.stdout, b"", "{lost:?}");
    // 128 and the number of SIGTERM, which the other tasks got.
    assert_eq!(lost.srun.status.code(), Some(143), "{lost:?}");
    assert_eq!(lost.job, end("NODE_FAIL", "0:15"));
}

/// The rest of a step of three tasks whose second node was lost.
#[derive(Debug)]
struct Lost {
    srun: Output,
    job: JobEnd,
}

/// Loses the second of three nodes during a step. The tasks end when the controller has noticed it, if they are to end by
/// themselves; otherwise they wait forever.
fn lose_a_node(cluster: &Cluster, options: &[&str], tasks_end: bool) -> Lost {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo $$ >$SLURMD_NODENAME
        until [ -e end ]; do sleep 0.1; done
        echo done $SLURM_PROCID";
    let mut srun = cluster.command("srun");
    srun.arg("--verbose").args(options);
    srun.args(["-N3", "-n3", "sh", "-c", script]);
    let messages = folder.path().join("messages");
    let srun = srun
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .stderr(File::create(&messages).unwrap())
        .spawn();
    let srun = srun.unwrap();
    let messages = || fs::read_to_string(&messages).unwrap();
    wait_until("srun has launched all tasks", || {
        messages().matches("tasks started").count() == 3
    });
    let tasks = [0, 1, 2].map(|node| {
        let file = folder.path().join(format!("node{node}"));
        wait_for_pids(&file, 1)[0]
    });

    cluster.kill_node(1);
    assert!(!is_running(cluster.pid_of_node(1).cast_signed()));
    assert_eq!(tasks.map(is_running), [true, false, true]);
    wait_until("the controller misses the node", || {
        cluster.node_state(1).starts_with("down")
    });
    if tasks_end {
        let running = tasks.map(is_running);
        assert_eq!(running, [true, false, true], "{}", messages());
        fs::write(folder.path().join("end"), "").unwrap();
    }
    let mut srun = srun.wait_with_output().unwrap();
    srun.stderr = messages().into_bytes();
    let job = cluster.wait_for_job(1);
    Lost { srun, job }
}

fn end(state: &str, exit_code: &str) -> JobEnd {
    let (state, exit_code) = (state.to_owned(), exit_code.to_owned());
    JobEnd { state, exit_code }
}

type Environment = BTreeMap<String, String>;

fn environment(file: &Path) -> Environment {
    let text = fs::read_to_string(file);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let variables = text.lines().filter_map(|line| line.split_once('='));
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[track_caller]
fn has(environment: &Environment, variables: &[(&str, &str)]) {
    for (name, value) in variables {
        let found = environment.get(*name).map(String::as_str);
        assert_eq!(found, Some(*value), "{name} in {environment:#?}");
    }
}

/// Submits a script in a folder, waits until its job has succeeded, and returns its id.
#[track_caller]
fn submit_and_wait(cluster: &Cluster, folder: &Path, script: &str) -> u32 {
    fs::write(folder.join("script"), script).unwrap();
    let mut sbatch: Command = cluster.command("sbatch");
    sbatch.args(["--parsable", "--output=output", "script"]);
    let output = sbatch.current_dir(folder).output().unwrap();
    let id = succeeded(&output).trim().parse().unwrap();
    let job = cluster.wait_for_job(id);
    let output = fs::read_to_string(folder.join("output")).unwrap_or_default();
    assert_eq!(job, end("COMPLETED", "0:0"), "{output}");
    id
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
