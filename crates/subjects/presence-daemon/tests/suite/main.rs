//! Tests of the daemon through its sockets.

mod faults;
mod limits;
mod polling;
mod presence;
mod process;
mod shutdown;
mod support;
mod websocket;
