//! A static HTTP server: the default daemon of the HTTP driver, and a subject to compare with nginx.
//!
//! ```text
//! the daemon (daemon) ── creates the folder, certificate, sockets ── may fork ──────────► processes (process)
//!    │ /metrics, /healthz: the counts of all processes (counts)                               │ threads
//!    ▼                                                                                        ▼
//! scraper                                          worker: one listener, one runtime, one thread (worker)
//!                                                                                             │ accepts
//!   client ◄──► connection (connection) ◄── http1, or hyper for HTTP/2 ◄───┬── service         │
//!                                           (conversation)                 ├── files, conditions
//!                                                                          └── faults         │
//!   client ◄──► sink: the same sockets in one epoll loop, heads are only counted (sink) ◄─────┘
//! ```

mod answer;
mod body;
mod byte_ranges;
mod conditions;
mod connection;
mod conversation;
mod counts;
mod daemon;
mod fair_queue;
mod faults;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod http1;
mod listener;
mod options;
mod process;
mod resources;
mod service;
mod sink;
mod stop;
mod tls;
mod worker;

pub use self::daemon::run;
pub use self::options::{Config, Level, Options};

/// The response to a connection beyond the limit.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
