//! Tests of the server and its command.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod serving;
