//! A daemon that keeps issues in one SQLite database for many agents. They speak JSON lines over a Unix socket.
//!
//! One thread serves all connections, one writes, and a few read. The writer commits requests in groups: those that are
//! queued when a commit returns are the next group, so the disk is waited for once per group. An answer is sent when the
//! group of its request is on the disk.
//!
//! The parts that decide are free of threads, sockets and clocks, so that a simulation can run them: [`Session`] orders
//! the requests of a connection, [`Queue`] forms groups, and [`Committer`] stores them.

mod committer;
mod config;
mod connection;
mod counts;
mod daemon;
mod database_files;
mod instance_lock;
mod lines;
mod options;
mod queue;
mod service;
mod session;
mod workers;

pub use committer::{Committer, Health};
pub use config::{Config, Limits};
pub use daemon::Daemon;
pub use database_files::DatabaseFiles;
pub use options::Options;
pub use queue::{Full, Group, Job, Queue};
pub use session::{Session, Step, Task};
