//! The program `issue`: each command directly and through a daemon, files, failures and exit codes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod commands;
mod failures;
mod files;
mod routes;
mod support;
