//! A hyper client of either version of HTTP.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};

use super::slot::RequestSlot;

/// The sending half of a hyper connection.
pub(super) enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Many(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Self::Many(_))
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(sender) => sender.send_request(request).await,
            Self::Many(sender) => sender.send_request(request).await,
        }
    }

    /// Waits until the connection accepts another request; returns false if it does not.
    pub(super) async fn ready(&mut self, slot: &RequestSlot) -> bool {
        let ready = match self {
            Self::One(sender) => slot.with_deadline(sender.ready()).await,
            Self::Many(sender) => Ok(sender.ready().await),
        };
        matches!(ready, Ok(Ok(())))
    }
}
