//! An AMQP 0-9-1 broker: one thread serves all connections and owns all state, so there is nothing to lock.
//!
//! ```text
//! client ── bytes ──► a task per connection ── one read = one batch ──► Broker     (server)
//!                                                                        │ frames, messages       (frame, incoming)
//!                                                                        │ handshake, methods     (broker/*)
//!                                                                        │ exchanges ─► queues    (broker/topology, exchange, topic, queue)
//!                                                                        │ queues ─► consumers    (broker/delivery, deliveries)
//! client ◄── one write for all of a turn ── Output of each connection ◄──┤                        (outbox, output)
//! disk   ◄── a thread that writes and syncs ◄── records of a turn ◄────┘                        (log, broker/store)
//! scraper ◄── /metrics, /healthz, /api (management, broker/describe)
//! ```

mod arena;
mod broker;
mod carbon_copies;
mod channel;
mod confirms;
mod connection;
mod counts;
mod definitions;
mod deliveries;
mod exchange;
mod failure;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod incoming;
pub mod log;
mod management;
mod message;
mod options;
mod outbox;
mod output;
mod queue;
mod server;
mod topic;
mod vhost;

pub use self::broker::direct::{Client, Direct};
pub use self::options::{Config, Options};
pub use self::server::Server;
