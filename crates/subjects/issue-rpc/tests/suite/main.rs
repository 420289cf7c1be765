//! Tests of both routes to a database: the client, and direct access.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod client;
mod direct;
