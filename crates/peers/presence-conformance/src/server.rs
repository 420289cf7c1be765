//! The address of a server, and names that no other case uses.

use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use load::clock;
use load::plan::Invalid;
use url::Url;

/// The time limit of every answer. It is long, because a slow answer of a busy machine is not a violation.
pub(crate) const LIMIT: Duration = Duration::from_secs(15);

/// A server under test.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    host: String,
    port: u16,
    /// The path of Socket.IO requests.
    path: String,
    /// Another node that serves the same rooms.
    other_node: Option<Box<Self>>,
}

impl Server {
    /// Parses the URL of a server: `http://host:port`, with a path if its requests are not at `/socket.io/`.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |problem: &str| Invalid::new(format!("--url {text}"), problem.to_owned());
        let url = Url::parse(text)
            .map_err(|error| invalid(&format!("{error}: write it as http://127.0.0.1:3000")))?;
        if url.scheme() != "http" {
            return Err(invalid("the cases use no TLS: give the http:// address"));
        }
        let host = url.host_str().ok_or_else(|| invalid("a host is missing"))?;
        let path = match url.path() {
            "/" | "" => "/socket.io/",
            path => path,
        };
        Ok(Self {
            host: host.to_owned(),
            port: url.port_or_known_default().unwrap_or(80),
            path: path.to_owned(),
            other_node: None,
        })
    }

    /// Returns the same server with another path.
    pub(crate) fn with_path(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }

    /// Returns a server of one node, or of two that serve the same rooms; `None` for another number.
    pub(crate) fn with_nodes(nodes: Vec<Self>) -> Option<Self> {
        let mut nodes = nodes.into_iter();
        let (first, other_node) = (nodes.next()?, nodes.next().map(Box::new));
        nodes.next().is_none().then_some(Self {
            other_node,
            ..first
        })
    }

    /// Returns both nodes.
    pub(crate) fn nodes(&self) -> anyhow::Result<[&Self; 2]> {
        let other = self
            .other_node
            .as_deref()
            .context("the server has one node")?;
        Ok([self, other])
    }

    /// Returns host and port.
    pub(crate) fn host(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns the URL of the server.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.host())
    }

    /// Returns the target of a request with this query.
    pub(crate) fn target(&self, query: &str) -> String {
        format!("{}?{query}", self.path)
    }

    /// Opens a TCP connection with time limits.
    pub(crate) fn dial(&self) -> anyhow::Result<TcpStream> {
        let host = self.host();
        let mut addresses = host.to_socket_addrs().with_context(|| host.clone())?;
        let address = addresses
            .next()
            .with_context(|| format!("{host} has no address"))?;
        let stream = TcpStream::connect_timeout(&address, LIMIT)
            .with_context(|| format!("connecting to {host}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(stream)
    }

    /// Returns a new name for a room or a user.
    pub(crate) fn name(&self, what: &str) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{what}-{}-{next}", std::process::id())
    }
}

/// A stopwatch for the time limits of a case.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(u64);

impl Stopwatch {
    pub(crate) fn new() -> Self {
        Self(clock::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(clock::now() - self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_path_and_no_other_scheme() {
        let server = Server::parse("http://127.0.0.1:3000").unwrap();
        assert_eq!(server.host(), "127.0.0.1:3000");
        assert_eq!(server.target("EIO=4"), "/socket.io/?EIO=4");
        let server = Server::parse("http://localhost/rt/").unwrap();
        assert_eq!(
            (&*server.host(), &*server.target("a")),
            ("localhost:80", "/rt/?a")
        );
        for (wrong, words) in [("https://a", "TLS"), ("127.0.0.1:3000", "http://")] {
            let error = Server::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("--url") && error.contains(words), "{error}");
        }
    }
}
