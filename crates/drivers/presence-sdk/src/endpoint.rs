//! Where to connect to, from the user's URL.

use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use url::{Host, Url};

use crate::error::Error;
use crate::options::Options;

/// A server: its address, and the HTTP request that opens a WebSocket to it.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// The URL of the WebSocket, with the query.
    url: Url,
}

impl Endpoint {
    /// Parses a URL with the scheme `http`, `https`, `ws` or `wss`. Without a path, `/socket.io/` is used.
    pub(crate) fn parse(text: &str, options: &Options) -> Result<Self, Error> {
        let invalid = |reason: String| Error::InvalidUrl {
            url: text.to_owned(),
            reason,
        };
        let mut url = Url::parse(text).map_err(|error| invalid(error.to_string()))?;
        let scheme = match url.scheme() {
            "http" | "ws" => "ws",
            "https" | "wss" => "wss",
            other => return Err(invalid(format!("the scheme is `{other}`"))),
        };
        let is_without_host = url.host_str().is_none_or(str::is_empty);
        if is_without_host || url.set_scheme(scheme).is_err() {
            return Err(invalid("the host is missing".to_owned()));
        }
        if matches!(url.path(), "" | "/") {
            url.set_path("/socket.io/");
        }
        url.set_fragment(None);
        let mut query = url.query_pairs_mut();
        query
            .append_pair("EIO", "4")
            .append_pair("transport", "websocket");
        query.extend_pairs(&options.query);
        drop(query);
        Ok(Self { url })
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.url.scheme() == "wss"
    }

    /// Returns the host without brackets, and the port.
    pub(crate) fn address(&self) -> (String, u16) {
        let host = match self.url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => String::new(),
        };
        let port = self.url.port_or_known_default();
        (host, port.expect("ws and wss have default ports"))
    }

    /// Builds the HTTP request with the user's headers.
    pub(crate) fn request(&self, options: &Options) -> Result<Request, Error> {
        let mut request =
            self.url
                .as_str()
                .into_client_request()
                .map_err(|error| Error::InvalidUrl {
                    url: self.url.to_string(),
                    reason: error.to_string(),
                })?;
        for (name, value) in &options.headers {
            let invalid = |reason: String| Error::InvalidArgument {
                argument: "a header",
                reason: format!("{name}: {reason}"),
            };
            let key = HeaderName::from_bytes(name.as_bytes());
            let key = key.map_err(|error| invalid(error.to_string()))?;
            let value = HeaderValue::from_str(value).map_err(|error| invalid(error.to_string()))?;
            request.headers_mut().insert(key, value);
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Endpoint {
        Endpoint::parse(text, &Options::new().query("k", "a b")).unwrap()
    }

    #[test]
    fn plain_urls_get_the_path_and_the_query_of_socket_io() {
        let endpoint = parse("http://127.0.0.1:3000");
        assert_eq!(
            endpoint.url.as_str(),
            "ws://127.0.0.1:3000/socket.io/?EIO=4&transport=websocket&k=a+b"
        );
        assert_eq!(endpoint.address(), ("127.0.0.1".to_owned(), 3000));
        assert!(!endpoint.uses_tls());
    }

    #[test]
    fn paths_and_default_ports_are_kept() {
        let endpoint = parse("https://[::1]/presence/?x=1#top");
        assert_eq!(endpoint.address(), ("::1".to_owned(), 443));
        assert!(endpoint.uses_tls());
        assert!(endpoint.url.as_str().contains("/presence/?x=1&EIO=4"));
    }

    #[test]
    fn other_urls_are_refused_with_a_reason() {
        for text in ["localhost", "ftp://a", "http://", "unix:/a"] {
            let error = Endpoint::parse(text, &Options::new()).unwrap_err();
            assert!(matches!(error, Error::InvalidUrl { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn a_malformed_header_is_an_error() {
        let options = Options::new().header("a b", "c");
        assert!(
            Endpoint::parse("ws://a", &options)
                .unwrap()
                .request(&options)
                .is_err()
        );
    }
}
