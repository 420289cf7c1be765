//! Redirects: their targets, and the requests that follow them. Does no I/O and reads no clock; shared by both engines
//! and the check before the run.
//!
//! Source: RFC 9110 §15.4. 301, 302, 303, 307 and 308 lead to their `Location` (§10.2.2). 300 offers a choice and 304
//! is about a client's cache, so both are responses like any other. After 301, 302 and 303 the method becomes GET, or
//! stays HEAD, and the body is dropped with the fields that describe it. After 307 and 308 everything stays. `Location`
//! is parsed as browsers do (the `url` crate), except that white space inside is rejected. It must have the origin
//! (§4.3.1) of the target URI (§7.1): the scheme, and the host and port that `Host` names. The origin of a Unix socket
//! is `http://localhost`.

use std::num::NonZeroU32;

use slab::Slab;
use thiserror::Error;
use url::{Position, Url};

use crate::checks::Captured;
use crate::driver::HttpLoad;
use crate::operation::Operation;
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
    /// Returns the kind of error that is counted.
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
    ///
    /// # Errors
    /// The redirect can't be followed.
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

/// The redirected operations of one worker: few, or none.
#[derive(Debug, Default)]
pub(crate) struct RedirectTable(Slab<RedirectTarget>);

impl RedirectTable {
    /// Returns the current request of an operation that was redirected.
    pub(crate) fn get(&self, operation: &Operation) -> Option<&RedirectTarget> {
        self.0.get(key(operation.hop?))
    }

    /// Redirects an operation according to its response, given as status and connection index. Returns true if it was
    /// redirected.
    ///
    /// # Errors
    /// The response is a redirect that can't be followed.
    #[inline]
    pub(crate) fn follow(
        &mut self,
        driver: &HttpLoad,
        operation: &mut Operation,
        (status, index): (u16, u32),
        captured: Option<&Captured>,
    ) -> Result<bool, RedirectError> {
        if driver.settings.follow == 0 || !is_redirect(status) {
            return Ok(false);
        }
        self.redirect(driver, operation, (status, index), captured)?;
        Ok(true)
    }

    fn redirect(
        &mut self,
        driver: &HttpLoad,
        operation: &mut Operation,
        (status, index): (u16, u32),
        captured: Option<&Captured>,
    ) -> Result<(), RedirectError> {
        let most = driver.settings.follow;
        let location = driver.checks.field(captured, LOCATION);
        match operation.hop {
            Some(index) => {
                let hop = &mut self.0[key(index)];
                *hop = hop.next(status, location, most)?;
            }
            None => {
                let requests = &driver.requests[index as usize % driver.requests.len()];
                let first = RedirectTarget::first(&requests.target(operation.index));
                // With {id} substituted the host is invalid, so no redirect can be same-origin.
                let hop = first
                    .ok_or(RedirectError::Elsewhere)?
                    .next(status, location, most)?;
                let index = self.0.insert(hop) as u32;
                operation.hop = NonZeroU32::new(index + 1);
            }
        }
        Ok(())
    }

    /// Removes an operation that has ended.
    #[inline]
    pub(crate) fn forget(&mut self, operation: &Operation) {
        if let Some(index) = operation.hop {
            self.0.try_remove(key(index));
        }
    }
}

fn key(index: NonZeroU32) -> usize {
    index.get() as usize - 1
}

#[cfg(test)]
mod tests;
