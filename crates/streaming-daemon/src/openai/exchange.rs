//! One request to the backend whose answer has begun.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{Response, StatusCode};
use tokio::time::timeout;

use super::failure::BackendFailure;
use super::pool::{Lease, Pool};

/// How long the end of a body may take after its last event. Mostly it is there already.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// An answer that is coming in. Dropping it takes the request back: a connection of HTTP/1.1 is
/// closed, a stream of HTTP/2 reset.
pub(crate) struct Exchange<'a> {
    body: Incoming,
    lease: Lease,
    pool: &'a Pool,
    /// For each pause between two pieces.
    timeout: Duration,
}

impl<'a> Exchange<'a> {
    /// Looks at the head, which has to be that of an event stream.
    pub(super) fn new(
        response: Response<Incoming>,
        lease: Lease,
        pool: &'a Pool,
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
            lease,
            pool,
            timeout,
        })
    }

    /// The next piece of the body; `None` at its end in good order. What is not asked for is left
    /// with the backend but for a few tens of KiB, so whoever is slow slows it down.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BackendFailure> {
        loop {
            let frame = timeout(self.timeout, self.body.frame()).await;
            match frame.map_err(|_| BackendFailure::Timeout)? {
                None => return Ok(None),
                // Trailers are of no interest.
                Some(frame) => match frame?.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
            }
        }
    }

    /// Leaves the connection in good order for the next request.
    pub(crate) async fn close(mut self) {
        let end = async {
            while let Some(frame) = self.body.frame().await {
                frame.ok()?;
            }
            match self.lease {
                Lease::Whole(mut sender) => sender.ready().await.ok().map(|()| sender),
                Lease::Stream { .. } => None,
            }
        };
        if let Ok(Some(sender)) = timeout(END_TIMEOUT, end).await {
            self.pool.put_back(sender);
        }
    }
}

fn is_event_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("text/event-stream")
}
