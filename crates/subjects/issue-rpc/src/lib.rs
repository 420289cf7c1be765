//! The protocol of the issue daemon: one JSON object per line in both directions over a Unix socket, one answer per
//! request, in order.
//!
//! A line is parsed to a [`Request`], whose [`Operation`] is performed on a store by [`read`], [`write`](write()) or
//! [`Direct`], and answered by an [`Answer`]. The daemon and direct mode perform operations by the same code, so they
//! give the same answers. [`Client`] is the other side: it sends one request after the other, each with a deadline.
//! [`Access`] uses the daemon of a database while one runs, and the database itself otherwise.

#[expect(
    clippy::disallowed_types,
    reason = "the program that waits for its answers has no runtime"
)]
mod access;
mod answer;
mod batch;
#[expect(
    clippy::disallowed_types,
    reason = "the timeouts of blocking sockets cannot be paused"
)]
mod client;
mod code;
mod direct;
mod execute;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod operation;
mod request;
mod socket_path;
mod version;

pub use access::Access;
pub use answer::Answer;
pub use client::{Call, Client, ClientError, check_peer};
pub use code::Code;
pub use direct::Direct;
pub use execute::{COMPATIBLE_PAGE, read, write};
pub use operation::{
    Batch, BatchItem, BatchMode, BatchOperation, MAX_OPERATIONS, MAX_RECORDS, Operation, Read,
    Service, Write,
};
pub use request::{Header, IdempotencyKey, MAX_LINE, Rejection, Request, RequestId, WriteRequest};
pub use socket_path::{check_socket_folder, database_identity, socket_path};
pub use version::{VERSION, check_version};
