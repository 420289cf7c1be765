//! Tests the sampler with real process trees.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use harness_testing::processes::{children, is_running, wait_for_pids, wait_until};
use measure::usage::Sample;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use subject::usage::Sampler;

use crate::roles;

/// A shell script with everything that it forks, killed at the end of the test, however that ends.
struct Tree {
    shell: Child,
    /// Kills the tree when its input ends, which it does with this program.
    guard: Child,
    directory: tempfile::TempDir,
}

impl Tree {
    /// Starts the tree. The script writes process ids to `$1`.
    fn start(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(directory.path().join("pids"))
            .stdin(Stdio::null())
            .process_group(0);
        let shell = command.spawn().unwrap();
        let mut guard = Command::new("sh");
        guard
            .args(["-c", "read -r end; kill -s KILL -- -$0"])
            .arg(shell.id().to_string())
            .stdin(Stdio::piped())
            .process_group(0);
        Self {
            shell,
            guard: guard.spawn().unwrap(),
            directory,
        }
    }

    fn root(&self) -> u32 {
        self.shell.id()
    }

    fn sampler(&self) -> Sampler {
        Sampler::new(self.root(), &[])
    }

    fn pids(&self, count: usize) -> Vec<i32> {
        let file: PathBuf = self.directory.path().join("pids");
        wait_for_pids(&file, count)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        let _ = killpg(
            Pid::from_raw(self.shell.id().cast_signed()),
            Signal::SIGKILL,
        );
        let _ = self.shell.wait();
    }
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    std::time::Duration::from(now).as_nanos() as u64
}

fn ticks(sample: &Sample) -> u64 {
    sample.utime_ticks + sample.stime_ticks
}

/// Returns a field of `/proc/<pid>/stat` by its number in proc_pid_stat(5), counted from 1.
fn stat_field(pid: u32, number: usize) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_ascii_whitespace()
        .nth(number - 3)
        .unwrap()
        .parse()
        .unwrap()
}

const BUSY: &str = "while :; do :; done";

/// Starts a busy tree, which writes its ids to the file `pids` in the folder of the role.
pub(crate) fn start_a_tree_and_wait_to_be_killed() {
    let _tree = Tree::start(&format!(
        "({BUSY}) & echo $! $$ | tr ' ' '\\n' >$DROVER_TEST_ROOT/pids; wait"
    ));
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_tree_goes_with_a_test_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut test = roles::command("tree", folder.path());
    test.env("TMPDIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut test = test.spawn().unwrap();
    let pids = wait_for_pids(&folder.path().join("pids"), 2);
    test.kill().unwrap();
    test.wait().unwrap();
    wait_until("the tree has gone", || {
        !pids.iter().any(|pid| is_running(*pid))
    });
}

#[test]
fn a_pre_forking_server_counts_once_and_whole() {
    let tree = Tree::start(
        "for i in 1 2 3; do sleep 1000 & echo $! >>$1; done; sh -c 'sleep 1000 & echo $! >>$0; wait' $1 & echo $! >>$1; wait",
    );
    tree.pids(5);
    let mut sampler = tree.sampler();
    // A forked child is a copy of the shell until it has become `sleep`.
    wait_until("six processes have one thread each", || {
        sampler.sample(now_ns()).threads == 6
    });
    for _ in 0..3 {
        let sample = sampler.sample(now_ns());
        assert_eq!((sample.processes, sample.threads), (6, 6));
        // Standard input, output and error of each.
        assert!(
            sample.fds >= 18 && sample.rss_kb > 6 * 100 && sample.voluntary_switches > 0,
            "{sample:?}"
        );
    }
}

#[test]
fn an_excluded_process_is_left_out_with_everything_below_it() {
    let tree = Tree::start("sh -c 'sleep 1000 & echo $! >>$0; wait' $1 & echo $! >>$1; wait");
    let pids = tree.pids(2);
    let child = children(tree.root())[0];
    assert!(pids.contains(&child));
    assert_eq!(tree.sampler().sample(1).processes, 3);
    let excluded = [child.cast_unsigned()];
    assert_eq!(Sampler::new(tree.root(), &excluded).sample(1).processes, 1);
}

#[test]
fn the_cpu_time_of_a_busy_child_is_seen() {
    let tree = Tree::start(&format!("({BUSY}) & wait"));
    let mut sampler = tree.sampler();
    assert_eq!(
        sampler.sample(now_ns()).cpu_pct,
        0.0,
        "there is nothing before the first sample"
    );
    let mut peak: f64 = 0.0;
    wait_until("the child has run for a fifth of a second", || {
        let sample = sampler.sample(now_ns());
        peak = peak.max(sample.cpu_pct);
        sample.utime_ticks + sample.stime_ticks >= 20
    });
    assert!(peak > 1.0, "{peak}");
    let (mut other, used) = (tree.sampler(), ticks(&sampler.sample(now_ns())));
    wait_until("the child has run for another fifth of a second", || {
        ticks(&other.sample(now_ns())) >= used + 20
    });
    let sample = sampler.sample(now_ns());
    assert!(
        sample.cpu_pct > 0.0 && sample.cpu_pct <= 150.0,
        "one busy process is one core at most: {sample:?}"
    );
}

/// A script whose children end, one after the other.
const SHORT_LIVED: &str =
    "while :; do sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'; echo >/dev/null; done";

#[test]
fn the_time_of_children_that_no_sample_saw_counts() {
    let tree = Tree::start(SHORT_LIVED);
    let mut sampler = tree.sampler();
    let before = ticks(&sampler.sample(now_ns()));
    let waited_for = || stat_field(tree.root(), 16) + stat_field(tree.root(), 17);
    wait_until("the children have used 50 ticks", || waited_for() >= 50);
    // Processes before the first sample do not count.
    let after = ticks(&sampler.sample(now_ns()));
    assert!(after >= before + 40, "{before} {after}");
}

#[test]
fn the_sum_never_falls_while_children_come_and_go() {
    let tree = Tree::start(SHORT_LIVED);
    let mut sampler = tree.sampler();
    let mut before = sampler.sample(now_ns());
    wait_until("the children have used 30 ticks", || {
        let after = sampler.sample(now_ns());
        assert!(
            after.utime_ticks >= before.utime_ticks,
            "{before:?} {after:?}"
        );
        assert!(
            after.stime_ticks >= before.stime_ticks,
            "{before:?} {after:?}"
        );
        assert!(
            after.voluntary_switches >= before.voluntary_switches,
            "{before:?} {after:?}"
        );
        before = after;
        ticks(&before) >= 30
    });
}

#[test]
fn the_time_of_a_dead_child_that_nobody_waits_for_stays_in_the_sum() {
    let tree = Tree::start(&format!(
        "({BUSY}) & echo $! >>$1; ({BUSY}) & echo $! >>$1; exec env --ignore-signal=CHLD sleep 1000"
    ));
    let pids = tree.pids(2);
    let mut sampler = tree.sampler();
    let own = |pid: i32| stat_field(pid.cast_unsigned(), 14) + stat_field(pid.cast_unsigned(), 15);
    wait_until("each child has used 20 ticks", || {
        own(pids[0]) >= 20 && own(pids[1]) >= 20
    });
    let before = ticks(&sampler.sample(now_ns()));
    assert!(before >= 40, "{before}");
    let of_survivor = own(pids[1]);
    kill(Pid::from_raw(pids[0]), Signal::SIGKILL).unwrap();
    wait_until("one child is gone, and is no zombie either", || {
        !PathBuf::from(format!("/proc/{}", pids[0])).exists()
    });
    wait_until("the other has used 10 more", || {
        own(pids[1]) >= of_survivor + 10
    });
    let after = sampler.sample(now_ns());
    assert_eq!(after.processes, 2);
    assert!(ticks(&after) >= before + 10, "{before} {after:?}");
}

#[test]
fn a_process_once_seen_is_followed_when_its_parent_ends_and_so_are_its_later_children() {
    let survivor = "echo $$ >>$0; read go <$0.go; sleep 1000 & wait";
    let tree = Tree::start(&format!(
        "mkfifo $1.go; export survivor='{survivor}'; sh -c 'sh -c \"$survivor\" $0 & wait' $1 & echo $! >>$1; exec sleep 1000"
    ));
    let pids = tree.pids(2);
    let between = pids.into_iter().find(|pid| !children(pid).is_empty());
    let between = between.unwrap();
    let mut sampler = tree.sampler();
    wait_until("all three are seen", || {
        sampler.sample(now_ns()).processes == 3
    });
    kill(Pid::from_raw(between), Signal::SIGKILL).unwrap();
    wait_until("the one between is gone", || !is_running(between));
    assert_eq!(sampler.sample(now_ns()).processes, 2);
    std::fs::write(tree.directory.path().join("pids.go"), "go\n").unwrap();
    wait_until("the child of the survivor is seen", || {
        sampler.sample(now_ns()).processes == 3
    });
}

#[test]
fn a_tree_that_has_ended_keeps_its_sums_and_has_no_memory() {
    let mut tree = Tree::start(&format!("{BUSY} & {BUSY}"));
    let mut sampler = tree.sampler();
    let mut before = sampler.sample(now_ns());
    wait_until("it has used 10 ticks", || {
        before = sampler.sample(now_ns());
        before.utime_ticks + before.stime_ticks >= 10
    });
    killpg(Pid::from_raw(tree.root().cast_signed()), Signal::SIGKILL).unwrap();
    tree.shell.wait().unwrap();
    wait_until("the sampler notices", || {
        sampler.sample(now_ns()).processes == 0
    });
    let after = sampler.sample(now_ns());
    assert_eq!((after.rss_kb, after.threads, after.fds), (0, 0, 0));
    assert!(
        after.utime_ticks >= before.utime_ticks && after.stime_ticks >= before.stime_ticks,
        "{before:?} {after:?}"
    );
    assert!(
        after.voluntary_switches + after.involuntary_switches
            >= before.voluntary_switches + before.involuntary_switches
    );
}
