//! Shared parts of the daemons written in Rust: options, limits, sockets, shutdown, log, metrics page. It contains no
//! protocol code.

mod accept;
pub mod activation;
pub mod cli;
pub mod clock;
mod descriptor;
mod metrics_page;
mod metrics_server;
pub mod open_files;
mod rate_limited_log;
mod shutdown;
mod unix_socket;

pub use self::accept::{Accept, accept};
pub use self::cli::parse_duration;
pub use self::descriptor::{accept_waiting, watch};
pub use self::metrics_page::MetricsPage;
pub use self::metrics_server::{MetricsServer, Page, PageRequest};
pub use self::rate_limited_log::{RateLimitedLog, StderrLines, quote};
pub use self::shutdown::{Signals, finish_within};
pub use self::unix_socket::{DEFAULT_MODE, SocketFile, UnixSocket, backlog};
