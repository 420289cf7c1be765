//! Has hyper send requests, in either version of HTTP.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};

use super::seat::Seat;

/// Has hyper send requests.
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

    /// Whether the connection takes another request.
    pub(super) async fn ready(&mut self, seat: &Seat) -> bool {
        let ready = match self {
            Self::One(sender) => seat.within(sender.ready()).await,
            Self::Many(sender) => Ok(sender.ready().await),
        };
        matches!(ready, Ok(Ok(())))
    }
}
