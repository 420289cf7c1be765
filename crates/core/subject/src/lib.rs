//! Runs the daemon under test: its manifest, build, launch and readiness, and what it and its machine use.
//!
//! [`manifest`] describes a daemon, [`daemon`] builds, launches and stops it, [`listeners`] finds one that runs already,
//! [`usage`] samples its process tree, [`prometheus`] reads its metrics page, [`host`] describes the machine, [`disk`]
//! watches what others do to its disk, [`cpus`] keeps threads on some CPUs, and [`headroom`] checks that both can hold a load.

pub mod cpus;
pub mod daemon;
pub mod disk;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod headroom;
pub mod host;
pub mod listeners;
pub mod manifest;
pub mod prometheus;
pub mod usage;
