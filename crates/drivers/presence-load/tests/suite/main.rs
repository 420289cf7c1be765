//! Tests of the program and of its parts, against scripted servers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod audited;
mod calibration;
mod calls;
mod comparison;
mod conversation;
mod divided;
mod faults;
mod javascript_client;
mod left_over;
mod losses;
mod mistakes;
mod modes;
mod protocol;
mod reference;
mod sdk;
mod server;
mod support;
