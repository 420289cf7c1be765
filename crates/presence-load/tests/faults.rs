//! Faults and endurance: the driver with real daemons, which are killed, cut off, and loaded with clients that stop half
//! way.
//!
//! The numbers of users are a tenth of those of the plans, or less, so that a debug build on a busy machine can keep up;
//! timeouts are long, because no test here is about speed.
#![allow(clippy::unwrap_used, reason = "a failed assumption fails the test")]

#[path = "faults/disturbances.rs"]
mod disturbances;
#[path = "faults/launched.rs"]
mod launched;
#[path = "faults/memory.rs"]
mod memory;
#[path = "faults/observer.rs"]
mod observer;
#[path = "faults/plan.rs"]
mod plan;
#[path = "faults/restarts.rs"]
mod restarts;
