//! The part of a program in a run: all of it, unless other programs have parts too. Every program takes the same steps,
//! and only their way to each other differs: pipes from a process to the one that [started it](crate::processes), or a
//! folder that all can reach ([`crate::divided`]). A program of a divided run may start processes itself: the load has as
//! many shares then as there are workers in all of them.
//!
//! | step | what the others learn | pipes | folder |
//! | --- | --- | --- | --- |
//! | publish | the daemon, and for processes the plan and what the check has learned | the specification | `daemon.json` |
//! | start | this program is ready; the common start | `Ready`, `start` | `ready-I`, `go` |
//! | load begin | all of its connections are open; the begin of the load | `Opened`, `load_begin` | `open-I`, `load` |
//! | progress | operations that are open; whether all have begun or ended | `OpenOperations`, `progress` | `left-I`, `progress` |
//! | leave | what was measured | `WorkerSecond`, `Ledger` | `shard-I/`, `done-I` |

use std::time::Duration;

use load::clock;
use load::driver::{Driver, SharedProgress, ValidPlan};
use load::schedule::Share;
use measure::shard::{Role, RunPart};
use measure::threshold::Threshold;

use crate::divided::{DividedRun, HEAD_START_NS, PublishedDaemon, Start};
use crate::processes::Pipe;

/// Time between two looks at the progress of this program, or of the processes that it has started.
const COUNTING: Duration = Duration::from_millis(50);
/// Time between two looks at the other parts of a divided run.
const LOOKING: Duration = Duration::from_millis(250);

/// The part of a program in a run.
#[derive(Debug, Clone)]
pub enum Part {
    /// All of the run.
    Whole,
    /// A process of the program that started it, which has the result.
    Process(Pipe),
    /// A part of a run that is divided over several programs.
    Divided(DividedRun),
}

impl Part {
    /// Returns its share of the load.
    #[must_use]
    pub fn share(&self) -> Share {
        match self {
            Self::Whole => Share::ALL,
            Self::Process(pipe) => pipe.workers().shard,
            Self::Divided(divided) => divided.share(),
        }
    }

    /// Returns the role of the program: [`Role::Both`] if it is alone.
    #[must_use]
    pub fn role(&self) -> Role {
        match self {
            Self::Whole => Role::Both,
            Self::Process(_) => Role::Load,
            Self::Divided(divided) => divided.role(),
        }
    }

    /// Returns the plan as a result has it, and the thresholds to judge: they are for the whole load.
    pub(crate) fn plan<D: Driver>(
        &self,
        load: &ValidPlan<D::Config>,
    ) -> anyhow::Result<(serde_json::Value, Vec<Threshold>)> {
        match self {
            Self::Whole | Self::Process(_) => {
                Ok((load.plan.to_json()?, load.plan.thresholds(load.spec)?))
            }
            Self::Divided(divided) => Ok((divided.plan.clone(), Vec::new())),
        }
    }

    /// Publishes the daemon that this program has launched for others.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn publish(&self, daemon: impl FnOnce() -> PublishedDaemon) -> anyhow::Result<()> {
        match self {
            Self::Whole | Self::Process(_) => Ok(()),
            Self::Divided(divided) => divided.publish(&daemon()),
        }
    }

    /// Returns the start of the run, once all parts are ready for it.
    ///
    /// # Errors
    /// See [`DividedRun::start`].
    pub(crate) async fn start(&self, host: &str) -> anyhow::Result<Start> {
        match self {
            Self::Whole => Ok(Start::soon()),
            Self::Process(pipe) => pipe.start().await,
            Self::Divided(divided) => divided.start(host).await,
        }
    }

    /// Returns the instant at which the load begins now that all connections of this part are open, nanoseconds of
    /// CLOCK_MONOTONIC; `None` if the parts do not agree on one.
    pub(crate) async fn load_begin(self, start: Start, host: String) -> Option<u64> {
        match self {
            Self::Whole => Some(clock::now() + HEAD_START_NS),
            Self::Process(pipe) => pipe.load_begin().await.ok(),
            Self::Divided(divided) => divided.load_begin(&start, &host).await,
        }
    }

    /// Returns the time between two calls of [`shared_progress`](Self::shared_progress).
    pub(crate) fn looking(&self) -> Duration {
        match self {
            Self::Whole | Self::Process(_) => COUNTING,
            Self::Divided(_) => LOOKING,
        }
    }

    /// Tells the other parts how many shared operations this part has begun and not ended.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn report_open(&self, open: i64) -> anyhow::Result<()> {
        match self {
            Self::Whole => Ok(()),
            Self::Process(pipe) => pipe.report_open(open),
            Self::Divided(divided) => divided.report_open(open),
        }
    }

    /// Returns the progress of shared operations, if it is known. This part has begun `open` that are not ended.
    pub(crate) fn shared_progress(&self, open: i64) -> Option<SharedProgress> {
        match self {
            Self::Whole => Some(SharedProgress::of_open(open)),
            Self::Process(pipe) => pipe.shared_progress(),
            // If the folder cannot be read, the drain time ends the run.
            Self::Divided(divided) => divided.shared_progress().unwrap_or(None),
        }
    }

    /// Says that this part has ended. Returns true for the last one.
    pub(crate) fn leave(&self) -> bool {
        match self {
            Self::Whole | Self::Process(_) => true,
            Self::Divided(divided) => divided.leave().unwrap_or(false),
        }
    }

    /// Returns the name of the run.
    pub(crate) fn run_id(&self, start: &Start) -> String {
        match self {
            Self::Whole | Self::Process(_) => {
                format!("{:x}-{:x}", start.unix_ns, std::process::id())
            }
            Self::Divided(divided) => divided.run_id(start),
        }
    }

    /// Describes this part for its result; `None` if it is the whole.
    pub(crate) fn describe(&self, start: &Start) -> Option<RunPart> {
        match self {
            Self::Whole | Self::Process(_) => None,
            Self::Divided(divided) => Some(divided.part(start)),
        }
    }
}
