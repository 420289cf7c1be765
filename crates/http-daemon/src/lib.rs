//! A static HTTP server: the embedded default of the HTTP driver, and a subject beside nginx.
//!
//! ```text
//! the daemon (daemon) ── makes the folder, certificate, sockets ── forks, if asked to ──► processes (process)
//!    │ /metrics, /healthz: the counts of all processes (counts)                               │ threads
//!    ▼                                                                                        ▼
//! scraper                                          worker: one listener, one runtime, one thread (worker)
//!                                                                                             │ accepts
//!   client ◄──► connection (connection) ◄── hyper ── service ──┬── files (files)              │
//!                                                              └── faults (faults)            │
//!   client ◄──► sink: the same sockets in one epoll loop, without hyper (sink) ◄──────────────┘
//! ```

mod body;
mod config;
mod connection;
mod conversation;
mod counts;
mod daemon;
mod faults;
mod files;
mod limits;
mod listener;
mod options;
mod process;
mod service;
mod sink;
mod stop;
mod tls;
mod turns;
mod worker;

pub use self::config::{Certificate, Config};
pub use self::daemon::run;
pub use self::options::{Level, Options};

/// What a client gets whose connection is one too many.
const REFUSAL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
