//! Faulty responses, requested by the path `/fault/…`.

use std::future::pending;
use std::str::FromStr;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{HeaderValue, LOCATION};
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::time::sleep;

use crate::answer::{Answer, answer, text, with_field};
use crate::body::Body;
use crate::connection::{Busy, Connection, Order};
use crate::counts::{Counter, Counts};

/// Number of pieces of a slow body, and the length of each: together as long as 1kb.txt.
const DRIPS: u32 = 8;
const DRIP: usize = 128;
/// Maximum length of a body, and of one of its chunks.
const MAX_LENGTH: usize = 1 << 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Delay(Duration),
    Stall,
    Status(StatusCode),
    /// A chain of this many redirects, which ends at a file.
    Redirect(u32),
    Close,
    Reset,
    Truncated {
        bytes: usize,
    },
    Chunked {
        chunks: u32,
        size: usize,
    },
    Garbage,
    Slow(Duration),
}

impl Fault {
    /// Parses the part of the path after `/fault/`, and the query.
    ///
    /// # Errors
    /// An invalid name or parameter, with the valid ones.
    pub(crate) fn parse(name: &str, query: &str) -> Result<Self, String> {
        let known: &[&str] = match name {
            "delay" | "slow" => &["ms"],
            "truncated" => &["bytes"],
            "chunked" => &["chunks", "size"],
            _ => &[],
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        if let Some(unknown) = pairs
            .map(|pair| pair.split('=').next().unwrap_or(pair))
            .find(|key| !known.contains(key))
        {
            return Err(format!("`{unknown}`: /fault/{name} takes {known:?}\n"));
        }
        Ok(match name {
            "delay" => Self::Delay(Duration::from_millis(number(query, "ms", 100)?)),
            "slow" => Self::Slow(Duration::from_millis(number(query, "ms", 100)?)),
            "stall" => Self::Stall,
            "close" => Self::Close,
            "reset" => Self::Reset,
            "garbage" => Self::Garbage,
            "truncated" => Self::Truncated {
                bytes: length(query, "bytes", 1024)?,
            },
            "chunked" => Self::Chunked {
                chunks: number(query, "chunks", 4)?,
                size: length(query, "size", 256)?,
            },
            _ if let Some(left) = name.strip_prefix("redirect/") => match left.parse() {
                Ok(left) if left > 0 => Self::Redirect(left),
                _ => {
                    return Err(format!(
                        "redirect/{left}: write the number of redirects, from 1 on\n"
                    ));
                }
            },
            _ => {
                let code = name
                    .strip_prefix("status/")
                    .and_then(|code| code.parse().ok());
                let status = code
                    .filter(|code| (200..600).contains(code))
                    .map(StatusCode::from_u16);
                match status {
                    Some(Ok(status)) => Self::Status(status),
                    _ => return Err("unknown fault: use delay, stall, status/200 to status/599, redirect/1 or more, close, reset, truncated, chunked, garbage or slow\n".to_owned()),
                }
            }
        })
    }

    /// Returns true for a fault that acts on the socket itself, below HTTP/2 and TLS.
    pub(crate) fn needs_socket(self) -> bool {
        matches!(self, Self::Truncated { .. } | Self::Garbage)
    }
}

fn number<T: FromStr>(query: &str, key: &str, default: T) -> Result<T, String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    match pairs.find(|(name, _)| *name == key) {
        None => Ok(default),
        Some((_, value)) => value
            .parse()
            .map_err(|_| format!("`{key}`: `{value}` is not a valid number\n")),
    }
}

fn length(query: &str, key: &str, default: usize) -> Result<usize, String> {
    match number(query, key, default)? {
        length if (1..=MAX_LENGTH).contains(&length) => Ok(length),
        length => Err(format!(
            "`{key}`: {length} is not between 1 and {MAX_LENGTH}\n"
        )),
    }
}

/// Injects the fault. The future of a fault without a response only ends with the connection.
pub(crate) async fn commit(fault: Fault, busy: Busy, counts: Counts) -> Answer {
    let connection = busy.connection();
    match fault {
        Fault::Delay(time) => {
            sleep(time).await;
            return text(StatusCode::OK, "late\n", busy);
        }
        Fault::Status(status) if matches!(status.as_u16(), 204 | 304) => {
            return text(status, "", busy);
        }
        Fault::Status(status) => return text(status, format!("{status}\n"), busy),
        Fault::Redirect(left) => {
            let location = match left {
                1 => HeaderValue::from_static("/1kb.txt"),
                left => HeaderValue::from(left - 1),
            };
            return with_field(text(StatusCode::FOUND, "", busy), LOCATION, location);
        }
        Fault::Chunked { chunks, size } => {
            let body = Body::chunked(Bytes::from(vec![0; size]), chunks, busy);
            return answer(StatusCode::OK, "text/plain", body);
        }
        Fault::Slow(delay) => {
            let body = Body::paced(Bytes::from_static(&[0; DRIP]), DRIPS, delay, busy);
            return answer(StatusCode::OK, "text/plain", body);
        }
        Fault::Stall => connection.stall(),
        Fault::Close => connection.order(Order::Close),
        Fault::Reset => {
            reset_on_close(connection);
            connection.order(Order::Close);
        }
        Fault::Garbage => {
            connection.write_raw(b"I AM NO STATUS LINE\r\n\r\n");
            connection.order(Order::Close);
        }
        Fault::Truncated { bytes } => {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {bytes}\r\n\r\n"
            );
            let mut half = head.into_bytes();
            half.resize(half.len() + bytes / 2, 0);
            connection.write_raw(&half);
            connection.order(Order::Close);
        }
    }
    counts.add(Counter::Unanswered, 1);
    pending().await
}

/// Makes closing the connection reset it, instead of ending it in good order. Unix sockets have no reset: they just
/// close.
fn reset_on_close(connection: &Connection) {
    let at_once = linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let _ = connection.with_socket(|socket| setsockopt(&socket, sockopt::Linger, &at_once));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_on_demand_are_read_from_the_query() {
        for (name, query, wanted) in [
            ("delay", "ms=5", Fault::Delay(Duration::from_millis(5))),
            ("slow", "", Fault::Slow(Duration::from_millis(100))),
            (
                "status/503",
                "",
                Fault::Status(StatusCode::SERVICE_UNAVAILABLE),
            ),
            (
                "chunked",
                "size=9&chunks=2",
                Fault::Chunked { chunks: 2, size: 9 },
            ),
            ("redirect/3", "", Fault::Redirect(3)),
            ("truncated", "bytes=10", Fault::Truncated { bytes: 10 }),
        ] {
            assert_eq!(Fault::parse(name, query), Ok(wanted));
        }
    }

    #[test]
    fn malformed_faults_are_named() {
        for (name, query, word) in [
            ("delay", "ms=soon", "soon"),
            ("delay", "s=1", "`s`"),
            ("status/700", "", "status/599"),
            ("status/100", "", "status/200"),
            ("redirect/0", "", "from 1 on"),
            ("redirect/many", "", "redirect/many"),
            ("explode", "", "stall"),
            ("truncated", "bytes=0", "`bytes`"),
            ("chunked", "size=99999999", "`size`"),
        ] {
            let complaint = Fault::parse(name, query).unwrap_err();
            assert!(complaint.contains(word), "{name}?{query}: {complaint}");
        }
    }
}
