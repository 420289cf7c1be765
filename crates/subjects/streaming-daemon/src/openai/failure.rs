//! Failures of the backend.

use std::io;

use hyper::StatusCode;

/// The reason why the backend's response is missing or incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackendFailure {
    #[error("no data arrived within the backend timeout")]
    Timeout,
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    #[error("the request failed")]
    Request(#[from] hyper_util::client::legacy::Error),
    #[error("the response broke off")]
    Response(#[from] hyper::Error),
    #[error("it returned status {0}")]
    Status(StatusCode),
    #[error("it returned 200 without an event stream")]
    NoEventStream,
    #[error("it sent a line or an event of more than 1 MiB")]
    TooLong,
    #[error("it sent an event that is not a completion chunk")]
    Malformed(#[from] serde_json::Error),
    #[error("it reported an error in the stream: {0}")]
    Reported(String),
    #[error("it ended without a finish reason and without [DONE]")]
    Cut,
}
