//! The requests of a run as hyper takes them, built before it begins but for the numbers that are put in.

use harness::plan::Invalid;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Uri};

use crate::redirect::{Hop, is_of_content};
use crate::requests::{Text, bodies, fields, path};
use crate::settings::Settings;
use crate::target::Server;

const HEAD: &str = "driver.path or driver.headers";

/// One of them.
pub(super) type Message = Request<Full<Bytes>>;

/// The requests to one server, in rotation.
#[derive(Debug)]
pub(super) struct Messages {
    method: Method,
    /// What stands before the path in HTTP/2 (RFC 9113 §8.3.1), and in none of HTTP/1.1.
    origin: Option<(Scheme, Authority)>,
    path: Path,
    /// Those without a number.
    headers: HeaderMap,
    /// Those of them that a request without content has, after a redirect.
    bare: HeaderMap,
    /// Those with one.
    numbered: Vec<(HeaderName, Text)>,
    bodies: Vec<Body>,
}

#[derive(Debug)]
enum Path {
    Fixed(Uri),
    Numbered(Text),
}

#[derive(Debug)]
enum Body {
    Fixed(Bytes),
    Numbered(Text),
}

impl Messages {
    /// Those that the settings ask for, to one server.
    ///
    /// # Errors
    /// A header or an id that is none, a file that can't be read.
    pub(super) fn new(settings: &Settings, server: &Server) -> Result<Self, Invalid> {
        let wrong = |problem: String| Invalid::new(HEAD, format!("{problem}: correct it"));
        let method = settings.method.parse::<Method>();
        let method = method.map_err(|error| wrong(error.to_string()))?;
        let mut authority = server.authority.clone();
        let (mut headers, mut numbered) = (HeaderMap::new(), Vec::new());
        for (name, value) in fields(settings, server)? {
            let text = Text::parse(HEAD, value.as_bytes())?;
            let name: HeaderName = name.parse().map_err(|error| wrong(format!("{error}")))?;
            if settings.http2 && name == HOST {
                value.clone_into(&mut authority);
            } else if settings.http2 && name == CONNECTION {
                // What a connection of HTTP/2 does is not said in heads (RFC 9113 §8.2.2).
            } else if text.is_fixed() {
                let value = value.parse::<HeaderValue>();
                headers.append(name, value.map_err(|error| wrong(error.to_string()))?);
            } else {
                numbered.push((name, text));
            }
        }
        let origin = match settings.http2 {
            true => {
                let scheme = if server.tls {
                    Scheme::HTTPS
                } else {
                    Scheme::HTTP
                };
                let authority = authority.parse::<Authority>();
                Some((scheme, authority.map_err(|error| wrong(error.to_string()))?))
            }
            false => None,
        };
        let text = Text::parse(HEAD, path(settings, server)?.as_bytes())?;
        let path = match text.is_fixed() {
            true => Path::Fixed(
                uri(origin.as_ref(), rendered(&text, 0))
                    .ok_or_else(|| wrong("the path has bytes that none may have".to_owned()))?,
            ),
            false => Path::Numbered(text),
        };
        let body = |bytes: Vec<u8>| -> Result<Body, Invalid> {
            let text = Text::parse("driver.body", &bytes)?;
            Ok(match text.is_fixed() {
                true => Body::Fixed(bytes.into()),
                false => Body::Numbered(text),
            })
        };
        let mut bare = headers.clone();
        for name in headers.keys().filter(|name| is_of_content(name.as_str())) {
            bare.remove(name);
        }
        Ok(Self {
            method,
            origin,
            path,
            headers,
            bare,
            numbered,
            bodies: bodies(settings)?
                .into_iter()
                .map(body)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether there is content to send.
    pub(super) fn have_bodies(&self) -> bool {
        !self.bodies.is_empty()
    }

    /// What an operation of this number asks: where it was led, or at first.
    pub(super) fn of(&self, number: u64, hop: Option<&Hop>) -> Message {
        let is_bare = hop.is_some_and(|hop| hop.bare);
        let place = (number % self.bodies.len().max(1) as u64) as usize;
        let body = self.bodies.get(place).filter(|_| !is_bare);
        let body = body.map(|body| match body {
            Body::Fixed(bytes) => bytes.clone(),
            Body::Numbered(text) => rendered(text, number).into(),
        });
        let length = body.as_ref().map(Bytes::len);
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = match is_bare && self.method != Method::HEAD {
            true => Method::GET,
            false => self.method.clone(),
        };
        *request.uri_mut() = match (hop, &self.path) {
            (Some(hop), _) => self.uri(hop.target()),
            (None, Path::Fixed(uri)) => uri.clone(),
            // What is put in are digits: they can't make a path of what is none.
            (None, Path::Numbered(text)) => self.uri(rendered(text, number)),
        };
        let headers = request.headers_mut();
        headers.clone_from(if is_bare { &self.bare } else { &self.headers });
        let leaves_out = |name: &HeaderName| is_bare && is_of_content(name.as_str());
        let numbered = self.numbered.iter();
        for (name, text) in numbered.filter(|(name, _)| !leaves_out(name)) {
            if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(rendered(text, number))) {
                headers.append(name.clone(), value);
            }
        }
        if let Some(length) = length {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        request
    }

    fn uri(&self, path: impl AsRef<[u8]>) -> Uri {
        uri(self.origin.as_ref(), path).unwrap_or_default()
    }
}

fn rendered(text: &Text, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.length(number));
    text.render(number, &mut bytes);
    bytes
}

fn uri(origin: Option<&(Scheme, Authority)>, path: impl AsRef<[u8]>) -> Option<Uri> {
    let path = PathAndQuery::try_from(path.as_ref()).ok()?;
    let Some((scheme, authority)) = origin else {
        return Some(path.into());
    };
    let uri = Uri::builder().scheme(scheme.clone());
    uri.authority(authority.clone())
        .path_and_query(path)
        .build()
        .ok()
}
