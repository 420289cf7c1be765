//! The fields of a request that select a part of a file, or nothing of it (RFC 9110, sections 13 and 14).

use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use hyper::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use hyper::{HeaderMap, Method};

use crate::files::Facts;

/// The last second that a date of HTTP can name, at the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// The part of a file that a request gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    Whole,
    /// These bytes, with status 206.
    Part(Range<u64>),
    /// These ranges one after the other, with status 206: at least two.
    Parts(Vec<Range<u64>>),
    /// 304: the client has this version.
    NotModified,
    /// 412: the client does not want this version.
    Failed,
    /// 416: no byte of the file is in the range.
    Unsatisfiable,
}

/// Formats a time, in seconds since 1970, as a date of HTTP.
pub(crate) fn http_date(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_SECOND)))
}

/// Selects in the order of RFC 9110, 13.2.2. A date that is not valid is ignored.
pub(crate) fn select(method: &Method, headers: &HeaderMap, facts: &Facts) -> Selection {
    let etag = facts.etag();
    let tags = |name: HeaderName| {
        headers
            .contains_key(&name)
            .then(|| headers.get_all(name).iter().map(|value| value.as_bytes()))
    };
    let date = |name| single(headers, name).and_then(seconds);
    if let Some(mut lists) = tags(IF_MATCH) {
        if !lists.any(|list| has_tag(list, &etag, false)) {
            return Selection::Failed;
        }
    } else if date(IF_UNMODIFIED_SINCE).is_some_and(|date| facts.modified > date) {
        return Selection::Failed;
    }
    if let Some(mut lists) = tags(IF_NONE_MATCH) {
        if lists.any(|list| has_tag(list, &etag, true)) {
            return Selection::NotModified;
        }
    } else if date(IF_MODIFIED_SINCE).is_some_and(|date| facts.modified <= date) {
        return Selection::NotModified;
    }
    // For other methods a range has no meaning, also for HEAD (14.2).
    let is_current = |value: &str| value == etag || seconds(value) == Some(facts.modified);
    match single(headers, RANGE) {
        Some(range)
            if method == Method::GET
                && (!headers.contains_key(IF_RANGE)
                    || single(headers, IF_RANGE).is_some_and(is_current)) =>
        {
            select_range(range, facts.length)
        }
        _ => Selection::Whole,
    }
}

/// Returns the value of a field that is there once.
fn single(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn seconds(date: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(date).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// Returns true if a list of entity tags has this one, or is `*`. A weak tag is never the same as another one in a
/// strong comparison. What follows a malformed tag is ignored.
fn has_tag(mut list: &[u8], etag: &str, is_weak: bool) -> bool {
    loop {
        list = list.trim_ascii_start();
        if list == b"*" {
            return true;
        }
        let tag = list.strip_prefix(b"W/");
        let is_comparable = is_weak || tag.is_none();
        let tag = tag.unwrap_or(list);
        if tag.first() != Some(&b'"') {
            return false;
        }
        let Some(end) = memchr::memchr(b'"', &tag[1..]) else {
            return false;
        };
        let (tag, rest) = tag.split_at(end + 2);
        if is_comparable && tag == etag.as_bytes() {
            return true;
        }
        match rest.trim_ascii_start().strip_prefix(b",") {
            Some(next) => list = next,
            None => return false,
        }
    }
}

/// Selects ranges of a file. If they are longer than the file together, it is the whole file: a client could ask for the same
/// bytes again and again (14.2). Malformed ones are answered with 416. nginx does both, too.
fn select_range(value: &str, length: u64) -> Selection {
    let (unit, ranges) = value.split_once('=').unwrap_or_default();
    if length == 0 || !unit.eq_ignore_ascii_case("bytes") || ranges.is_empty() {
        return Selection::Whole;
    }
    let mut selected = Vec::new();
    for range in ranges.split(',') {
        let Some(range) = parse_range(range.trim_ascii(), length) else {
            return Selection::Unsatisfiable;
        };
        if !range.is_empty() {
            selected.push(range);
        }
    }
    let sum: u64 = selected.iter().map(|range| range.end - range.start).sum();
    match selected.as_slice() {
        [] => Selection::Unsatisfiable,
        [range] => Selection::Part(range.clone()),
        _ if sum > length => Selection::Whole,
        _ => Selection::Parts(selected),
    }
}

/// Parses a range, which is empty if it selects no byte.
fn parse_range(range: &str, length: u64) -> Option<Range<u64>> {
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.trim_ascii_end(), last.trim_ascii_start());
    if first.is_empty() {
        return Some(length.saturating_sub(number(last)?)..length);
    }
    let end = match last {
        "" => length,
        last => number(last)?.saturating_add(1).min(length),
    };
    Some(number(first)?..end)
}

/// Parses digits; a number that is too large is as good as the largest.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const FACTS: Facts = Facts {
        length: 100,
        modified: 1_000_000_000,
        kind: "text/plain",
    };
    const TAG: &str = "\"3b9aca00-64\"";
    const DATE: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
    const EARLIER: &str = "Sun, 09 Sep 2001 01:46:39 GMT";
    const LATER: &str = "Fri, 31 Dec 9999 23:59:59 GMT";

    fn selected(method: &Method, fields: &[(&'static str, &str)]) -> Selection {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        select(method, &headers, &FACTS)
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        use Selection::{Part, Parts, Unsatisfiable, Whole};
        for (range, selection) in [
            ("bytes=0-0", Part(0..1)),
            ("BYTES=5-", Part(5..100)),
            ("bytes= 5 - 9 ", Part(5..10)),
            ("bytes=-1", Part(99..100)),
            ("bytes=-1000", Part(0..100)),
            ("bytes=99-99999999999999999999", Part(99..100)),
            ("bytes=0-0,100-", Part(0..1)),
            ("bytes=0-1,5-6", Parts(vec![0..2, 5..7])),
            ("bytes=5-14, 0-9,100-", Parts(vec![5..15, 0..10])),
            ("bytes=0-49,-50", Parts(vec![0..50, 50..100])),
            ("bytes=0-49,-51", Whole),
            ("bytes=0-,0-,0-", Whole),
            ("bytes=-0", Unsatisfiable),
            ("bytes=100-", Unsatisfiable),
            ("bytes=99999999999999999999-", Unsatisfiable),
            ("bytes=5-4", Unsatisfiable),
            ("bytes=", Whole),
            ("bytes=-", Unsatisfiable),
            ("bytes=--1", Unsatisfiable),
            ("bytes=+1-2", Unsatisfiable),
            ("bytes=a-", Unsatisfiable),
            ("bytes=1", Unsatisfiable),
            ("bytes=0-1,x", Unsatisfiable),
            ("lines=0-1", Whole),
            ("bytes", Whole),
        ] {
            let found = selected(&Method::GET, &[("range", range)]);
            assert_eq!(found, selection, "{range}");
        }
        let head = selected(&Method::HEAD, &[("range", "bytes=0-0")]);
        assert_eq!(head, Whole);
        let twice = [("range", "bytes=0-0"), ("range", "bytes=1-1")];
        assert_eq!(selected(&Method::GET, &twice), Whole);
        assert_eq!(select_range("bytes=0-0", 0), Whole);
    }

    #[test]
    fn conditions_are_those_of_the_rfc() {
        use Selection::{Failed, NotModified, Part, Whole};
        let weak = format!("W/{TAG}");
        let list = format!("\"a,b\" , W/\"c\",{TAG}");
        let range = ("range", "bytes=0-0");
        for (fields, selection) in [
            (&[("if-none-match", TAG)][..], NotModified),
            (&[("if-none-match", &*weak)], NotModified),
            (&[("if-none-match", &*list)], NotModified),
            (&[("if-none-match", "*")], NotModified),
            (
                &[("if-none-match", "\"a\""), ("if-none-match", TAG)],
                NotModified,
            ),
            (&[("if-none-match", "\"a\"")], Whole),
            (&[("if-none-match", "3b9aca00-64")], Whole),
            (&[("if-none-match", "\"3b9aca00-64")], Whole),
            // A tag goes before a date.
            (
                &[("if-none-match", "\"a\""), ("if-modified-since", DATE)],
                Whole,
            ),
            (&[("if-modified-since", DATE)], NotModified),
            (&[("if-modified-since", LATER)], NotModified),
            (&[("if-modified-since", EARLIER)], Whole),
            (&[("if-modified-since", "yesterday")], Whole),
            (
                &[("if-modified-since", "Sunday, 09-Sep-01 01:46:40 GMT")],
                NotModified,
            ),
            (
                &[("if-modified-since", DATE), ("if-modified-since", DATE)],
                Whole,
            ),
            (&[("if-match", TAG)], Whole),
            (&[("if-match", "*")], Whole),
            (&[("if-match", &*list)], Whole),
            (&[("if-match", &*weak)], Failed),
            (
                &[("if-match", "\"a\""), ("if-unmodified-since", DATE)],
                Failed,
            ),
            (
                &[("if-match", TAG), ("if-unmodified-since", EARLIER)],
                Whole,
            ),
            (&[("if-unmodified-since", DATE)], Whole),
            (&[("if-unmodified-since", EARLIER)], Failed),
            (&[("if-unmodified-since", "never")], Whole),
            (&[range, ("if-range", TAG)], Part(0..1)),
            (&[range, ("if-range", DATE)], Part(0..1)),
            (&[range, ("if-range", &*weak)], Whole),
            (&[range, ("if-range", LATER)], Whole),
            (&[range, ("if-range", "")], Whole),
            (&[range, ("if-none-match", TAG)], NotModified),
            (&[range, ("if-match", "\"a\"")], Failed),
        ] {
            assert_eq!(selected(&Method::GET, fields), selection, "{fields:?}");
        }
    }

    #[test]
    fn a_date_beyond_those_of_http_is_the_last_one() {
        assert_eq!(http_date(1_000_000_000), DATE);
        assert_eq!(http_date(u64::MAX), LATER);
    }
}
