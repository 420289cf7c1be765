//! A presence server over Socket.IO: rooms, heartbeats and events, in memory or over Redis.
//!
//! ```text
//! client ── WebSocket, long-polling ──► workers, a thread each ──► packets     (socketio-server)
//!                                          │ App
//!                                          ▼
//!                                       requests ─► rooms, a lock each         (application, presence)
//! client ◄── frames, encoded once ───────┤ events, in the order of the room
//!                                          ▼
//! other nodes ◄── Redis ◄── maintenance: scripts of writes, messages, leases  (maintenance, node)
//! ```

mod application;

mod maintenance;
mod metrics;
mod node;
mod options;
pub mod presence;

pub use self::application::{Config, Daemon};
pub use self::node::ClusterSettings;
pub use self::options::Options;
