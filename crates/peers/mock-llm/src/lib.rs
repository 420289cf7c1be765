//! A mock language model behind an OpenAI-compatible streaming chat API. It computes nothing and responds by a pattern,
//! correctly or with errors, to test clients of such an API.
//!
//! ```text
//! POST /v1/chat/completions ─► Server ─► Asked ─► Pattern ─► Script ─► chunks at their pace
//! ```
//!
//! It serves HTTP/1.1 and HTTP/2 (prior knowledge) on one port or Unix socket. The pattern is the request's
//! `X-Test-Pattern` header or `test_pattern` key, otherwise the server's own.

mod asked;
mod counts;
mod listener;
mod options;
mod pattern;
mod script;
mod server;

pub use self::counts::Counts;
pub use self::listener::Listener;
pub use self::options::{Options, Settings};
pub use self::pattern::Pattern;
pub use self::server::Server;
