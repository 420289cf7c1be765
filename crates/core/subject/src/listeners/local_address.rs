//! Finds the address on this machine that a URL or a path names.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::PathBuf;

use hyper::Uri;
use load::driver::Address;

/// An address on this machine at which a daemon may listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LocalAddress {
    /// A Unix socket.
    Unix(PathBuf),
    /// The addresses of a host, at least one, in the order in which they are tried.
    Tcp(Vec<SocketAddr>),
}

impl LocalAddress {
    /// Finds an address on this machine; `None` if it is on another machine or can't be read. Resolves host names.
    pub(super) fn from_address(address: &Address) -> Option<Self> {
        let url = match address {
            Address::Socket(path) => return Some(Self::Unix(path.clone())),
            Address::Url(url) => url,
        };
        if let Some(path) = socket_path(url) {
            return Some(Self::Unix(path));
        }
        let uri: Uri = url.parse().ok()?;
        let usual = match uri.scheme_str()? {
            "http" | "ws" => 80,
            "https" | "wss" => 443,
            "amqp" => 5672,
            "amqps" => 5671,
            _ => 0,
        };
        let port = uri.port_u16().unwrap_or(usual);
        // Only URLs put an IPv6 address in brackets.
        let host = uri.host()?.trim_matches(['[', ']']);
        let mut addresses: Vec<SocketAddr> = (host, port).to_socket_addrs().ok()?.collect();
        addresses.retain(|address| address.port() > 0 && is_of_this_machine(address.ip()));
        (!addresses.is_empty()).then_some(Self::Tcp(addresses))
    }
}

/// Returns the path in `unix:/path/of.socket`, `unix:/path/of.socket:/path` or `redis:/path?option`.
fn socket_path(url: &str) -> Option<PathBuf> {
    let (scheme, rest) = url.split_once(':')?;
    let is_path = scheme.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !rest.starts_with("//")
        && (scheme == "unix" || rest.starts_with('/'));
    let path = rest.split_once(":/").map_or(rest, |(path, _)| path);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    (is_path && !path.is_empty()).then(|| path.into())
}

/// Returns true for an address of this machine. Only those can be bound.
fn is_of_this_machine(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_url(url: &str) -> Option<LocalAddress> {
        LocalAddress::from_address(&Address::Url(url.to_owned()))
    }

    #[test]
    fn a_url_names_a_host_and_a_port_or_a_socket() {
        let tcp = |address: &str| Some(LocalAddress::Tcp(vec![address.parse().unwrap()]));
        assert_eq!(of_url("http://127.0.0.1/"), tcp("127.0.0.1:80"));
        assert_eq!(of_url("https://127.1.2.3/x"), tcp("127.1.2.3:443"));
        assert_eq!(of_url("amqp://u:p@[::1]/v"), tcp("[::1]:5672"));
        assert_eq!(of_url("etcd://127.0.0.1:2379"), tcp("127.0.0.1:2379"));
        assert_eq!(of_url("http://0.0.0.0:81/"), tcp("0.0.0.0:81"));
        let unix = |path: &str| Some(LocalAddress::Unix(path.into()));
        assert_eq!(of_url("unix:/run/x.sock:/y"), unix("/run/x.sock"));
        assert_eq!(of_url("unix:x.sock"), unix("x.sock"));
        assert_eq!(of_url("postgresql:/run/a?counter=one"), unix("/run/a"));
        let Some(LocalAddress::Tcp(of_name)) = of_url("http://localhost:8080/") else {
            panic!("localhost is this machine");
        };
        assert!(of_name.iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn an_address_of_another_machine_and_one_without_a_port_are_not_local() {
        for url in [
            "http://192.0.2.1/",
            "http://[2001:db8::1]:80/",
            "x",
            "redis://127.0.0.1",
            "unix:",
            "",
        ] {
            assert_eq!(of_url(url), None, "{url}");
        }
    }
}
