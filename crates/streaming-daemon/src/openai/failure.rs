//! What can go wrong with the backend.

use std::error::Error;
use std::fmt::Write;
use std::io;

use hyper::StatusCode;

/// Why the backend's answer did not come, or not to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackendFailure {
    #[error("nothing came within the backend timeout")]
    Timeout,
    #[error("it could not be connected to")]
    Connect(#[source] io::Error),
    #[error("its connection failed")]
    Http(#[from] hyper::Error),
    #[error("it answered with the status {0}")]
    Status(StatusCode),
    #[error("it answered 200 without an event stream")]
    NoEventStream,
    #[error("it sent a line or an event of more than 1 MiB")]
    TooLong,
    #[error("it sent an event that is no completion chunk")]
    Malformed(#[from] serde_json::Error),
    #[error("it reported an error in the stream: {0}")]
    Reported(String),
    #[error("it ended without a finish reason and without [DONE]")]
    Cut,
}

impl BackendFailure {
    /// What happened, with its causes.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(text, ": {error}").expect("writing to a string cannot fail");
            cause = error.source();
        }
        text
    }
}
