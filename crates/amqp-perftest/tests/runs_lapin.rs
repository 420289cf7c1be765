//! The same runs with the engine `lapin`: the account must not depend on the engine.

#[path = "runs.rs"]
mod runs;
