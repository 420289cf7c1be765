//! Tests of runs, of the servers in daemons/, and of the workspace itself.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod http_servers;
mod run;
mod tidy;
