//! Presence: who is in a room right now.
//!
//! Requests change a room while they hold its lock, and send its events before they release it. With other nodes, they
//! queue a write instead, and the room goes on when the store has numbered the event.

pub(crate) mod answer;
mod clock;
pub(crate) mod cluster;
pub(crate) mod counts;
pub(crate) mod event;
mod heartbeat;
mod join;
mod json;
mod leave;
pub(crate) mod member;
pub(crate) mod refusal;
mod registry;
mod request;
pub(crate) mod room;
pub(crate) mod service;
mod session;
mod settings;
mod sink;
mod state;

pub use self::clock::Clock;
pub use self::service::{Presence, Request};
pub use self::session::Session;
pub use self::settings::Settings;
pub use self::sink::Sink;

#[cfg(test)]
mod tests;
