//! A stand-in for a language model behind an OpenAI-compatible streaming chat API: it computes
//! nothing and answers by a pattern, well or badly, to test what talks to such an API.
//!
//! ```text
//! POST /v1/chat/completions ─► Server ─► Asked ─► Pattern ─► Script ─► chunks at their pace
//! ```
//!
//! HTTP/1.1 and HTTP/2 (prior knowledge) are served on one port or Unix socket. The pattern is the
//! request's `X-Test-Pattern` header or `test_pattern` key, else the server's own.

mod asked;
mod counts;
mod listener;
mod options;
mod pattern;
mod script;
mod server;

pub use self::counts::Counts;
pub use self::listener::Listener;
pub use self::options::Options;
pub use self::pattern::Pattern;
pub use self::server::{Server, Settings};
