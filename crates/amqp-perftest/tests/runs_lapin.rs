//! The same runs with the engine `lapin`: the ledger must not depend on the engine.

#[path = "runs.rs"]
mod runs;
