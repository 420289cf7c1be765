//! Plans of these tests, and what their results must show.

use harness_testing::processes::{send, wait_until};
use harness_testing::program::{CompletedRun, Program, RunningProgram};
use harness_testing::result::ResultFile;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::faults::launched::{Process, child_named, processes_of};

/// Members of each room.
pub(crate) const MEMBERS: u64 = 5;

/// A load of users in rooms of five.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) rooms: u64,
    /// Heartbeats per second of all users.
    pub(crate) rate: u64,
    pub(crate) ramp_s: u64,
    /// The daemon to launch, and its instances.
    pub(crate) daemon: &'a str,
    pub(crate) instances: usize,
    pub(crate) seconds: u64,
    /// Further lines of the plan: variables of the daemon, and faults.
    pub(crate) lines: &'a str,
    /// Further lines of its table `[driver]`.
    pub(crate) driver: &'a str,
}

impl Plan<'_> {
    pub(crate) fn users(&self) -> u64 {
        self.rooms * MEMBERS
    }

    fn text(&self) -> String {
        let Self {
            rooms,
            rate,
            ramp_s,
            daemon,
            instances,
            seconds,
            lines,
            driver,
        } = self;
        format!(
            "name = 'test'\ndaemon = '{daemon}'\ninstances = {instances}\n[timeline]\nmeasure = '{seconds}s'\n\
             drain = '60s'\n[[groups]]\nname = 'heartbeats'\nrate = {rate}.0\n{lines}\n[driver]\nrooms = {rooms}\n\
             users_per_room = {MEMBERS}\nramp_up = '{ramp_s}s'\nack_timeout = '20s'\nconnect_timeout = '2m'\nopen_timeout = '5m'\n\
             {driver}\n"
        )
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> CompletedRun {
        self.start().end()
    }

    /// Starts it.
    pub(crate) fn start(&self) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plan.toml");
        std::fs::write(&file, self.text()).unwrap();
        let program = Program::new(env!("CARGO_BIN_EXE_presence-load"));
        let program = program.args(["--quiet", "--threads", "1", "--plan"]);
        Running {
            program: program.args([&file]).start(),
            instances: self.instances,
            _folder: folder,
        }
    }
}

/// A plan under way.
#[derive(Debug)]
pub(crate) struct Running {
    program: RunningProgram,
    instances: usize,
    _folder: TempDir,
}

impl Running {
    /// Returns the processes of the daemon's instances, once all have been started, in the order of their ports.
    #[track_caller]
    pub(crate) fn instances(&mut self, program: &str) -> Vec<Process> {
        let mut found = Vec::new();
        let mut ended = None;
        wait_until("the daemon's instances are started", || {
            found = self.processes(program);
            ended = self.program.child.try_wait().unwrap();
            found.len() == self.instances || ended.is_some()
        });
        assert_eq!(ended, None, "the driver has ended: {:?}", self.output());
        found
    }

    /// Returns the lines that the driver has written to stderr, once it has ended.
    fn output(&mut self) -> Vec<String> {
        self.program.lines().map_while(Result::ok).collect()
    }

    /// Returns the process of the service with this name, once it is started.
    pub(crate) fn service(&self, name: &str) -> u32 {
        let mut found = None;
        wait_until("the service is started", || {
            found = child_named(self.program.child.id(), name);
            found.is_some()
        });
        found.unwrap()
    }

    /// Returns the processes that run a program for this plan.
    pub(crate) fn processes(&self, program: &str) -> Vec<Process> {
        processes_of(self.program.child.id(), program)
    }

    pub(crate) fn end(self) -> CompletedRun {
        self.program.end()
    }

    /// Ends the load now; what is under way is finished.
    pub(crate) fn interrupt(self) -> CompletedRun {
        send(&self.program.child, Signal::SIGINT);
        self.end()
    }
}

/// Checks that no event was of another room or state, that snapshots were right, and that every user was there at the
/// end.
#[track_caller]
pub(crate) fn is_right(run: &CompletedRun) {
    let names = ["wrong_room", "wrong_state", "snapshot_errors", "not_back"];
    counted_none(run, &names);
    assert_eq!(run.result.operations("unfinished"), 0, "{}", run.result);
    run.result.adds_up();
}

/// Checks that no event came twice or out of order either.
#[track_caller]
pub(crate) fn is_in_order(run: &CompletedRun) {
    is_right(run);
    counted_none(run, &["duplicated", "reordered"]);
}

/// Checks that no event was lost either.
#[track_caller]
pub(crate) fn lost_nothing(run: &CompletedRun) {
    is_in_order(run);
    counted_none(run, &["lost", "sequence_gaps"]);
}

#[track_caller]
fn counted_none(run: &CompletedRun, names: &[&str]) {
    for name in names {
        let counts = &run.result["counts"];
        assert_eq!(counts[name], 0, "{name}: {counts}");
    }
}

/// Checks that operations failed in these ways only.
#[track_caller]
pub(crate) fn failed_only(result: &ResultFile, kinds: &[&str]) {
    for kind in result.error_kinds() {
        assert!(kinds.contains(&kind), "{kind}: {}", result["errors"]);
    }
}
