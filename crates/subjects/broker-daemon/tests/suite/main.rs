//! The broker as seen by its clients, scrapers and operators.
#![expect(clippy::unwrap_used, reason = "a test panics where it fails")]

mod faults;
mod floods;
mod frames;
mod full;
mod kills;
mod log;
mod management;
mod process;
mod raw;
mod simulated_peers;
mod small_disk;
mod support;
