//! The address of a broker, as a URI.

use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::ops::RangeInclusive;
use std::time::Duration;

use amq_protocol::uri::{AMQPScheme, AMQPUri};
use load::net::url::with_brackets;
use load::plan::Invalid;
use load::redact;
use tls_client::{TlsClient, TlsOptions};

use crate::session::FRAME_MIN;

/// A broker's address and the credentials for it.
#[derive(Debug, Clone)]
pub struct Broker {
    /// The parsed URI.
    pub uri: AMQPUri,
    /// The URI as given, including the password.
    pub text: String,
    /// Present with `amqps`.
    pub(crate) tls: Option<TlsClient>,
}

impl Broker {
    /// Reads a URI without TLS: `amqp://user:password@host:port/vhost?heartbeat=10`.
    ///
    /// # Errors
    /// An invalid URI, with the remedy.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text, None)
    }

    /// Reads a URI, which may be `amqps`.
    ///
    /// # Errors
    /// An invalid URI or invalid TLS options, with the remedy.
    pub fn with_tls(text: &str, options: &TlsOptions) -> Result<Self, Invalid> {
        let broker = Self::read(text, Some(options))?;
        if *options != TlsOptions::default() && broker.tls.is_none() {
            let problem = format!(
                "{} has no effect without TLS: write amqps://, or leave it out",
                redact::uri(text)
            );
            return Err(Invalid::new(
                "driver.tls_ca (--tls-ca, --tls-insecure)",
                problem,
            ));
        }
        Ok(broker)
    }

    fn read(text: &str, options: Option<&TlsOptions>) -> Result<Self, Invalid> {
        let field = || format!("--uri {}", redact::uri(text));
        check_query(text).map_err(|problem| Invalid::new(field(), problem))?;
        let mut uri: AMQPUri = text.parse().map_err(|problem: String| {
            // The problem may quote the URI.
            let problem = problem.replace(text, &redact::uri(text));
            if let Some(bracketed) = with_brackets(text) {
                let meant = redact::uri(&bracketed);
                let problem = format!("its IPv6 address has no brackets: did you mean {meant}?");
                return Invalid::new(field(), problem);
            }
            let remedy = "write it as amqp://localhost:5672/, with user and password, separated by a colon, and an @ before the host, and %2f for a / in the vhost";
            Invalid::new(field(), format!("{problem}: {remedy}"))
        })?;
        let is_tls = uri.scheme == AMQPScheme::AMQPS;
        let tls = match options {
            Some(options) if is_tls => Some(TlsClient::new(&uri.authority.host, options, &[])?),
            None if is_tls => {
                let problem = "only runs support TLS, and this command does not: use amqp://";
                return Err(Invalid::new(field(), problem));
            }
            _ => None,
        };
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        if uri.vhost.len() > 255 {
            return Err(Invalid::new(field(), "its vhost is longer than 255 bytes"));
        }
        Ok(Self {
            uri,
            text: text.to_owned(),
            tls,
        })
    }

    /// Returns the address as `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.uri.authority.host, self.uri.authority.port)
    }
}

/// Connects to a broker, without TLS or any octet sent. Tries all addresses of its name, each for as long as one answer
/// may take; reads and writes have the same limit.
///
/// # Errors
/// The last address's error.
pub fn connect(broker: &Broker, reply_timeout: Duration) -> io::Result<TcpStream> {
    let authority = &broker.uri.authority;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (authority.host.as_str(), authority.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, reply_timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(reply_timeout))?;
                stream.set_write_timeout(Some(reply_timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Refuses parameters of a URI that would have no effect, and values out of range. Those for TLS have the names of RabbitMQ
/// ("URI Query Parameters").
fn check_query(text: &str) -> Result<(), String> {
    const READ: [(&str, RangeInclusive<u32>); 3] = [
        ("frame_max", FRAME_MIN..=u32::MAX),
        ("channel_max", 1..=65_535),
        ("heartbeat", 1..=65_535),
    ];
    let query = text.split('#').next().and_then(|text| text.split_once('?'));
    let pairs = query.map_or("", |(_, query)| query).split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some((_, range)) = READ.iter().find(|(read, _)| *read == name) else {
            let remedy = match name {
                "cacertfile" => "use --tls-ca FILE",
                "verify" => "use --tls-insecure to accept any certificate",
                _ => "leave it out",
            };
            let read = READ.map(|(name, _)| name).join(", ");
            return Err(format!(
                "its parameter `{name}` has no effect, only {read} have: {remedy}"
            ));
        };
        let number = value.parse::<u32>();
        if !number.is_ok_and(|number| number == 0 || range.contains(&number)) {
            return Err(format!(
                "its parameter `{name}` must be from {} to {}, or 0 for none: change it",
                range.start(),
                range.end()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_uri_without_an_effect_are_refused_by_name() {
        for (query, named) in [
            ("frame_max=8192&heartbeat=5&channel_max=9", None),
            ("", None),
            ("frame_max=0", None),
            ("frame_max=100", Some("`frame_max` must be from 4096")),
            (
                "heartbeat=99999",
                Some("`heartbeat` must be from 1 to 65535"),
            ),
            ("channel_max=-1&heartbeat=5", Some("`channel_max` must be")),
            ("frame_max", Some("`frame_max` must be")),
            ("heartbeat=5&verify=verify_none", Some("`verify`")),
            ("cacertfile=/ca.pem", Some("--tls-ca")),
            ("connection_timeout=5", Some("`connection_timeout`")),
            ("hartbeat=5", Some("`hartbeat`")),
        ] {
            let uri = format!("amqp://app:secret@localhost/%2f?{query}");
            let problem = Broker::parse(&uri).err().map(|problem| problem.to_string());
            match (problem, named) {
                (None, None) => {}
                (Some(problem), Some(named)) => {
                    assert!(problem.contains(named), "{problem}");
                    assert!(!problem.contains("secret"), "{problem}");
                }
                (problem, named) => panic!("{query}: {problem:?}, not {named:?}"),
            }
        }
    }
}
