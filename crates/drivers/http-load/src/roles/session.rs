//! The memory of one client: the values that it has taken from answers, and its cookies.

use std::collections::BTreeMap;

use crate::mix::MixRequest;
use crate::roles::checks::{Captured, Checks};

/// The field with a cookie to keep, in lower case.
pub(crate) const SET_COOKIE: &str = "set-cookie";

/// The values and cookies of one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    /// By the index of the name; `None` before an answer had it.
    pub(crate) values: Vec<Option<Box<[u8]>>>,
    cookies: BTreeMap<String, String>,
    /// The value of the field `Cookie`; empty without cookies.
    pub(crate) cookie: String,
}

impl Session {
    /// Creates the memory of a client that has sent nothing, for this number of names.
    pub(crate) fn new(values: usize) -> Self {
        Self {
            values: vec![None; values],
            ..Self::default()
        }
    }

    /// Takes the values of a request from its answer. Returns the first capture that finds none.
    pub(crate) fn learn<'r>(
        &mut self,
        request: &'r MixRequest,
        checks: &Checks,
        captured: Option<&Captured>,
    ) -> Result<(), &'r str> {
        let (body, mut json) = (captured.map_or(&[][..], Captured::body), None);
        for (index, text, capture) in &request.captures {
            let field = |name: &str| checks.field(captured, name);
            let value = capture.take(body, &mut json, field);
            self.values[*index] = Some(value.ok_or(text.as_str())?);
        }
        if let Some(sent) = request.sent {
            self.values[sent] = Some(Box::default());
        }
        Ok(())
    }

    /// Keeps the cookies of an answer: `Set-Cookie` fields, one a line. A cookie counts for every path of the server until it
    /// is deleted: a `Max-Age` of 0 or below, or `Expires` in 1970 (RFC 6265 §5.2).
    pub(crate) fn keep_cookies(&mut self, fields: &[u8]) {
        for field in String::from_utf8_lossy(fields).lines() {
            let mut parts = field.split(';').map(str::trim);
            let pair = parts.next().and_then(|pair| pair.split_once('='));
            let Some((name, value)) = pair.filter(|(name, _)| !name.trim().is_empty()) else {
                continue;
            };
            let is_end = |part: &str| match part.split_once('=') {
                Some((key, age)) if key.trim().eq_ignore_ascii_case("max-age") => {
                    age.trim().parse::<i64>().is_ok_and(|age| age <= 0)
                }
                Some((key, date)) if key.trim().eq_ignore_ascii_case("expires") => {
                    date.contains("1970")
                }
                _ => false,
            };
            let name = name.trim().to_owned();
            if parts.any(is_end) {
                self.cookies.remove(&name);
            } else {
                self.cookies.insert(name, value.trim().to_owned());
            }
        }
        let pairs = self.cookies.iter();
        let pairs: Vec<String> = pairs
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        self.cookie = pairs.join("; ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_kept_replaced_and_deleted() {
        let mut session = Session::default();
        session.keep_cookies(b"b=2; Path=/; HttpOnly\na=1=x;Secure\nbad\n=none");
        assert_eq!(session.cookie, "a=1=x; b=2");
        session.keep_cookies(b"b=3; max-age=60");
        assert_eq!(session.cookie, "a=1=x; b=3");
        session.keep_cookies(b"b=; Max-Age=0\na=; expires=Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(session.cookie, "");
    }
}
