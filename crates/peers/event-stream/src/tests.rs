//! Tests of the reader, piece by piece.

use proptest::prelude::*;

use super::*;

/// Returns the data of the events of a stream.
fn data(stream: &[u8]) -> Vec<String> {
    let (events, _) = fuzz::read([stream].into_iter());
    let text = |data: Vec<u8>| String::from_utf8_lossy(&data).into_owned();
    events.into_iter().map(|(data, ..)| text(data)).collect()
}

fn is_cut(stream: &str) -> bool {
    fuzz::read([stream.as_bytes()].into_iter()).1
}

#[test]
fn the_examples_of_the_standard_are_read_as_it_says() {
    assert_eq!(
        data(b"data: YHOO\ndata: +2\ndata: 10\n\n"),
        ["YHOO\n+2\n10"]
    );
    let four = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n";
    assert_eq!(data(four), ["first event", "second event", " third event"]);
    assert_eq!(data(b"data\n\ndata\ndata\n\ndata:"), ["", "\n"]);
    assert_eq!(data(b"data:test\n\ndata: test\n\n"), ["test", "test"]);
}

#[test]
fn names_other_fields_and_comments_are_told_apart() {
    let (record, length) = first(b"event:add\r\nevent: \xff\r\nid: 1\r\nretry\r\n:x\r\n\r\nmore");
    assert_eq!((record.event, length), (Some(&b"\xff"[..]), Some(41)));
    assert_eq!((record.data, record.has_unknown), (None, false));
    let (record, length) = first(b"Data: x\ndata: y\nda");
    assert_eq!(record.data.as_deref(), Some(&b"y"[..]));
    assert!(record.has_unknown && length.is_none());
}

#[test]
fn a_stream_that_ends_within_an_event_is_cut() {
    for whole in [
        "",
        "\n",
        "data: a\r\r",
        ": keep-alive\n",
        "event: x\r",
        "id",
    ] {
        assert_eq!(is_cut(whole), whole == "id", "{whole:?}");
    }
    for cut in [
        "d",
        "data: a",
        "data: a\n",
        "data: a\r\n",
        ":",
        "\u{feff}",
        "\n\nx",
    ] {
        assert_eq!(is_cut(cut), cut != "\u{feff}", "{cut:?}");
    }
    let (mut reader, take) = (Reader::default(), |_: &Record<'_>| Ok::<_, TooLong>(()));
    reader.take(b"\xef\xbb", take).unwrap();
    assert!(reader.is_cut());
}

#[test]
fn a_record_may_be_long_but_not_longer_than_the_limit() {
    let long = |length: usize| [b"data:".as_slice(), &vec![b'x'; length], b"\n\n"].concat();
    let read = |record: &[u8], size: usize| {
        let (mut reader, mut lengths) = (Reader::default(), Vec::new());
        let taken = record.chunks(size).try_for_each(|piece| {
            reader.take(piece, |record| {
                lengths.push(record.data.as_ref().map(|data| data.len()));
                Ok::<_, TooLong>(())
            })
        });
        taken.map(|()| lengths)
    };
    for size in [1 << 10, 1 << 30] {
        let most = RECORD_LIMIT - 7;
        assert_eq!(read(&long(most), size), Ok(vec![Some(most)]));
        assert_eq!(read(&long(most + 1), size), Err(TooLong));
    }
}

#[test]
fn a_content_type_is_compared_without_its_parameters() {
    for (text, is) in [
        ("text/event-stream", true),
        ("Text/Event-Stream ; charset=utf-8", true),
        ("text/event-streams", false),
        ("application/json; x=text/event-stream", false),
        ("", false),
    ] {
        assert_eq!(is_event_stream(text.as_bytes()), is, "{text}");
    }
}

#[test]
fn a_reader_takes_16_bytes() {
    assert_eq!(size_of::<Reader>(), 16);
}

#[test]
fn inputs_that_were_found_do_no_harm() {
    test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), fuzz::TARGETS);
}

proptest! {
    #[test]
    fn a_stream_reads_the_same_however_it_is_cut(
        has_mark in any::<bool>(),
        parts in proptest::collection::vec(
            prop_oneof![
                Just("\n"), Just("\r"), Just("\r\n"), Just("data"), Just("event"), Just(":"), Just(" "), Just("x"),
                Just("data: [DONE]\n\n"), Just("\0"), Just("\u{feff}"), Just("Grüße"),
            ],
            0..60,
        ),
        cuts in proptest::collection::vec(1_usize..9, 1..20),
    ) {
        let stream = [if has_mark { "\u{feff}" } else { "" }, &parts.concat()].concat();
        let (mut pieces, mut rest) = (Vec::new(), stream.as_bytes());
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() { break; }
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            (pieces, rest) = ([pieces, vec![piece]].concat(), after);
        }
        let whole = fuzz::read([stream.as_bytes()].into_iter());
        prop_assert_eq!(fuzz::read(pieces.into_iter()), whole);
    }
}
