//! Tests of the daemon through its sockets.

mod faults;
mod limits;
mod polling;
mod process;
mod shutdown;
mod support;
mod websocket;
