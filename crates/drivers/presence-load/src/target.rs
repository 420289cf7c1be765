//! Servers as URLs name them.

use std::net::ToSocketAddrs as _;

use load::driver::Address;
use load::net::dial::Peer;
use load::plan::Invalid;
use load::redact;
use tls_client::{TlsClient, TlsOptions};
use url::Url;

use crate::protocol::transport::{Access, Endpoint};
use crate::settings::Settings;

/// The path of Socket.IO, if a URL names none.
const PATH: &str = "/socket.io/";
/// Maximum number of bytes of a message: above the largest answer to a join that the protocol page names.
const MAX_MESSAGE: usize = 192 << 20;
/// The end of every message about a URL.
const REMEDY: &str =
    "write http://host:port, https://…, ws://… or wss://…, with a path if it is not /socket.io/";

/// A server, parsed from a URL.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// The address to connect to.
    pub(crate) peer: Peer,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) endpoint: Endpoint,
    /// The URL without secrets, for messages.
    pub(crate) shown: String,
}

impl Server {
    /// Returns the server of an address, as clients with these settings reach it.
    ///
    /// # Errors
    /// An invalid URL, another scheme, a host that can't be resolved, unusable certificates, or credentials that can't be
    /// sent.
    pub(crate) fn new(address: &Address, settings: &Settings) -> Result<Self, Invalid> {
        match address {
            Address::Url(url) => {
                let mut server = Self::parse(url, &settings.tls())?;
                server.endpoint.access = settings.access()?;
                Ok(server)
            }
            Address::Socket(path) => Err(Invalid::new(
                format!("the socket {}", path.display()),
                format!("presence servers listen on TCP: {REMEDY}"),
            )),
        }
    }

    /// Parses a URL. If a host has several addresses, the first is used by all workers.
    ///
    /// # Errors
    /// An invalid URL, another scheme, a host that can't be resolved, or unusable certificates.
    fn parse(url: &str, tls: &TlsOptions) -> Result<Self, Invalid> {
        let shown = redact::uri(url).into_owned();
        let wrong =
            |problem: &str| Invalid::new(format!("URL {shown}"), format!("{problem}: {REMEDY}"));
        if url.is_empty() {
            return Err(wrong("is empty"));
        }
        if !url.contains("://") {
            let problem = format!("has no scheme: did you mean http://{shown}?");
            return Err(Invalid::new(format!("URL {shown}"), problem));
        }
        let parsed = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        let is_secure = match parsed.scheme() {
            "http" | "ws" => false,
            "https" | "wss" => true,
            other => return Err(wrong(&format!("the scheme `{other}` is not supported"))),
        };
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(wrong("has user information, which Socket.IO does not use"));
        }
        // Only URLs put an IPv6 address in brackets.
        let authority = parsed.host_str().ok_or_else(|| wrong("has no host"))?;
        let host = authority.trim_matches(['[', ']']);
        let port = parsed.port_or_known_default().filter(|port| *port > 0);
        let port = port.ok_or_else(|| wrong("its port is not between 1 and 65535"))?;
        let address = (host, port)
            .to_socket_addrs()
            .map_err(|error| {
                let problem = format!(
                    "the host {host} can't be resolved ({error}): correct the name, or write an address such as 127.0.0.1"
                );
                Invalid::new(format!("URL {shown}"), problem)
            })?
            .next()
            .ok_or_else(|| wrong("its host has no address"))?;
        let tls = is_secure.then(|| TlsClient::new(host, tls, &[b"http/1.1"]));
        Ok(Self {
            peer: Peer::Tcp(address),
            tls: tls.transpose()?,
            endpoint: Endpoint {
                host: match parsed.port() {
                    Some(port) => format!("{authority}:{port}"),
                    None => authority.to_owned(),
                },
                path: match parsed.path() {
                    "/" => PATH.to_owned(),
                    path => path.to_owned(),
                },
                query: parsed.query().unwrap_or_default().to_owned(),
                max_message: MAX_MESSAGE,
                access: Access::default(),
            },
            shown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Server, Invalid> {
        Server::parse(url, &TlsOptions::default())
    }

    #[test]
    fn the_largest_answer_of_the_protocol_fits_the_limit() {
        let protocol = include_str!("../../../subjects/presence-daemon/PROTOCOL.md");
        let largest = protocol.split("an answer to a join has at most ").nth(1);
        let largest = largest.and_then(|rest| rest.split_once(" bytes"));
        let largest = largest.expect("the page names it").0.replace(',', "");
        assert!(largest.parse::<usize>().unwrap() <= MAX_MESSAGE);
    }

    #[test]
    fn a_url_says_where_and_how() {
        let server = parse("http://127.0.0.1:3000").unwrap();
        assert_eq!(server.peer, Peer::Tcp("127.0.0.1:3000".parse().unwrap()));
        assert_eq!(server.endpoint.host, "127.0.0.1:3000");
        assert_eq!(server.endpoint.path, "/socket.io/");
        let server = parse("ws://[::1]:80/chat/?token=1").unwrap();
        assert_eq!(server.peer, Peer::Tcp("[::1]:80".parse().unwrap()));
        assert_eq!(
            (server.endpoint.host.as_str(), server.tls.is_none()),
            ("[::1]", true)
        );
        assert_eq!(
            (
                server.endpoint.path.as_str(),
                server.endpoint.query.as_str()
            ),
            ("/chat/", "token=1")
        );
        let insecure = TlsOptions {
            ca: None,
            insecure: true,
        };
        let server = Server::parse("wss://127.0.0.1", &insecure).unwrap();
        assert_eq!(server.peer, Peer::Tcp("127.0.0.1:443".parse().unwrap()));
        assert!(server.tls.is_some());
    }

    #[test]
    fn a_url_that_is_none_says_what_to_write() {
        for url in [
            "",
            "ftp://x/",
            "http://u:p@127.0.0.1/",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:0",
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(
                error.contains("URL") && error.contains("http://host:port"),
                "{url}: {error}"
            );
        }
    }

    #[test]
    fn an_address_without_a_scheme_is_suggested_with_one() {
        for url in ["127.0.0.1:3000", "localhost"] {
            let error = parse(url).unwrap_err().to_string();
            let meant = format!("did you mean http://{url}?");
            assert!(error.contains(&meant), "{url}: {error}");
        }
    }

    #[test]
    fn a_host_that_is_not_known_is_named() {
        let error = parse("http://no.such.host.invalid/")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no.such.host.invalid can't be resolved"),
            "{error}"
        );
    }
}
