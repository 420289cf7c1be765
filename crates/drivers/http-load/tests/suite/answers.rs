//! Tests of the response parser: by a table, with any cuts, and compared with hyper.

pub(crate) mod cases;
mod generated;
pub(crate) mod hyper_view;
pub(crate) mod read;

use std::collections::BTreeSet;

use load::net::http1::{KINDS, Reader, RequestInfo, ResponseError};
use proptest::prelude::*;

use self::cases::cases;
use self::generated::answer;
use self::hyper_view::{HyperKind, hyper_view};
use self::read::{cut, read};

#[test]
fn the_table_holds() {
    for case in cases() {
        let seen = read(case.asked, &[&case.bytes]);
        assert_eq!(seen.outcome(), case.expected, "{}", case.name);
    }
}

#[test]
fn the_table_holds_byte_by_byte() {
    // The giant heads are left to the random cuts: they would be parsed again for each of their lines.
    for case in cases().iter().filter(|case| case.bytes.len() < 40_000) {
        let bytes: Vec<&[u8]> = case.bytes.chunks(1).collect();
        let whole = read(case.asked, &[&case.bytes]);
        assert_eq!(read(case.asked, &bytes), whole, "{}", case.name);
    }
}

#[test]
fn the_table_leads_to_every_kind_of_fault_and_to_no_other() {
    let seen: BTreeSet<&str> = cases()
        .iter()
        .filter_map(|case| case.expected.as_ref().err())
        .map(|fault| fault.kind())
        .collect();
    assert_eq!(seen, KINDS.iter().copied().collect());
}

#[test]
fn answers_in_one_buffer_are_told_apart() {
    let first = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".as_slice();
    let second =
        b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n".as_slice();
    let third = b"HTTP/1.1 204 No Content\r\n\r\n".as_slice();
    let together = [first, second, third].concat();
    let mut reader = Reader::new();
    let asked = RequestInfo { head: false };
    let mut rest = together.as_slice();
    for (status, length) in [(200, first.len()), (404, second.len()), (204, third.len())] {
        let progress = reader.take(asked, rest, &mut ()).unwrap();
        assert_eq!(progress.used, length);
        assert_eq!(progress.done.map(|answer| answer.status), Some(status));
        rest = &rest[progress.used..];
    }
    assert!(rest.is_empty());
}

#[test]
fn hyper_counts_the_table_as_we_do_but_where_it_says_so() {
    let mut wrong = Vec::new();
    for case in cases() {
        let seen = read(case.asked, &[&case.bytes]);
        let view = hyper_view(case.asked, &case.bytes, &seen);
        let ours = seen.outcome_by_kind();
        let expected = match case.hyper {
            HyperKind::Same => view == ours,
            HyperKind::Differs(kind, _why) => view != ours && view == Err(kind),
        };
        if !expected {
            wrong.push(format!("{}: hyper {view:?}, ours {ours:?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_head_without_end_is_given_up_while_it_comes() {
    let mut reader = Reader::new();
    let fault = std::iter::once(b"HTTP/1.1 200 Very ".as_slice())
        .chain(std::iter::repeat(b"very ".as_slice()))
        .take(70_000)
        .find_map(|piece| {
            reader
                .take(RequestInfo { head: false }, piece, &mut ())
                .err()
        });
    assert_eq!(fault, Some(ResponseError::HeadTooLarge));
}

proptest! {
    #[test]
    fn the_table_holds_however_it_is_cut(at in proptest::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        for case in cases() {
            let whole = read(case.asked, &[&case.bytes]);
            prop_assert_eq!(read(case.asked, &cut(&case.bytes, &at)), whole, "{}", case.name);
        }
    }

    #[test]
    fn well_formed_answers_are_read_as_they_were_written(
        answer in answer(),
        at in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        next in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = answer.bytes.clone();
        if !answer.until_close {
            bytes.extend(next);
        }
        let seen = read(answer.asked, &cut(&bytes, &at));
        prop_assert_eq!(seen.used, answer.bytes.len());
        prop_assert_eq!(seen.outcome(), Ok(answer.expected()));
    }

    #[test]
    fn well_formed_answers_are_the_same_to_hyper(answer in answer()) {
        let seen = read(answer.asked, &[&answer.bytes]);
        let view = hyper_view(answer.asked, &answer.bytes, &seen);
        prop_assert_eq!(view, seen.outcome_by_kind());
    }

    #[test]
    fn no_bytes_make_it_panic_or_depend_on_cuts(
        start in 0..5_usize,
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), proptest::sample::select(b"\r\n\r\n:0;5a ".to_vec())], 0..200),
        at in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        head in any::<bool>(),
    ) {
        let start = ["", "HTTP/1.1 200\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "HTTP/1.0 200 OK\r\nContent-Length:"][start];
        let bytes = [start.as_bytes(), &bytes].concat();
        let asked = RequestInfo { head };
        let whole = read(asked, &[&bytes]);
        prop_assert!(whole.used <= bytes.len());
        prop_assert_eq!(read(asked, &cut(&bytes, &at)), whole);
    }
}
