//! A request to the backend whose response has started.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{Response, StatusCode};
use tokio::time::timeout;

use super::client::HttpClient;
use super::failure::BackendFailure;

/// Timeout for the end of a body after its last event. Usually it has already arrived.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// A response that is being received. Dropping it cancels the request: an HTTP/1.1 connection is closed, an HTTP/2
/// stream reset.
pub(crate) struct Exchange {
    body: Incoming,
    /// Counts this request among its client's.
    _client: Arc<HttpClient>,
    /// Timeout of each pause between two pieces.
    timeout: Duration,
}

impl Exchange {
    /// Checks the head, which must announce an event stream.
    pub(super) fn new(
        response: Response<Incoming>,
        client: Arc<HttpClient>,
        timeout: Duration,
    ) -> Result<Self, BackendFailure> {
        if response.status() != StatusCode::OK {
            return Err(BackendFailure::Status(response.status()));
        }
        if !is_event_stream(&response) {
            return Err(BackendFailure::NoEventStream);
        }
        Ok(Self {
            body: response.into_body(),
            _client: client,
            timeout,
        })
    }

    /// Returns the next piece of the body; `None` at its regular end. Only a few tens of KiB are read ahead, so a slow
    /// reader slows the backend down.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BackendFailure> {
        loop {
            let frame = timeout(self.timeout, self.body.frame()).await;
            match frame.map_err(|_| BackendFailure::Timeout)? {
                None => return Ok(None),
                // Trailers are ignored.
                Some(frame) => match frame?.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
            }
        }
    }

    /// Reads the end of the body, so that the connection can serve the next request.
    pub(crate) async fn close(mut self) {
        let end = async { while let Some(Ok(_)) = self.body.frame().await {} };
        // Without the end, the connection is closed.
        let _ = timeout(END_TIMEOUT, end).await;
    }
}

fn is_event_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("text/event-stream")
}
