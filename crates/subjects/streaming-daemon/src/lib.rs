//! A streaming daemon: it receives client sockets over a Unix socket (`SCM_RIGHTS`) and responds to each with
//! server-sent events at a fixed pace.
//!
//! ```text
//! sender ── connect, sendmsg(payload + client socket) ──► Listener ─► Shard × cores
//!                                                                       │ accept, receive   (shard/intake, handoff)
//! client ◄── head, event, event, …, [DONE], close ──────────────────────┤ heap by due time  (shard, stream)
//!                                                                       │ write what is due (shard/writes)
//! backend ◄── request, answer (openai) ◄── a task for each stream ◄──────┤ with a real backend (relay)
//! scraper ◄── /metrics, /healthz (daemon-kit) ◄── Metrics ◄───────────────────┘
//! ```
//!
//! The wire contract is in `daemons/README.md`; the design and its costs are described in the module `shard`.

mod accept_token;
mod answer;
mod client;
mod config;
mod daemon;
mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod handoff;
mod head;
mod incoming;
mod listener;
mod metrics;
mod openai;
mod options;
mod peers;
mod relay;
mod request;
mod shard;
mod shared;
mod socket;
mod stream;

pub use self::config::{Backend, Config, SocketType};
pub use self::daemon::Daemon;
pub use self::metrics::{Metrics, Summary};
pub use self::openai::{BackendAddress, Http, Key, OpenAiConfig};
pub use self::options::Options;
pub use self::peers::Peers;
