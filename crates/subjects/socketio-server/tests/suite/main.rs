//! Tests of the server through its sockets.

mod faults;
mod limits;
mod polling;
mod rooms;
mod shutdown;
mod support;
mod websocket;
