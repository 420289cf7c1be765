//! Tests of the support for tests.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod slurm;
