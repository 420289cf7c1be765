//! Redirects: their targets, and the requests that follow them. Does no I/O and reads no clock; shared by both engines
//! and the check before the run.
//!
//! Source: RFC 9110 §15.4. 301, 302, 303, 307 and 308 lead to their `Location` (§10.2.2). 300 offers a choice and 304
//! is about a client's cache, so both are responses like any other. After 301, 302 and 303 the method becomes GET, or
//! stays HEAD, and the body is dropped with the fields that describe it. After 307 and 308 everything stays. `Location`
//! is parsed as browsers do (the `url` crate), except that white space inside is rejected. It must have the origin
//! (§4.3.1) of the target URI (§7.1): the scheme, and the host and port that `Host` names. The origin of a Unix socket
//! is `http://localhost`.

pub(crate) mod table;
#[cfg(test)]
mod tests;

use thiserror::Error;
use url::{Position, Url};

use crate::outcome;

/// The field with the target of a redirect, in lower case.
pub(crate) const LOCATION: &str = "location";
/// Maximum length of a followed path and query: hyper rejects 64 KiB, and a relative target grows with each hop.
const MAX_TARGET: usize = 32 * 1024;

/// The reason why a redirect can't be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum RedirectError {
    #[error(
        "cross-origin redirects are not followed: request the target directly, or drop --follow"
    )]
    Elsewhere,
    #[error("more redirects than --follow allows: raise it, or request the final target directly")]
    TooMany,
    #[error("no valid Location: correct the path, or drop --follow")]
    WithoutLocation,
}

impl RedirectError {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Elsewhere => outcome::REDIRECT_ELSEWHERE,
            Self::TooMany => outcome::TOO_MANY_REDIRECTS,
            Self::WithoutLocation => outcome::REDIRECT_WITHOUT_LOCATION,
        }
    }
}

/// Returns true for the status of a redirect.
pub(crate) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Returns true for a header field that describes the body, and is dropped with it.
pub(crate) fn is_of_content(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("content-") || matches!(name.as_str(), "digest" | "last-modified")
}

/// A request of an operation, with its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedirectTarget {
    url: Url,
    /// True if it has no body, and a method without one.
    pub(crate) bare: bool,
    /// Number of redirects before this one.
    followed: u32,
}

impl RedirectTarget {
    /// Returns the first request of an operation, from its target URI; `None` if that is invalid.
    pub(crate) fn first(target: &str) -> Option<Self> {
        Some(Self {
            url: Url::parse(target).ok()?,
            bare: false,
            followed: 0,
        })
    }

    /// Returns the next request after a redirect; at most `most` are followed.
    pub(crate) fn next(
        &self,
        status: u16,
        location: Option<&[u8]>,
        most: u32,
    ) -> Result<Self, RedirectError> {
        let text = location.and_then(|location| str::from_utf8(location.trim_ascii()).ok());
        // Folding leaves white space: line ends or spaces, depending on the parser.
        let text = text.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte > b' '));
        let url = text.and_then(|text| self.url.join(text).ok());
        let url = url.ok_or(RedirectError::WithoutLocation)?;
        if !is_same_origin(&url, &self.url) {
            return Err(RedirectError::Elsewhere);
        }
        let next = Self {
            url,
            bare: self.bare || matches!(status, 301..=303),
            followed: self.followed + 1,
        };
        if next.target().len() > MAX_TARGET {
            Err(RedirectError::WithoutLocation)
        } else if self.followed >= most {
            Err(RedirectError::TooMany)
        } else {
            Ok(next)
        }
    }

    /// Returns the target of the request line: path and query.
    pub(crate) fn target(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// Returns the method, for an operation that starts with method `first`.
    pub(crate) fn method<'a>(&self, first: &'a str) -> &'a str {
        if self.bare && first != "HEAD" {
            "GET"
        } else {
            first
        }
    }
}

/// Compares two origins (RFC 9110 §4.3.1).
fn is_same_origin(one: &Url, other: &Url) -> bool {
    let of = |url: &Url| url.port_or_known_default();
    one.scheme() == other.scheme() && one.host() == other.host() && of(one) == of(other)
}
