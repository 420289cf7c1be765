//! The client's side of WebSocket (RFC 6455), without I/O.
//!
//! [`Handshake`] makes the request and checks the response. [`append_frame`] writes masked frames, and [`Reader`] reads
//! the server's messages in place.

mod frame;
mod handshake;
mod mask;
mod reader;

pub use frame::{Opcode, append_close, append_frame};
pub use handshake::Handshake;
pub use mask::{Masks, apply_mask};
pub use reader::{Message, Reader};
