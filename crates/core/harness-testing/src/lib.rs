//! Support for tests that run a driver as its users do. Only tests depend on it.
//!
//! - [`program`]: runs a program of the workspace and reads its result.
//! - [`mod@reference`]: keeps the pages of names in `docs/`, and the schemas of plans, equal to the code.
//! - [`options`]: the options of a driver, and the fields of a plan that each sets.
//! - [`result`]: the result file, and the counts in it.
//! - [`calibration`]: compares measured values with planned ones.
//! - [`certificate`]: certificates for servers of TLS that a test plays.
//! - [`daemons`]: prepares the daemons of the workspace.
//! - [`divided`]: runs that are divided over several programs.
//! - [`processes`]: waits for conditions; observes, signals and limits processes.
//! - [`left_over`]: ends programs at any moment, and checks that nothing is left.
//! - [`hosts`]: network namespaces that lose packets, as hosts.
//! - [`mistakes`]: makes wrong calls, and reads their messages.
//! - [`peer`]: servers that a test plays, metrics pages among them, and proxies; [`metrics`] reads such a page.
//! - [`slurm`]: a Slurm cluster on this machine alone.
//! - [`terminal`]: a program on a pseudo-terminal, and its screen.

#![allow(
    clippy::unwrap_used,
    reason = "a failed assumption fails the test that made it"
)]

pub mod calibration;
pub mod certificate;
pub mod daemons;
pub mod divided;
pub mod hosts;
pub mod left_over;
pub mod mistakes;
pub mod options;
pub mod peer;
pub mod processes;
pub mod program;
pub mod reference;
pub mod result;
pub mod slurm;
pub mod terminal;

pub use test_kit::{assert_contains, fuzz, metrics, operations, rows, skip};
