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

/// Returns true if the request comes from a page of another origin that may not use the server. Browsers open
/// WebSockets to any server, whatever the response says (RFC 6455 §10.2).
pub(crate) fn is_foreign(config: &ServerConfig, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return false;
    };
    // A proxy may end TLS, so the scheme is not compared.
    let authority = origin.to_str().ok().and_then(|it| it.split_once("://"));
    let host = headers.get(header::HOST).and_then(|it| it.to_str().ok());
    let is_own = authority
        .zip(host)
        .is_some_and(|((_, authority), host)| authority.eq_ignore_ascii_case(host));
    !is_own && allowed_origin(config, headers).is_none()
}

/// Allows an origin to read a response, and to send cookies with its requests.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let credentials = HeaderValue::from_static("true");
    headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials);
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
