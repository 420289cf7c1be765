//! Lets pages of other origins use the server (CORS, Fetch standard §3.2).

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};

use crate::config::ServerConfig;

/// Returns the origin that the response allows, if the request has one that may use the server.
pub(crate) fn allowed_origin(config: &ServerConfig, headers: &HeaderMap) -> Option<HeaderValue> {
    let allowed = config.cors_origin.as_deref()?;
    let origin = headers.get(header::ORIGIN)?;
    (allowed == "*" || origin == allowed).then(|| origin.clone())
}

/// Allows an origin to read a response.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
}

/// Answers the question which requests are allowed.
pub(crate) fn preflight(asked: &HeaderMap) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    let day = HeaderValue::from_static("86400");
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, day);
    response
}
