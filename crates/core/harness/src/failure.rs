//! Errors that end a program, and their exit codes.

use std::process::ExitCode;

use load::plan::{Invalid, PlanError};
use subject::daemon::DaemonError;

use crate::output;

/// An error that prevents a run: a wrong call, a limit of this machine, or a failed step.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The call or the plan is wrong.
    #[error("{0:#}")]
    Call(anyhow::Error),
    /// A limit of this machine is too low.
    #[error("{0:#}")]
    Limit(anyhow::Error),
    /// A step failed.
    #[error("{0:#}")]
    Run(anyhow::Error),
}

/// The exit code of [`Failure::Limit`].
pub const LIMIT: u8 = 5;

impl Failure {
    /// Returns the exit code of the program.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Run(_) => 1,
            Self::Call(_) => 2,
            Self::Limit(_) => LIMIT,
        }
    }

    /// Prints the error to stderr. Returns the exit code of the program.
    #[must_use]
    pub fn print(&self) -> ExitCode {
        output::note(&format!("error: {self}"));
        ExitCode::from(self.exit_code())
    }
}

/// Classifies a daemon's error: a wrong name or manifest or a missing tool is a wrong call, any other error a failed
/// run.
impl From<DaemonError> for Failure {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::UnknownDaemon { .. }
            | DaemonError::OtherProtocol { .. }
            | DaemonError::BadManifest { .. }
            | DaemonError::ToolMissing { .. }
            | DaemonError::NotStarted { .. }
            | DaemonError::Occupied { .. }
            | DaemonError::ProgramMissing { .. }
            | DaemonError::NotBuilt { .. } => Self::Call(error.into()),
            other => Self::Run(other.into()),
        }
    }
}

/// Classifies an error of the system as a failed run.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Run(error.into())
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::Call(error.into())
    }
}

impl From<Invalid> for Failure {
    fn from(error: Invalid) -> Self {
        Self::Call(error.into())
    }
}
