//! Warnings about the processes of a daemon.

use super::{Kind, Severity, Warning};
use crate::units;

impl Warning {
    /// Reports that nothing is known about the resource use of the daemon; `why` has no daemon in it.
    pub fn daemon_not_measured(why: &str, remedy: &str) -> Self {
        let message = format!("the daemon's CPU, memory and files are not measured: {why}");
        Kind::DaemonNotMeasured.note(message, remedy)
    }

    /// Reports that a process listens which does not belong to the ones that the user named.
    pub fn other_process_listens(named: &str, listening: &str) -> Self {
        Kind::DaemonProcesses.note(
            format!("the daemon's figures belong to {named}; {listening} listens at its address"),
            "leave out --pid to measure the process that listens",
        )
    }

    /// Reports that processes listen at the address of a launched daemon that are not in its process tree: all of those
    /// that listen there, or some.
    pub fn listens_outside(listening: &str, is_all: bool) -> Self {
        let severity = if is_all {
            Severity::Suspect
        } else {
            Severity::Note
        };
        Kind::DaemonProcesses.warning(
            severity,
            format!("{listening} listens at the daemon's address and is not one of the launched processes: the daemon's CPU, memory and files are without it"),
            "let the command of the manifest stay in the foreground, without a detached process or a container; or start the server yourself and give its address",
        )
    }

    /// Reports that a process that the user named has ended.
    pub fn named_process_ended(ended: &str, after_s: f64) -> Self {
        Kind::DaemonProcesses.suspect(
            format!("{ended} ended {} after the start", units::seconds(after_s)),
            "the daemon's figures end there: see its log, and run again with the new --pid",
        )
    }

    /// Reports that the daemon has ended and no other process took its place.
    pub fn running_daemon_ended(ended: &str, after_s: f64) -> Self {
        Kind::DaemonDied.invalid(
            format!(
                "the daemon exited during the run: {ended} ended {} after the start, and no process listens in its place",
                units::seconds(after_s)
            ),
            "see its log, start it, and run again",
        )
    }

    /// Reports that another process took the place of the daemon's.
    pub fn running_daemon_replaced(ended: &str, successors: &str, after_s: f64) -> Self {
        Kind::DaemonProcesses.suspect(
            format!(
                "the daemon was replaced during the run: {ended} ended {} after the start, and {successors} took over",
                units::seconds(after_s)
            ),
            "its figures belong to both: run again without a restart",
        )
    }

    /// Reports that processes that no sample includes listen after the run.
    pub fn daemon_took_over(processes: &str) -> Self {
        Kind::DaemonProcesses.suspect(
            format!("{processes} began to listen during the run and is not part of the daemon's figures"),
            "the daemon was reloaded or has a further process: run again, and leave it alone meanwhile",
        )
    }

    /// Reports that processes that listened, such as workers, were replaced by their master.
    pub fn workers_replaced(ended: u64, new: u64) -> Self {
        Kind::DaemonProcesses.note(
            format!("the daemon was reloaded during the run: {ended} of the processes that listened ended, and {new} are new; peak memory and memory per connection count both"),
            "all of them are part of its figures: leave it alone during a run for figures of one set of processes",
        )
    }
}
