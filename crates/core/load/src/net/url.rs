//! Servers and paths as the URLs that people type name them.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use http::Uri;
use nix::sys::socket::UnixAddr;

use crate::net::dial::Peer;
use crate::plan::Invalid;
use crate::redact;

/// Longest attempt at one of several addresses of a host.
const ATTEMPT: Duration = Duration::from_secs(1);

/// A server, parsed from a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// The address to connect to.
    pub peer: Peer,
    /// True if the scheme means TLS.
    pub tls: bool,
    /// The host name, which the server's certificate must match.
    pub host: String,
    /// The value of the `Host` field (RFC 9110 §7.2).
    pub authority: String,
    /// The path and query of the URL; `/` if it has none.
    pub path: String,
}

impl ServerUrl {
    /// Parses a URL with one of `schemes`: their names, each with true if it means TLS. `unix:` URLs name a Unix socket.
    /// If a host has several addresses, it has the first that accepts a connection.
    ///
    /// # Errors
    /// An invalid URL, another scheme, or a host that can't be resolved; `remedy` says what to write.
    pub fn parse(url: &str, schemes: &[(&str, bool)], remedy: &str) -> Result<Self, Invalid> {
        Self::parse_with(url, schemes, remedy, |host, port| {
            resolve(host, port).map(|resolved| resolved.first())
        })
    }

    /// Returns the same server at another address.
    #[must_use]
    pub fn at(&self, address: SocketAddr) -> Self {
        Self {
            peer: Peer::Tcp(address),
            ..self.clone()
        }
    }

    /// Parses a URL, and finds the address of its host and port with `resolve`.
    ///
    /// # Errors
    /// As [`ServerUrl::parse`].
    pub fn parse_with(
        url: &str,
        schemes: &[(&str, bool)],
        remedy: &str,
        resolve: impl FnOnce(&str, u16) -> Result<SocketAddr, String>,
    ) -> Result<Self, Invalid> {
        let shown = redact::uri(url);
        let wrong =
            |problem: &str| Invalid::new(format!("URL {shown}"), format!("{problem}: {remedy}"));
        let tls_of = |name: &str| {
            let known = schemes.iter().find(|(scheme, _)| *scheme == name);
            known.map(|(_, tls)| *tls)
        };
        let socket = url.strip_prefix("unix:");
        if let Some(rest) = socket.filter(|_| tls_of("unix").is_some()) {
            return Self::unix(rest).map_err(wrong);
        }
        if url.trim().is_empty() {
            return Err(wrong("is empty"));
        }
        if socket.is_some() {
            return Err(wrong("the scheme `unix` is not supported"));
        }
        if let Some((problem, meant)) = mistyped(url, |scheme| tls_of(scheme).is_some()) {
            let problem = format!("{problem}: did you mean {}?", redact::uri(&meant));
            return Err(Invalid::new(format!("URL {shown}"), problem));
        }
        if !url.is_ascii() {
            return Err(wrong(
                "has characters beyond ASCII, which are percent-encoded in a path, and Punycode in a host",
            ));
        }
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("{error}")))?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let unsupported = || wrong(&format!("the scheme `{scheme}` is not supported"));
        let tls = tls_of(scheme).ok_or_else(unsupported)?;
        let authority = uri.authority().filter(|named| !named.host().is_empty());
        let authority = authority.ok_or_else(|| wrong("has no host"))?;
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
        let address = resolve(&host, port);
        let address = address.map_err(|problem| Invalid::new(format!("URL {shown}"), problem))?;
        Ok(Self {
            peer: Peer::Tcp(address),
            tls,
            host,
            authority: authority.to_string(),
            path: path_of(url),
        })
    }

    /// Returns a placeholder server, for values that are the same for every server.
    #[must_use]
    pub fn anywhere() -> Self {
        Self {
            peer: Peer::Unix(PathBuf::new()),
            tls: false,
            host: "localhost".to_owned(),
            authority: "localhost".to_owned(),
            path: "/".to_owned(),
        }
    }

    /// Parses `/path/of.socket`, or `/path/of.socket:/path` with a path to request.
    fn unix(rest: &str) -> Result<Self, &'static str> {
        let socket = rest.split_once(":/").map_or(rest, |(socket, _)| socket);
        if socket.is_empty() {
            return Err("has no socket path");
        }
        UnixAddr::new(socket).map_err(|_| "the path of its socket has more than 107 bytes")?;
        if Path::new(socket).is_dir() {
            return Err("names a folder, and not a socket in it");
        }
        Ok(Self {
            peer: Peer::Unix(socket.into()),
            path: path_of(&format!("unix:{rest}")),
            ..Self::anywhere()
        })
    }
}

/// Returns the mistake in a URL that is nearly right, and the URL that was meant.
fn mistyped(url: &str, is_scheme: impl Fn(&str) -> bool) -> Option<(&'static str, String)> {
    if url.trim() != url {
        return Some(("begins or ends with a blank", url.trim().to_owned()));
    }
    if !url.contains("://") {
        let (scheme, rest) = match url.split_once(":/") {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
            _ => ("http", url),
        };
        let meant = format!("{scheme}://{}", rest.trim_start_matches('/'));
        return Some(("has no scheme with ://", meant));
    }
    Some(("its IPv6 address has no brackets", with_brackets(url)?))
}

/// Returns a URL whose host is an IPv6 address without brackets, perhaps with a port behind it, with them (RFC 3986
/// §3.2.2); `None` for any other.
#[must_use]
pub fn with_brackets(url: &str) -> Option<String> {
    let begin = url.find("://")? + 3;
    let end = url[begin..].find(['/', '?', '#']);
    let end = end.map_or(url.len(), |length| begin + length);
    let begin = url[begin..end]
        .rfind('@')
        .map_or(begin, |at| begin + at + 1);
    let host = &url[begin..end];
    // `::1:5672` may be an address too, but four digits or more are meant as a port.
    let port = host.rsplit_once(':').filter(|(host, port)| {
        port.len() >= 4 && port.parse::<u16>().is_ok() && host.parse::<Ipv6Addr>().is_ok()
    });
    let (host, port) = match port {
        Some((host, port)) => (host, format!(":{port}")),
        None => (host, String::new()),
    };
    host.parse::<Ipv6Addr>().ok()?;
    Some(format!("{}[{host}]{port}{}", &url[..begin], &url[end..]))
}

/// The addresses of a host, in the order of the resolver.
#[derive(Debug)]
pub struct Resolved {
    /// The addresses that accept a connection, or all if none does; never empty. If there is only one, it was not tried.
    pub used: Vec<SocketAddr>,
    /// The others, with the reason.
    pub unused: Vec<(SocketAddr, io::Error)>,
}

impl Resolved {
    fn new(addresses: Vec<SocketAddr>) -> Self {
        let (mut used, mut unused) = (addresses, Vec::new());
        if used.len() > 1 {
            // At the same time, so that one that does not answer delays no other (RFC 8305 §5).
            let tried = thread::scope(|scope| {
                let attempts = used.iter();
                let attempts = attempts.map(|address| {
                    scope.spawn(|| TcpStream::connect_timeout(address, ATTEMPT).map(drop))
                });
                let attempts: Vec<_> = attempts.collect();
                let joined = attempts.into_iter().map(|attempt| attempt.join());
                joined.flatten().collect::<Vec<io::Result<()>>>()
            });
            if tried.iter().any(Result::is_ok) {
                let all = std::mem::take(&mut used).into_iter().zip(tried);
                for (address, outcome) in all {
                    match outcome {
                        Ok(()) => used.push(address),
                        Err(error) => unused.push((address, error)),
                    }
                }
            }
        }
        Self { used, unused }
    }

    /// Returns the address to use if one is enough.
    #[must_use]
    pub fn first(&self) -> SocketAddr {
        self.used[0]
    }
}

/// Returns the addresses of a host. Of several, those are used that accept a connection, which is closed at once.
/// `localhost` is one server (RFC 6761 §6.3), so of its addresses the first is used: nobody may listen on one of them.
///
/// # Errors
/// The problem with the name, and the remedy.
pub fn resolve(host: &str, port: u16) -> Result<Resolved, String> {
    let remedy = "correct the name, or write an address such as 127.0.0.1";
    let addresses = (host, port).to_socket_addrs();
    let addresses = addresses
        .map_err(|error| format!("the host {host} can't be resolved ({error}): {remedy}"))?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    if addresses.is_empty() {
        return Err(format!("the host {host} has no address: {remedy}"));
    }
    let mut resolved = Resolved::new(addresses);
    if host.eq_ignore_ascii_case("localhost") {
        resolved.used.truncate(1);
        resolved.unused.clear();
    }
    Ok(resolved)
}

/// Returns the path and query that a URL requests, also of one with placeholders for its host and port. An empty path is
/// `/` (RFC 9110 §4.2.3), also before a query.
#[must_use]
pub fn path_of(url: &str) -> String {
    // A fragment is not part of a request.
    let url = url.split('#').next().unwrap_or_default();
    let path = match url.strip_prefix("unix:") {
        Some(rest) => rest.split_once(":/").map_or("", |(_, path)| path),
        None => {
            let rest = url.split_once("://").map_or("", |(_, rest)| rest);
            rest.find(['/', '?']).map_or("", |begin| &rest[begin..])
        }
    };
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn parse(url: &str) -> Result<ServerUrl, Invalid> {
        let schemes = [
            ("http", false),
            ("wss", true),
            ("https", true),
            ("unix", false),
        ];
        ServerUrl::parse(url, &schemes, "write http://host:port/path")
    }

    #[test]
    fn a_url_says_where_and_what() {
        let server = parse("http://127.0.0.1:8080/a/b?c=d").unwrap();
        assert_eq!(server.peer, Peer::Tcp("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(
            (server.tls, server.authority.as_str(), server.path.as_str()),
            (false, "127.0.0.1:8080", "/a/b?c=d")
        );
        let server = parse("https://[::1]/").unwrap();
        assert_eq!(server.peer, Peer::Tcp("[::1]:443".parse().unwrap()));
        assert_eq!(
            (server.tls, server.host.as_str(), server.path.as_str()),
            (true, "::1", "/")
        );
        for url in ["http://127.0.0.1/", "http://127.0.0.1:/"] {
            let server = parse(url).unwrap();
            assert_eq!(server.peer, Peer::Tcp("127.0.0.1:80".parse().unwrap()));
        }
        let server = parse("unix:/run/x.sock:/y").unwrap();
        assert_eq!(server.peer, Peer::Unix("/run/x.sock".into()));
        assert_eq!(server.path, "/y");
        for (url, path) in [
            ("http://127.0.0.1", "/"),
            ("http://127.0.0.1?x=1", "/?x=1"),
            ("http://127.0.0.1/?x=1", "/?x=1"),
            ("unix:/run/x.sock", "/"),
        ] {
            assert_eq!(parse(url).unwrap().path, path, "{url}");
        }
    }

    #[test]
    fn addresses_that_refuse_are_not_used_unless_all_do() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let serves = listener.local_addr().unwrap();
        let at = |last| SocketAddr::from(([127, 0, 0, last], serves.port()));
        let (refuses, other) = (at(2), at(3));
        let second = TcpListener::bind(other).unwrap();
        let both = Resolved::new(vec![refuses, other, serves]);
        assert_eq!(both.used, [other, serves]);
        assert_eq!(both.unused[0].0, refuses);
        assert_eq!(both.unused[0].1.kind(), io::ErrorKind::ConnectionRefused);
        drop(second);
        let none = Resolved::new(vec![refuses, other]);
        assert_eq!((none.used, none.unused.len()), (vec![refuses, other], 0));
        // The only one is not asked.
        assert_eq!(Resolved::new(vec![refuses]).used, [refuses]);
    }

    #[test]
    fn a_host_that_is_not_known_is_no_matter_of_spelling() {
        let error = parse("http://no.such.host.invalid/").unwrap_err();
        for part in ["no.such.host.invalid can't be resolved", "correct the name"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_url_that_is_none_says_what_to_write() {
        for url in [
            &format!("unix:/{}", "x".repeat(107)),
            "",
            "ftp://x/",
            " ",
            "http:///x",
            "http://:",
            "http://:80/",
            "unix:",
            "unix:/tmp",
            "unix:/tmp:/x",
            "http://u:p@127.0.0.1/",
            "http://127.0.0.1:99999/",
            "http://127.0.0.1:0/",
            "https://[::1]:http/",
            "http://127.0.0.1/größe",
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(
                error.contains("URL") && error.contains("http://host:port/path"),
                "{url}: {error}"
            );
        }
    }

    #[test]
    fn an_address_without_a_scheme_is_suggested_with_one() {
        for url in ["127.0.0.1:80", "localhost", "example.test/x"] {
            let error = parse(url).unwrap_err().to_string();
            let meant = format!("did you mean http://{url}?");
            assert!(error.contains(&meant), "{url}: {error}");
        }
        for (url, meant) in [
            ("http:/127.0.0.1/x", "did you mean http://127.0.0.1/x?"),
            ("https:/example.test", "did you mean https://example.test?"),
            ("//127.0.0.1/x", "did you mean http://127.0.0.1/x?"),
            ("http://127.0.0.1/x ", "did you mean http://127.0.0.1/x?"),
            ("http://::1:8080/x", "did you mean http://[::1]:8080/x?"),
            ("http://fe80::1?x=1", "did you mean http://[fe80::1]?x=1?"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(meant), "{url}: {error}");
        }
    }
}
