//! Tests what the programs publish about themselves: help and schemas.
#![allow(
    clippy::unwrap_used,
    reason = "a failed assumption fails the test that made it"
)]

mod help;
mod options;
mod schemas;
