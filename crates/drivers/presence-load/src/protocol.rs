//! The octets of a presence client: WebSocket frames, HTTP long-polling, Engine.IO and Socket.IO packets, and the fields
//! of presence messages. Nothing here does I/O, and nothing here decides what a client does.
//!
//! [`transport::Transport`] is one client's connection. It turns octets that were read into [`transport::Event`]s, and
//! messages that are sent into octets and [`transport::Actions`]. [`packet`] and [`presence`] take a message apart
//! without allocating.

pub mod error;
pub mod json;
pub mod packet;
pub mod presence;
pub mod transport;
pub mod websocket;

pub use error::ProtocolError;
