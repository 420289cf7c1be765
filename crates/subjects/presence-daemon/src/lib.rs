//! A presence server over Socket.IO: rooms, heartbeats and events, in memory or over Redis.
//!
//! ```text
//! client ── WebSocket, long-polling ──► workers, a thread each ──► packets     (server, engine, socket)
//!                                          │ App
//!                                          ▼
//!                                       requests ─► rooms, a lock each         (application, presence)
//! client ◄── frames, encoded once ───────┤ events, in the order of the room
//!                                          ▼
//! other nodes ◄── Redis ◄── maintenance: scripts of writes, messages, leases  (maintenance, cluster)
//! ```

pub mod app;
mod application;
mod cluster;
pub mod config;
mod counts;
pub mod echo;
pub mod engine;
mod maintenance;
mod options;
pub mod presence;
pub mod server;
pub mod socket;

pub use self::application::{Config, Daemon};
pub use self::cluster::ClusterSettings;
pub use self::options::Options;
