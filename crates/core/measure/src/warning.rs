//! Warnings, each with a hint, and the verdict that follows from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod constructors;
mod cpu_samples;
mod derived;
mod lateness;
mod running_daemon;
mod shards;

pub use constructors::EndedBy;
pub(crate) use constructors::WORKER_CPU_LIMIT_PCT;

/// The subject of a warning.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Kind {
    /// The driver started operations later than its schedule required.
    GeneratorLate,
    /// A worker of the driver used most of a core, so the driver may be the bottleneck instead of the daemon.
    GeneratorCpuBound,
    /// Workers of the driver ended with an error or a panic.
    WorkersFailed,
    /// No operation succeeded.
    NothingSucceeded,
    /// Operations were still open when the drain phase ended.
    Unfinished,
    /// Operations were due and never started.
    Missed,
    /// The daemon exited during the run.
    DaemonDied,
    /// A series has too few samples for the percentiles shown.
    FewSamples,
    /// The driver was built without optimisation.
    DebugBuild,
    /// The machine was busy before the run, or the hypervisor stole CPU time during it.
    NoisyHost,
    /// A counter of the driver and a counter of the daemon differ.
    CountsDisagree,
    /// The daemon's counters could not be read before or after the load.
    CountersUnread,
    /// A row of the audit failed: figures of the result contradict each other or the plan.
    Audit,
    /// The daemon asked its clients to send nothing for a while.
    Blocked,
    /// The daemon delivered messages twice that it should deliver once.
    Duplicated,
    /// The daemon delivered messages out of order.
    OutOfOrder,
    /// The kernel dropped connections because an accept queue was full.
    ListenOverflow,
    /// TCP retransmitted segments that were not acknowledged in time.
    Retransmits,
    /// The daemons under comparison answer differently, or one daemon's answer differs from the expected one.
    AnswersDiffer,
    /// The run was interrupted.
    Interrupted,
    /// Rows could not be written to a file, or could not be read back into the result.
    RowsLost,
    /// The run was made by another tool, and the result holds only what that tool reported.
    Imported,
    /// Other processes used CPU time during the run that daemon and driver could have used.
    OtherWork,
    /// Other processes used the disk to which the daemon syncs what it is sent.
    DiskBusy,
    /// A worker's loop did not run although operations were due.
    Stalled,
    /// The CPU quota of a control group throttled the driver or the daemon.
    Throttled,
    /// The driver ran out of file descriptors or ports.
    DriverExhausted,
    /// A worker waited long for a CPU that daemon and driver used themselves, or whose user is not known.
    SharedCpus,
    /// A closed loop used neither the daemon nor the driver fully.
    Unfilled,
    /// The run ended before all planned faults were injected.
    FaultsNotInjected,
    /// The resource use of a daemon that was already running is not known.
    DaemonNotMeasured,
    /// The processes of a daemon that was already running changed during the run, or the measured processes of a daemon
    /// are not those that listen.
    DaemonProcesses,
    /// The rates include operations of the warm-up that ended late.
    WarmupBacklog,
    /// Operations of the warm-up failed.
    WarmupFailed,
    /// Response times drifted, jumped or paused regularly although the planned load stayed the same.
    NoSteadyState,
    /// Times are within twice the driver's own, by its calibration.
    NearFloor,
    /// The rate is above half of the driver's highest, by its calibration.
    NearCeiling,
    /// A threshold limits a counter that the driver does not know. Older versions accepted it.
    NeverCounted,
    /// Shards of a divided run have no result.
    ShardsMissing,
    /// A shard of a divided run began late, or the clocks of the machines differ.
    ShardsApart,
    /// CPU samples were taken during the run, or could not be.
    CpuSamples,
}

/// The place of a warning in a list: one that may cause others comes before them.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Effect,
    Cause,
}

/// The figures of a divided run that a warning is about: of one part, or only of all parts together.
enum Scope {
    Part,
    Whole,
}

impl Kind {
    /// Returns its subject in a few words, its place in a list, and the figures that it is raised on.
    const fn describe(self) -> (&'static str, Order, Scope) {
        use Order::{Cause, Effect};
        use Scope::{Part, Whole};
        match self {
            Self::GeneratorLate => ("late starts", Effect, Part),
            Self::GeneratorCpuBound => ("driver's CPU", Effect, Part),
            Self::WorkersFailed => ("failed workers", Cause, Part),
            Self::NothingSucceeded => ("nothing succeeded", Effect, Whole),
            Self::Unfinished => ("unfinished operations", Effect, Part),
            Self::Missed => ("missed starts", Effect, Whole),
            Self::DaemonDied => ("daemon exited", Cause, Part),
            Self::FewSamples => ("few samples", Effect, Whole),
            Self::DebugBuild => ("debug build", Effect, Part),
            Self::NoisyHost => ("busy machine", Cause, Part),
            Self::CountsDisagree => ("counts disagree", Effect, Whole),
            Self::CountersUnread => ("counters not read", Effect, Part),
            Self::Audit => ("audit", Effect, Whole),
            Self::Blocked => ("blocked publishers", Cause, Whole),
            Self::Duplicated => ("duplicates", Effect, Whole),
            Self::OutOfOrder => ("wrong order", Effect, Whole),
            Self::ListenOverflow => ("accept queue full", Effect, Part),
            Self::Retransmits => ("retransmissions", Effect, Part),
            Self::AnswersDiffer => ("answers differ", Effect, Whole),
            Self::Interrupted => ("interrupted", Effect, Part),
            Self::RowsLost => ("lost rows", Effect, Part),
            Self::Imported => ("imported", Effect, Whole),
            Self::OtherWork => ("other processes", Cause, Part),
            Self::DiskBusy => ("busy disk", Cause, Part),
            Self::Stalled => ("stalls", Effect, Part),
            Self::Throttled => ("CPU quota", Cause, Part),
            Self::DriverExhausted => ("driver's limits", Cause, Part),
            Self::SharedCpus => ("shared CPUs", Cause, Part),
            Self::Unfilled => ("unfilled load", Effect, Part),
            Self::FaultsNotInjected => ("faults not injected", Effect, Part),
            Self::DaemonNotMeasured => ("daemon not measured", Effect, Whole),
            Self::DaemonProcesses => ("daemon's processes", Effect, Part),
            Self::WarmupBacklog => ("warm-up's backlog", Effect, Whole),
            Self::WarmupFailed => ("failures in the warm-up", Effect, Whole),
            Self::NoSteadyState => ("no steady state", Effect, Whole),
            Self::NearFloor => ("near the floor", Effect, Whole),
            Self::NearCeiling => ("near the ceiling", Effect, Whole),
            Self::NeverCounted => ("unknown counters", Effect, Whole),
            Self::ShardsMissing => ("missing shards", Cause, Whole),
            Self::ShardsApart => ("shards apart", Effect, Part),
            Self::CpuSamples => ("CPU samples", Effect, Part),
        }
    }

    /// Returns the subject in a few words, to count warnings by it.
    pub(crate) fn name(self) -> &'static str {
        self.describe().0
    }

    /// Returns true if a warning about one part of a divided run also holds for the whole run. The others are examined
    /// again on the merged figures.
    #[must_use]
    pub fn is_local(self) -> bool {
        matches!(self.describe().2, Scope::Part)
    }

    /// Creates a warning that keeps the result VALID.
    pub(crate) fn note(self, message: impl Into<String>, hint: impl Into<String>) -> Warning {
        self.warning(Severity::Note, message, hint)
    }

    /// Creates a warning that makes the result SUSPECT.
    pub(crate) fn suspect(self, message: impl Into<String>, hint: impl Into<String>) -> Warning {
        self.warning(Severity::Suspect, message, hint)
    }

    /// Creates a warning that makes the result INVALID.
    pub(crate) fn invalid(self, message: impl Into<String>, hint: impl Into<String>) -> Warning {
        self.warning(Severity::Invalid, message, hint)
    }

    pub(crate) fn warning(
        self,
        severity: Severity,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Warning {
        Warning {
            kind: self,
            severity,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// The effect of a warning on the verdict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The figures can be used as they are. Notes keep a result VALID.
    Note,
    /// The figures may be wrong. The result is SUSPECT.
    Suspect,
    /// The figures do not describe the daemon. The result is INVALID.
    Invalid,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }

    /// Returns the severity of a value that exceeds at least the first of two limits.
    pub(crate) fn above(value: f64, suspect: f64, invalid: f64) -> Option<Self> {
        match value {
            value if value > invalid => Some(Self::Invalid),
            value if value > suspect => Some(Self::Suspect),
            _ => None,
        }
    }
}

/// A reason to doubt a result.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// The subject of the warning.
    pub kind: Kind,
    /// The effect on the verdict.
    pub severity: Severity,
    /// The observation, with its figures.
    pub message: String,
    /// The recommended action.
    pub hint: String,
}

/// The trustworthiness of a result, derived from its warnings.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// No warning is more severe than a note.
    #[default]
    Valid,
    /// At least one warning says that figures may be wrong. Read the warnings before the figures.
    Suspect,
    /// The figures do not describe the daemon.
    Invalid,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Valid => "VALID",
            Self::Suspect => "SUSPECT",
            Self::Invalid => "INVALID",
        })
    }
}

/// Returns the verdict of all warnings: the most severe one's.
#[must_use]
pub fn verdict(warnings: &[Warning]) -> Verdict {
    match warnings.iter().map(|warning| warning.severity).max() {
        None | Some(Severity::Note) => Verdict::Valid,
        Some(Severity::Suspect) => Verdict::Suspect,
        Some(Severity::Invalid) => Verdict::Invalid,
    }
}

/// Sorts warnings by severity, with possible causes first: other work on the machine comes before the lateness that it
/// causes.
pub fn sort(warnings: &mut [Warning]) {
    warnings.sort_by_key(|warning| {
        let (_, order, _) = warning.kind.describe();
        let is_severe_cause = order == Order::Cause && warning.severity > Severity::Note;
        std::cmp::Reverse((is_severe_cause, warning.severity, order))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_named_before_what_follows_from_it() {
        let mut warnings = [
            Kind::FewSamples.note("", ""),
            Kind::NoisyHost.note("", ""),
            Kind::Missed.suspect("", ""),
            Kind::GeneratorLate.invalid("", ""),
            Kind::OtherWork.suspect("", ""),
            Kind::DriverExhausted.invalid("", ""),
        ];
        sort(&mut warnings);
        assert_eq!(
            warnings.map(|warning| warning.kind),
            [
                Kind::DriverExhausted,
                Kind::OtherWork,
                Kind::GeneratorLate,
                Kind::Missed,
                Kind::NoisyHost,
                Kind::FewSamples,
            ]
        );
    }
}
