//! Faults and endurance: the driver with real daemons, which are killed, cut off, and loaded with clients that stop
//! half way.
//!
//! The numbers of users are a tenth of the plans' numbers, or less, so that a debug build on a busy machine can keep
//! up; timeouts are long, because no test here is about speed.

mod disturbances;
mod launched;
mod memory;
mod observer;
mod plan;
mod restarts;
