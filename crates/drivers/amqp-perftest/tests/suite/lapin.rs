//! The runs with the engine `lapin`: the ledger must not depend on the engine.

const ENGINE: &str = "lapin";

#[path = "runs/runs.rs"]
mod runs;
