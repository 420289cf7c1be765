//! A Socket.IO 5 server over Engine.IO 4: WebSocket, long-polling, and the upgrade between them.
//!
//! An application implements [`App`], and a [`Server`] calls it: for each client that asks to connect to a namespace,
//! for each event, and for each end. A client in a namespace is a [`Socket`]; whoever holds it may send to it, from any
//! thread. A [`Frame`] is an event that was encoded once, for as many sockets as get it. The crate has no rooms: which
//! sockets belong together is the application's own state, under its own lock.
//!
//! A complete application, `examples/rooms.rs`:
//!
//! ```no_run
#![doc = include_str!("../examples/rooms.rs")]
//! ```
//!
//! Each worker is a thread with a listener of its own on the same port, and serves its connections alone. What the
//! application sends while a worker runs goes to each socket in one write. A client that reads too slowly is
//! disconnected at [`ServerConfig::outbound_limit`], so that it costs nobody else. An open WebSocket without traffic
//! holds no buffers. [`Server::counts`] has the counters, for a metrics page of any kind.
//!
//! The modules use only those below them:
//!
//! ```text
//! server    listeners, workers, HTTP, long-polling, WebSockets, pings        echo
//! session   one client: Engine.IO packets in, the namespaces it is in
//! app       what an application implements
//! socket    a client in a namespace; packets of Socket.IO
//! engine    frames, payloads, and the queue of each connection
//! counts    counters; disconnect_reason, config
//! ```

mod app;
mod config;
mod counts;
mod disconnect_reason;
mod echo;
// Public for `benches/frames.rs` alone.
#[doc(hidden)]
pub mod engine;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod server;
mod session;
mod socket;

pub use self::app::{App, Event};
pub use self::config::ServerConfig;
pub use self::counts::{Count, Counts};
pub use self::disconnect_reason::DisconnectReason;
pub use self::echo::EchoApp;
pub use self::engine::batch::write_batches;
pub use self::engine::frame::Frame;
pub use self::server::Server;
pub use self::socket::Socket;
