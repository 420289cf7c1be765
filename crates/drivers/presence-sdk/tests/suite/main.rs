//! Tests of the client library against a small server in memory and against scripted ones.

mod cancellation;
mod connecting;
mod faults;
mod reconnection;
mod rooms;
mod script;
mod sequence;
mod server;
mod tls;
