//! Runs that Slurm places, on a cluster of this machine: the printed script is submitted as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness_testing::processes::wait_until;
use harness_testing::program::beside;
use harness_testing::result::{self, ResultFile};
use harness_testing::slurm::Cluster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::streaming::root;
use crate::support::{assert_contains, ends_with, has_three_shards, messages, shown};

/// A rate for both tests that lose something: it lasts long enough for the loss.
const HTTP: &str = "name = \"http\"\nprotocol = \"http\"\n[timeline]\nmeasure = \"6s\"\ndrain = \"5s\"\n\
    [[groups]]\nname = \"rate\"\nrate = 300\n[driver]\npath = \"/1kb.txt\"\n";
pub(crate) const STREAMS: &str = "name = \"streams\"\nprotocol = \"fdpass\"\n[timeline]\nmeasure = \"3s\"\ndrain = \"20s\"\n\
    [[groups]]\nname = \"fixed\"\nclients = 30\nramp = \"1s\"\nops = 1\n[driver]\nmessages = 3\nmessage_delay = \"10ms\"\n";

/// A job on a cluster of four nodes, with its folder.
struct Job {
    cluster: Cluster,
    folder: tempfile::TempDir,
    id: u32,
}

impl Job {
    /// Submits what `drover cluster slurm` prints for three shards; `None` if this machine can't run it.
    fn submit(plan: &str, driver: &str, daemon: &str) -> Option<Self> {
        let [program] = beside(env!("CARGO_BIN_EXE_drover"), [driver])?;
        let cluster = Cluster::start(4, 2)?;
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        let mut printing = printing(folder.path(), plan, daemon, &program);
        let printed = printing.args(["--", "--threads", "1"]).output().unwrap();
        ends_with(&printed, 0);
        fs::write(&script, printed.stdout).unwrap();
        let mut sbatch = cluster.command("sbatch");
        let sbatch = sbatch.current_dir(root()).arg("--parsable").arg(&script);
        let submitted = sbatch.output().unwrap();
        ends_with(&submitted, 0);
        let id = shown(&submitted).trim().parse().unwrap();
        Some(Self {
            cluster,
            folder,
            id,
        })
    }

    fn run(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Waits until a shard has driven its load for a second.
    fn wait_for_load(&self, shard: u64) {
        let live = self.run().join(format!("shard-{shard}/live.jsonl"));
        wait_until("a shard drives its load", || {
            fs::metadata(&live).is_ok_and(|file| file.len() > 0)
        });
    }

    /// Waits for the end, and returns the merged result, the report of the merge, and the end of the job.
    fn end(&self) -> (ResultFile, String, String) {
        let end = self.cluster.wait_for_job(self.id);
        let log = |name: String| fs::read_to_string(self.run().join(name)).unwrap_or_default();
        let report = log(format!("slurm-{}.out", self.id));
        let path = self.run().join("result.json");
        assert!(
            path.is_file(),
            "{end:?}\n{report}\n{}{}{}",
            log("daemon.log".to_owned()),
            log("shard-0.log".to_owned()),
            self.cluster.logs()
        );
        (ResultFile(result::json(&path)), report, format!("{end:?}"))
    }
}

/// Returns the call that prints the script for three shards, whose results are in `run` below the folder.
fn printing(folder: &Path, plan: &str, daemon: &str, program: &Path) -> Command {
    let file = folder.join("plan.toml");
    fs::write(&file, plan).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drover"));
    command
        .current_dir(root())
        .args(["cluster", "slurm", "--shards", "3", "--listen", "127.0.0.1"])
        .args(["--daemon", daemon, "--program"])
        .arg(program)
        .arg("--result-dir")
        .arg(folder.join("run"))
        .arg(&file);
    command
}

#[test]
fn a_printed_script_has_its_folder_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let printing = |options: &[&str]| {
        let mut call = printing(folder.path(), HTTP, "http-daemon", Path::new("/bin/true"));
        call.arg("--").args(options).output().unwrap()
    };
    let secret = printing(&["--header", "Authorization: Bearer abc"]);
    ends_with(&secret, 2);
    assert_contains(&messages(&secret), &["@FILE"]);
    let run = folder.path().join("run");
    assert!(!run.exists(), "nothing was printed that needs it");

    let printed = printing(&["--threads", "1"]);
    ends_with(&printed, 0);
    let output = format!("#SBATCH --output='{}/", run.display());
    assert_contains(&shown(&printed), &[&output]);
    assert!(run.is_dir());
}

#[track_caller]
fn is_whole(merged: &ResultFile, report: &str) {
    has_three_shards(merged);
    assert_eq!(merged.operations("failed"), 0, "{report}");
    // The script ends with the merge.
    assert_contains(report, &["3 shards"]);
}

#[test]
fn an_http_load_of_three_nodes_is_merged_with_the_daemon_of_a_fourth() {
    let Some(job) = Job::submit(HTTP, "http-load", "http-daemon") else {
        return;
    };
    let (merged, report, _) = job.end();
    is_whole(&merged, &report);
    let due = merged.operations("started") + merged.operations("missed");
    assert_eq!(due, 1_800, "{report}");
    assert!(merged["usage"]["daemon"]["rss_peak_kb"].as_u64().unwrap() > 0);
}

#[test]
fn streams_have_a_daemon_on_every_node() {
    let Some(job) = Job::submit(STREAMS, "fdpass-gen", "rust-streaming") else {
        return;
    };
    let (merged, report, _) = job.end();
    is_whole(&merged, &report);
    assert_eq!(merged.operations("ok"), 30, "{report}");
    assert_eq!(merged["daemon"]["instances"], 3);
}

#[test]
fn a_killed_task_is_missing_whatever_the_engine_says() {
    let Some(job) = Job::submit(HTTP, "http-load", "http-daemon") else {
        return;
    };
    job.wait_for_load(1);
    let ready = fs::read_to_string(job.run().join("ready-1")).unwrap();
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let pid = i32::try_from(ready["program"]["pid"].as_u64().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let (merged, report, _) = job.end();
    assert_eq!(merged["verdict"], "INVALID", "{report}");
    assert!(report.contains("1 of 3 shards are missing: 1"), "{report}");
    let due = merged.operations("started") + merged.operations("missed");
    assert_eq!(due, 1_200, "the others have driven their shares: {report}");
}

#[test]
fn a_lost_node_is_missing_and_the_rest_is_merged() {
    let Some(job) = Job::submit(HTTP, "http-load", "http-daemon") else {
        return;
    };
    job.wait_for_load(2);
    // The daemon is on the first node, and the shards follow.
    job.cluster.kill_node(3);
    let (merged, report, end) = job.end();
    assert!(report.contains("1 of 3 shards are missing: 2"), "{report}");
    assert_eq!(merged["shards"].as_array().unwrap().len(), 2);
    // The script ends with the exit code of the merge.
    assert!(end.contains("3:0"), "{end}");
}
