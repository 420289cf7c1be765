//! Engine.IO 4 below its sessions: packets as frames and payloads, and the queue of each connection.

pub(crate) mod batch;
pub(crate) mod connection;
pub mod frame;
pub(crate) mod payload;
pub mod websocket;
