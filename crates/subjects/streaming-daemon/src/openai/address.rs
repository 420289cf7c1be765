//! The address of the backend: `http://host:port/prefix` or `unix:/path`.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use hyper::Uri;

const COMPLETIONS: &str = "/v1/chat/completions";
const EXAMPLE: &str = "write for instance http://127.0.0.1:8081";

/// The address of an OpenAI-compatible API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendAddress {
    /// The URI of the completions. It is relative to the socket, if there is one.
    pub(super) uri: Uri,
    /// The path of a Unix socket to connect to.
    pub(super) socket: Option<Arc<Path>>,
}

impl BackendAddress {
    /// Returns the host and the port to connect to without a socket.
    pub(super) fn host_and_port(&self) -> (&str, u16) {
        // IPv6 addresses are in brackets, which name resolution does not accept.
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        (host, self.uri.port_u16().unwrap_or(80))
    }

    fn unix(path: &str) -> Result<Self, String> {
        if path.is_empty() {
            return Err("name the socket, for instance unix:/run/llm.sock".to_owned());
        }
        let uri = format!("http://localhost{COMPLETIONS}");
        Ok(Self {
            uri: uri.parse().expect("a host and a path are a URI"),
            socket: Some(Path::new(path).into()),
        })
    }

    fn tcp(uri: &Uri) -> Result<Self, String> {
        let authority = uri.authority().ok_or(EXAMPLE)?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err(format!(
                "a query or user information is not allowed; {EXAMPLE}"
            ));
        }
        let prefix = uri.path().trim_end_matches('/');
        let uri = format!("http://{authority}{prefix}{COMPLETIONS}");
        Ok(Self {
            uri: uri.parse().map_err(|_| EXAMPLE)?,
            socket: None,
        })
    }
}

impl FromStr for BackendAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::unix(path);
        }
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("{error}; {EXAMPLE}"))?;
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

    #[test]
    fn an_address_is_a_host_with_or_without_a_prefix_or_a_socket() {
        for (text, connect_to, uri) in [
            ("http://a:81", ("a", 81), "http://a:81/v1/chat/completions"),
            ("http://a/", ("a", 80), "http://a/v1/chat/completions"),
            (
                "http://[::1]:81/x/",
                ("::1", 81),
                "http://[::1]:81/x/v1/chat/completions",
            ),
        ] {
            let address: BackendAddress = text.parse().unwrap();
            assert_eq!(address.host_and_port(), connect_to);
            assert_eq!(
                (address.uri.to_string().as_str(), address.socket),
                (uri, None)
            );
        }
        let unix: BackendAddress = "unix:/run/a b.sock".parse().unwrap();
        assert_eq!(unix.socket, Some(Path::new("/run/a b.sock").into()));
        assert_eq!(unix.uri, "http://localhost/v1/chat/completions");
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
            let error = text.parse::<BackendAddress>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
