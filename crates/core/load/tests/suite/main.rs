//! Tests of schedules and of the pacer.

mod pacing;
mod schedule;
mod users;
