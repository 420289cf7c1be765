//! Servers and paths as URLs name them.

use std::net::ToSocketAddrs as _;
use std::path::PathBuf;

use http::Uri;
use load::net::dial::Peer;
use load::plan::Invalid;
use measure::redact;

/// A server, parsed from a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    /// The address to connect to.
    pub(crate) peer: Peer,
    /// True for `https`.
    pub(crate) tls: bool,
    /// The host name, which the server's certificate must match.
    pub(crate) host: String,
    /// The value of the `Host` field (RFC 9110 §7.2).
    pub(crate) authority: String,
    /// The path and query of the URL, if it has any beyond `/`.
    pub(crate) path: Option<String>,
}

/// The end of every message about a URL.
const REMEDY: &str = "write http://host:port/path, https://… or unix:/path/of.socket:/path";

impl Server {
    /// Parses `http://`, `https://` and `unix:` URLs. If a host has several addresses, the first is used by all
    /// workers.
    ///
    /// # Errors
    /// An invalid URL, another scheme, or a host that can't be resolved.
    pub(crate) fn parse(url: &str) -> Result<Self, Invalid> {
        let shown = redact::uri(url);
        let wrong =
            |problem: &str| Invalid::new(format!("URL {shown}"), format!("{problem}: {REMEDY}"));
        if let Some(rest) = url.strip_prefix("unix:") {
            return Self::unix(rest).ok_or_else(|| wrong("has no socket path"));
        }
        if url.is_empty() {
            return Err(wrong("is empty"));
        }
        if !url.contains("://") {
            let problem = format!("has no scheme: did you mean http://{shown}?");
            return Err(Invalid::new(format!("URL {shown}"), problem));
        }
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("{error}")))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(other) => return Err(wrong(&format!("the scheme `{other}` is not supported"))),
            None => return Err(wrong("has no scheme")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong(
                "has user information: send an Authorization header with --header @FILE",
            ));
        }
        // Only URLs put an IPv6 address in brackets.
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = match authority.as_str().strip_prefix(authority.host()) {
            None | Some("" | ":") if tls => 443,
            None | Some("" | ":") => 80,
            Some(_) => authority
                .port_u16()
                .filter(|port| *port > 0)
                .ok_or_else(|| wrong("its port is not between 1 and 65535"))?,
        };
        let address = (host.as_str(), port)
            .to_socket_addrs()
            .map_err(|error| {
                let problem = format!(
                    "the host {host} can't be resolved ({error}): correct the name, or write an address such as 127.0.0.1"
                );
                Invalid::new(format!("URL {shown}"), problem)
            })?
            .next()
            .ok_or_else(|| wrong(&format!("{host} has no address")))?;
        let path = uri.path_and_query().map(|path| path.as_str().to_owned());
        Ok(Self {
            peer: Peer::Tcp(address),
            tls,
            host,
            authority: authority.to_string(),
            path: path.filter(|path| path != "/"),
        })
    }

    /// Returns a placeholder server, for values that are the same for every server.
    pub(crate) fn anywhere() -> Self {
        Self {
            peer: Peer::Unix(PathBuf::new()),
            tls: false,
            host: "localhost".to_owned(),
            authority: "localhost".to_owned(),
            path: None,
        }
    }

    /// Parses `/path/of.socket`, or `/path/of.socket:/path` with a path to request.
    fn unix(rest: &str) -> Option<Self> {
        let (socket, path) = match rest.split_once(":/") {
            Some((socket, path)) => (socket, Some(format!("/{path}"))),
            None => (rest, None),
        };
        (!socket.is_empty()).then(|| Self {
            peer: Peer::Unix(socket.into()),
            path,
            ..Self::anywhere()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_and_what() {
        let server = Server::parse("http://127.0.0.1:8080/a/b?c=d").unwrap();
        assert_eq!(server.peer, Peer::Tcp("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(
            (
                server.tls,
                server.authority.as_str(),
                server.path.as_deref()
            ),
            (false, "127.0.0.1:8080", Some("/a/b?c=d"))
        );
        let server = Server::parse("https://[::1]/").unwrap();
        assert_eq!(server.peer, Peer::Tcp("[::1]:443".parse().unwrap()));
        assert_eq!(
            (server.tls, server.host.as_str(), server.path),
            (true, "::1", None)
        );
        for url in ["http://127.0.0.1/", "http://127.0.0.1:/"] {
            let server = Server::parse(url).unwrap();
            assert_eq!(server.peer, Peer::Tcp("127.0.0.1:80".parse().unwrap()));
        }
        let server = Server::parse("unix:/run/x.sock:/y").unwrap();
        assert_eq!(server.peer, Peer::Unix("/run/x.sock".into()));
        assert_eq!(server.path.as_deref(), Some("/y"));
    }

    #[test]
    fn a_host_that_is_not_known_is_no_matter_of_spelling() {
        let error = Server::parse("http://no.such.host.invalid/").unwrap_err();
        for part in ["no.such.host.invalid can't be resolved", "correct the name"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_url_that_is_none_says_what_to_write() {
        for url in [
            "",
            "ftp://x/",
            "http:///x",
            "unix:",
            "http://u:p@127.0.0.1/",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1:0/",
            "https://[::1]:http/",
        ] {
            let error = Server::parse(url).unwrap_err().to_string();
            assert!(
                error.contains("URL") && error.contains("http://host:port/path"),
                "{url}: {error}"
            );
        }
    }

    #[test]
    fn an_address_without_a_scheme_is_suggested_with_one() {
        for url in ["127.0.0.1:80", "localhost", "example.test/x"] {
            let error = Server::parse(url).unwrap_err().to_string();
            let meant = format!("did you mean http://{url}?");
            assert!(error.contains(&meant), "{url}: {error}");
        }
    }
}
