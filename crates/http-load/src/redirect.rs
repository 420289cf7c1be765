//! Redirects that are followed: where an answer leads, and what is asked there. No socket, no clock; the same for both
//! engines and for the check before the run.
//!
//! Source: RFC 9110 §15.4. 301, 302, 303, 307 and 308 lead to their `Location` (§10.2.2); 300 offers a choice and 304 is
//! about what a client has, so that both are answers like any other. After 301, 302 and 303 the method is GET, or HEAD as
//! before, and the content is gone with the fields that are about it; after 307 and 308 all is as before. `Location` is read
//! as browsers do (the `url` crate), but for one with white space inside. It must lead to the origin (§4.3.1) of the target
//! URI (§7.1): the scheme, and the host and port that `Host` names. That of a Unix socket is `http://localhost`.

use std::num::NonZeroU32;

use slab::Slab;
use thiserror::Error;
use url::{Position, Url};

use crate::checks::Seen;
use crate::driver::HttpLoad;
use crate::operation::Operation;
use crate::outcome;

/// The field that says where an answer leads, in lower case.
pub(crate) const LOCATION: &str = "location";
/// Longest path and query that is followed: hyper takes none of 64 KiB, and one that is relative grows with each hop.
const LONGEST: usize = 32 * 1024;

/// Why a redirect can't be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Astray {
    #[error(
        "it leads to another scheme, host or port, and only the server that was asked is asked on: ask that one, or leave out --follow"
    )]
    Elsewhere,
    #[error(
        "it is one redirect more than --follow allows: raise it, or ask for where they lead, if they end"
    )]
    TooMany,
    #[error("it has no Location that can be read: correct the path, or leave out --follow")]
    WithoutLocation,
}

impl Astray {
    /// The kind of error that is counted.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Elsewhere => outcome::REDIRECT_ELSEWHERE,
            Self::TooMany => outcome::TOO_MANY_REDIRECTS,
            Self::WithoutLocation => outcome::REDIRECT_WITHOUT_LOCATION,
        }
    }
}

/// Whether a status leads elsewhere.
pub(crate) fn leads_on(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Whether a field is about the content, and goes with it.
pub(crate) fn is_of_content(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("content-") || matches!(name.as_str(), "digest" | "last-modified")
}

/// One request of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    url: Url,
    /// Whether it has no content, and a method that has none.
    pub(crate) bare: bool,
    /// Redirects that led here.
    followed: u32,
}

impl Hop {
    /// The one that an operation begins with, by its target URI; `None` if that is none.
    pub(crate) fn first(target: &str) -> Option<Self> {
        Some(Self {
            url: Url::parse(target).ok()?,
            bare: false,
            followed: 0,
        })
    }

    /// The one that a redirect leads to, of `most` that are followed.
    ///
    /// # Errors
    /// It can't be followed.
    pub(crate) fn next(
        &self,
        status: u16,
        location: Option<&[u8]>,
        most: u32,
    ) -> Result<Self, Astray> {
        let text = location.and_then(|location| str::from_utf8(location.trim_ascii()).ok());
        // A value that is folded has white space where it was: line ends or spaces, as its reader has it.
        let text = text.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte > b' '));
        let url = text.and_then(|text| self.url.join(text).ok());
        let url = url.ok_or(Astray::WithoutLocation)?;
        if !is_same_origin(&url, &self.url) {
            return Err(Astray::Elsewhere);
        }
        let next = Self {
            url,
            bare: self.bare || matches!(status, 301..=303),
            followed: self.followed + 1,
        };
        if next.target().len() > LONGEST {
            Err(Astray::WithoutLocation)
        } else if self.followed >= most {
            Err(Astray::TooMany)
        } else {
            Ok(next)
        }
    }

    /// What the request line asks for: path and query.
    pub(crate) fn target(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// The method, of an operation that begins with this one.
    pub(crate) fn method<'a>(&self, first: &'a str) -> &'a str {
        if self.bare && first != "HEAD" {
            "GET"
        } else {
            first
        }
    }
}

/// RFC 9110 §4.3.1.
fn is_same_origin(one: &Url, other: &Url) -> bool {
    let of = |url: &Url| url.port_or_known_default();
    one.scheme() == other.scheme() && one.host() == other.host() && of(one) == of(other)
}

/// Where the operations of one worker stand that were led on: few, or none.
#[derive(Debug, Default)]
pub(crate) struct Hops(Slab<Hop>);

impl Hops {
    /// What an operation asks, if it was led on.
    pub(crate) fn of(&self, operation: &Operation) -> Option<&Hop> {
        self.0.get(key(operation.hop?))
    }

    /// Has an operation go where its answer from the server in this place leads it; whether it does.
    ///
    /// # Errors
    /// It leads on, and can't be followed.
    #[inline]
    pub(crate) fn follow(
        &mut self,
        driver: &HttpLoad,
        operation: &mut Operation,
        (status, place): (u16, u32),
        seen: Option<&Seen>,
    ) -> Result<bool, Astray> {
        if driver.settings.follow == 0 || !leads_on(status) {
            return Ok(false);
        }
        self.lead(driver, operation, (status, place), seen)?;
        Ok(true)
    }

    fn lead(
        &mut self,
        driver: &HttpLoad,
        operation: &mut Operation,
        (status, place): (u16, u32),
        seen: Option<&Seen>,
    ) -> Result<(), Astray> {
        let most = driver.settings.follow;
        let location = driver.checks.field(seen, LOCATION);
        match operation.hop {
            Some(place) => {
                let hop = &mut self.0[key(place)];
                *hop = hop.next(status, location, most)?;
            }
            None => {
                let requests = &driver.requests[place as usize % driver.requests.len()];
                let first = Hop::first(&requests.target(operation.index));
                // Of a host that is none with this number in it, nothing is the same.
                let hop = first
                    .ok_or(Astray::Elsewhere)?
                    .next(status, location, most)?;
                let place = self.0.insert(hop) as u32;
                operation.hop = NonZeroU32::new(place + 1);
            }
        }
        Ok(())
    }

    /// An operation has ended.
    #[inline]
    pub(crate) fn forget(&mut self, operation: &Operation) {
        if let Some(place) = operation.hop {
            self.0.try_remove(key(place));
        }
    }
}

fn key(place: NonZeroU32) -> usize {
    place.get() as usize - 1
}

#[cfg(test)]
mod tests;
