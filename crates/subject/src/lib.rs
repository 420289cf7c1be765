//! Runs the daemon under test: its manifest, build, launch and readiness, and what it and its machine use.
//!
//! [`manifest`] describes a daemon, [`daemon`] builds, launches and stops it, [`usage`] samples its process tree,
//! [`gauges`] reads its metrics page, [`host`] describes the machine, and [`headroom`] checks
//! that both can hold a load.

pub mod daemon;
pub mod gauges;
pub mod headroom;
pub mod host;
pub mod manifest;
pub mod usage;
