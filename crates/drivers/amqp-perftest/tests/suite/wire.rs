//! The runs with the engine `wire`.

const ENGINE: &str = "wire";

#[path = "runs/runs.rs"]
mod runs;
