//! The requests of a run as hyper messages, built before it starts except for the numbers in them.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Uri};
use load::net::url::ServerUrl;
use load::plan::Invalid;
use traffic::{Encoding, Names, Template, Values};

use crate::requests::{HEAD, bodies, fields, path};
use crate::roles::redirect::{RedirectTarget, is_of_content};
use crate::settings::Settings;

pub(super) type Message = Request<Full<Bytes>>;

/// The requests to one server, in rotation.
#[derive(Debug)]
pub(super) struct Messages {
    method: Method,
    /// Scheme and authority of the URI in HTTP/2 (RFC 9113 §8.3.1); `None` in HTTP/1.1.
    origin: Option<(Scheme, Authority)>,
    path: Template,
    /// The URI, if the path is always the same.
    uri: Option<Uri>,
    /// Header fields that are always the same.
    headers: HeaderMap,
    /// The ones among them that a request without a body has, after a redirect.
    bare: HeaderMap,
    /// Header fields that differ between operations.
    numbered: Vec<(HeaderName, Template)>,
    bodies: Vec<Template>,
}

impl Messages {
    /// Builds the requests to one server from the settings.
    pub(super) fn new(settings: &Settings, server: &ServerUrl) -> Result<Self, Invalid> {
        let names = &Names::default();
        let wrong = |problem: String| Invalid::new(HEAD, format!("{problem}: correct it"));
        let method = settings.method.parse::<Method>();
        let method = method.map_err(|error| wrong(error.to_string()))?;
        let mut authority = server.authority.clone();
        let (mut headers, mut numbered) = (HeaderMap::new(), Vec::new());
        for (name, value) in fields(settings, server)? {
            let text = Template::parse(HEAD, value.as_bytes(), names, Encoding::Field)?;
            let name: HeaderName = name.parse().map_err(|error| wrong(format!("{error}")))?;
            if settings.http2 && name == HOST {
                value.clone_into(&mut authority);
            } else if settings.http2 && name == CONNECTION {
                // HTTP/2 has no connection-specific header fields (RFC 9113 §8.2.2).
            } else if text.is_fixed() {
                let value = value.parse::<HeaderValue>();
                headers.append(name, value.map_err(|error| wrong(error.to_string()))?);
            } else {
                numbered.push((name, text));
            }
        }
        let origin = if settings.http2 {
            let scheme = if server.tls {
                Scheme::HTTPS
            } else {
                Scheme::HTTP
            };
            let authority = authority.parse::<Authority>();
            Some((scheme, authority.map_err(|error| wrong(error.to_string()))?))
        } else {
            None
        };
        let path = path(settings, server)?;
        let path = Template::parse(HEAD, path.as_bytes(), names, Encoding::Path)?;
        let fixed = path.is_fixed().then(|| {
            uri(origin.as_ref(), &path.bytes(Values::from_number(0)))
                .ok_or_else(|| wrong("the path contains bytes that are not allowed".to_owned()))
        });
        let mut bare = headers.clone();
        for name in headers.keys().filter(|name| is_of_content(name.as_str())) {
            bare.remove(name);
        }
        Ok(Self {
            method,
            origin,
            path,
            uri: fixed.transpose()?,
            headers,
            bare,
            numbered,
            bodies: bodies(settings, names)?,
        })
    }

    pub(super) fn have_bodies(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// Returns the request of the operation with this number: the first one, or `hop`'s.
    pub(super) fn request(&self, number: u64, hop: Option<&RedirectTarget>) -> Message {
        let values = Values::from_number(number);
        let is_bare = hop.is_some_and(|hop| hop.bare);
        let index = (number % self.bodies.len().max(1) as u64) as usize;
        let body = self.bodies.get(index).filter(|_| !is_bare);
        let body = body.map(|body| body.bytes(values));
        let length = body.as_ref().map(Bytes::len);
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = if is_bare && self.method != Method::HEAD {
            Method::GET
        } else {
            self.method.clone()
        };
        let origin = self.origin.as_ref();
        let uri = match (hop, &self.uri) {
            (Some(hop), _) => uri(origin, hop.target().as_bytes()),
            (None, Some(uri)) => Some(uri.clone()),
            (None, None) => uri(origin, &self.path.bytes(values)),
        };
        *request.uri_mut() = uri.unwrap_or_default();
        let headers = request.headers_mut();
        headers.clone_from(if is_bare { &self.bare } else { &self.headers });
        let leaves_out = |name: &HeaderName| is_bare && is_of_content(name.as_str());
        let numbered = self.numbered.iter();
        for (name, text) in numbered.filter(|(name, _)| !leaves_out(name)) {
            if let Ok(value) = HeaderValue::from_maybe_shared(text.bytes(values)) {
                headers.append(name.clone(), value);
            }
        }
        if let Some(length) = length {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        request
    }
}

fn uri(origin: Option<&(Scheme, Authority)>, path: &[u8]) -> Option<Uri> {
    let path = PathAndQuery::try_from(path).ok()?;
    let Some((scheme, authority)) = origin else {
        return Some(path.into());
    };
    let uri = Uri::builder().scheme(scheme.clone());
    uri.authority(authority.clone())
        .path_and_query(path)
        .build()
        .ok()
}
