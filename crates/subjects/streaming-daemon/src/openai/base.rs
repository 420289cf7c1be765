//! The address of the backend: `http://host:port/prefix` or `unix:/path`.

use std::path::PathBuf;
use std::str::FromStr;

use hyper::Uri;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};

const COMPLETIONS: &str = "/v1/chat/completions";

/// The address of an OpenAI-compatible API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub(super) endpoint: Endpoint,
    /// The authority of requests.
    pub(super) authority: Authority,
    pub(super) path: PathAndQuery,
}

/// The endpoint to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Base {
    /// Returns the complete URI of the completions, as HTTP/2 needs it.
    pub(super) fn uri(&self) -> Uri {
        let mut parts = hyper::http::uri::Parts::default();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(self.path.clone());
        Uri::from_parts(parts).expect("a scheme, an authority and a path are a URI")
    }

    fn unix(path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Err("name the socket, for instance unix:/run/llm.sock".to_owned());
        }
        Ok(Self {
            endpoint: Endpoint::Unix(PathBuf::from(path)),
            authority: Authority::from_static("localhost"),
            path: PathAndQuery::from_static(COMPLETIONS),
        })
    }

    fn tcp(uri: &Uri) -> Result<Self, String> {
        let example = "write for instance http://127.0.0.1:8081";
        let authority = uri.authority().ok_or(example)?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err(format!(
                "a query or user information is not allowed; {example}"
            ));
        }
        let prefix = uri.path().trim_end_matches('/');
        let path = PathAndQuery::try_from(format!("{prefix}{COMPLETIONS}"))
            .map_err(|_| example.to_owned())?;
        // IPv6 addresses are in brackets, which name resolution does not accept.
        let host = authority.host().trim_matches(['[', ']']);
        Ok(Self {
            endpoint: Endpoint::Tcp(host.to_owned(), uri.port_u16().unwrap_or(80)),
            authority: authority.clone(),
            path,
        })
    }
}

impl FromStr for Base {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::unix(path);
        }
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("{error}; write for instance http://127.0.0.1:8081"))?;
        match uri.scheme_str() {
            Some("http") => Self::tcp(&uri),
            Some("https") => Err(
                "this daemon does not support TLS: use a local proxy that does, by http:// or unix:"
                    .to_owned(),
            ),
            _ => Err(
                "write http:// and host and port, for instance http://127.0.0.1:8081, or unix: \
                and a path, for instance unix:/run/llm.sock"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Endpoint, String) {
        let base: Base = text.parse().unwrap();
        (base.endpoint.clone(), base.uri().to_string())
    }

    #[test]
    fn a_base_is_an_address_with_or_without_a_prefix_or_a_socket() {
        let tcp = |host: &str, port| Endpoint::Tcp(host.to_owned(), port);
        for (text, endpoint, uri) in [
            (
                "http://a:81",
                tcp("a", 81),
                "http://a:81/v1/chat/completions",
            ),
            ("http://a/", tcp("a", 80), "http://a/v1/chat/completions"),
            (
                "http://[::1]:81/x/",
                tcp("::1", 81),
                "http://[::1]:81/x/v1/chat/completions",
            ),
            (
                "unix:/run/a b.sock",
                Endpoint::Unix("/run/a b.sock".into()),
                "http://localhost/v1/chat/completions",
            ),
        ] {
            assert_eq!(parse(text), (endpoint, uri.to_owned()));
        }
    }

    #[test]
    fn an_unusable_address_is_answered_with_an_example_or_a_remedy() {
        for (text, word) in [
            ("", "for instance"),
            ("127.0.0.1:8081", "http://"),
            ("https://api.example.com", "proxy"),
            ("unix:", "unix:/"),
            ("http://", "for instance"),
            ("http://a?b=c", "query"),
            ("http://user@a", "user"),
            ("ftp://a", "http://"),
        ] {
            let error = text.parse::<Base>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
