//! The program `null-peer`, over plain sockets. The tests of the drivers measure its delays.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod front;
mod program;
