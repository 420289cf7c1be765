//! Tests of the program against scripted, faulty and real daemons.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calibration;
mod calls;
mod check;
mod conformance;
mod deaths;
mod divided;
mod drive;
mod ends;
mod faults;
mod faulty;
mod handoffs;
mod left_over;
mod live_line;
mod mistakes;
mod outcomes;
mod pace;
mod parts;
mod reference;
mod results;
mod target;

/// Not a separate test: runs the faulty daemon in its own process.
#[test]
fn is_the_daemon_where_it_was_launched_as_one() {
    faulty::serve_if_launched();
}
