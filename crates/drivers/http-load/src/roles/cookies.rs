//! The cookies of one client (RFC 6265), as far as one server needs them: names, values, `Path`, `Max-Age` and `Expires`.
//!
//! `Domain` and `Secure` are not honoured: a test often leaves out the name and the TLS that users see. A cookie without
//! `Path` counts for all paths.

use std::time::{Duration, SystemTime};

/// The cookies of one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cookies {
    /// Longer paths first (§5.4), and by name among equal ones.
    list: Vec<Cookie>,
}

#[derive(Debug, Clone)]
struct Cookie {
    name: String,
    value: String,
    path: String,
    /// `None` without an end.
    ends: Option<SystemTime>,
}

impl Cookies {
    /// No cookies.
    pub(crate) const NONE: &'static Self = &Self { list: Vec::new() };

    /// Keeps the cookies of an answer: `Set-Cookie` fields, one a line. One that has ended is deleted (§5.3).
    pub(crate) fn keep(&mut self, fields: &[u8], now: SystemTime) {
        for field in String::from_utf8_lossy(fields).lines() {
            let Some(cookie) = Cookie::parse(field, now) else {
                continue;
            };
            let key = |one: &Cookie| {
                (
                    usize::MAX - one.path.len(),
                    one.path.clone(),
                    one.name.clone(),
                )
            };
            self.list.retain(|known| key(known) != key(&cookie));
            if cookie.is_current(now) {
                let after = self.list.partition_point(|known| key(known) < key(&cookie));
                self.list.insert(after, cookie);
            }
        }
    }

    /// Returns true if none was kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the value of the field `Cookie` of a request for this path, with or without a query; empty without cookies.
    pub(crate) fn of_path(&self, target: &[u8]) -> String {
        let mut text = String::new();
        if self.list.is_empty() {
            return text;
        }
        let end = target.iter().position(|byte| *byte == b'?');
        let path = &target[..end.unwrap_or(target.len())];
        let has_ends = self.list.iter().any(|cookie| cookie.ends.is_some());
        let now = if has_ends {
            SystemTime::now()
        } else {
            SystemTime::UNIX_EPOCH
        };
        for cookie in self
            .list
            .iter()
            .filter(|cookie| cookie.is_of(path) && cookie.is_current(now))
        {
            let separator = if text.is_empty() { "" } else { "; " };
            text.extend([separator, &cookie.name, "=", &cookie.value]);
        }
        text
    }
}

impl Cookie {
    fn parse(field: &str, now: SystemTime) -> Option<Self> {
        let mut parts = field.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (mut path, mut ends, mut has_age) = ("/", None, false);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                // Another path counts as none (§5.2.4).
                "path" => path = if value.starts_with('/') { value } else { "/" },
                "max-age" => {
                    if let Ok(seconds) = value.parse::<i64>() {
                        let seconds = Duration::from_secs(seconds.max(0).unsigned_abs());
                        // The age takes precedence over a date.
                        (ends, has_age) = (now.checked_add(seconds), true);
                    }
                }
                "expires" if !has_age => ends = date(value),
                _ => {}
            }
        }
        let name = name.trim();
        (!name.is_empty()).then(|| Self {
            name: name.to_owned(),
            value: value.trim().to_owned(),
            path: path.to_owned(),
            ends,
        })
    }

    fn is_current(&self, now: SystemTime) -> bool {
        self.ends.is_none_or(|ends| ends > now)
    }

    /// Returns true if a path is the cookie's or below it (§5.1.4).
    fn is_of(&self, path: &[u8]) -> bool {
        path.strip_prefix(self.path.as_bytes()).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(b"/") || self.path.ends_with('/')
        })
    }
}

/// Parses a date of HTTP, also as servers of old times write it: `Thu, 01-Jan-2026 00:00:00 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    let date = httpdate::parse_http_date(text);
    date.or_else(|_| httpdate::parse_http_date(&text.replace('-', " ")))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(fields: &[&str]) -> Cookies {
        let mut cookies = Cookies::default();
        let now = SystemTime::now();
        fields
            .iter()
            .for_each(|field| cookies.keep(field.as_bytes(), now));
        cookies
    }

    #[test]
    fn cookies_are_kept_replaced_and_deleted() {
        let first = "b=2; Path=/; HttpOnly\na=1=x;Secure\nbad\n=none";
        assert_eq!(kept(&[first]).of_path(b"/"), "a=1=x; b=2");
        assert_eq!(
            kept(&[first, "b=3; max-age=60"]).of_path(b"/x"),
            "a=1=x; b=3"
        );
        let end = "b=; Max-Age=0\na=; expires=Thu, 01 Jan 1970 00:00:00 GMT";
        assert_eq!(kept(&[first, end]).of_path(b"/"), "");
    }

    #[test]
    fn a_cookie_is_sent_on_its_path_and_below_the_longest_first() {
        let cookies = kept(&[
            "all=1\nshop=2; Path=/shop\nitem=3; path=/shop/item/; Domain=other\nodd=4; Path=x",
        ]);
        for (target, expected) in [
            ("/", "all=1; odd=4"),
            ("/shop?a=/shop", "shop=2; all=1; odd=4"),
            ("/shopping", "all=1; odd=4"),
            ("/shop/item", "shop=2; all=1; odd=4"),
            ("/shop/item/7", "item=3; shop=2; all=1; odd=4"),
            ("/?/shop/", "all=1; odd=4"),
        ] {
            assert_eq!(cookies.of_path(target.as_bytes()), expected, "{target}");
        }
        // One name may have several paths, and each is deleted for itself.
        let mut cookies = kept(&["a=1; Path=/x\na=2"]);
        cookies.keep(b"a=; Path=/x; Max-Age=-1", SystemTime::now());
        assert_eq!(cookies.of_path(b"/x"), "a=2");
    }

    #[test]
    fn a_cookie_ends_at_its_date_or_age() {
        for (field, is_sent) in [
            ("a=1; Expires=Fri, 01 Jan 2100 00:00:00 GMT", true),
            ("a=1; Expires=Fri, 01-Jan-2100 00:00:00 GMT", true),
            ("a=1; Expires=Thu, 01-Jan-2026 00:00:00 GMT", false),
            ("a=1; Expires=Monday, 01-Jan-90 00:00:00 GMT", false),
            ("a=1; Expires=soon", true),
            (
                "a=1; Max-Age=0; Expires=Fri, 01 Jan 2100 00:00:00 GMT",
                false,
            ),
            (
                "a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60",
                true,
            ),
            ("a=1; Max-Age=9223372036854775807", true),
        ] {
            assert_eq!(!kept(&[field]).of_path(b"/").is_empty(), is_sent, "{field}");
        }
        // It ends in the run, too.
        let mut cookies = Cookies::default();
        cookies.keep(
            b"a=1; Max-Age=5",
            SystemTime::now() - Duration::from_secs(6),
        );
        assert_eq!(cookies.list.len(), 1);
        assert_eq!(cookies.of_path(b"/"), "");
    }
}
