//! Tests of the store: its requests, and the faults of its disk.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod crashes;
mod disk_faults;
mod files;
mod limits;
mod lists;
mod random;
mod store;
mod support;
