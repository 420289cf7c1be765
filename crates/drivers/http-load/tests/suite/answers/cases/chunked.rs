//! Cases of chunks and trailers.

use load::net::http1::{Missing, ResponseError};

use super::{Case, chunked, early, fault, kept};

pub(super) fn chunks() -> Vec<Case> {
    let extension =
        |length: usize| chunked(&format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(length)));
    vec![
        kept("no chunk", chunked("0\r\n\r\n"), 200, ""),
        kept(
            "two chunks",
            chunked("2\r\nhe\r\n003\r\nllo\r\n000\r\n\r\n"),
            200,
            "hello",
        ),
        kept(
            "upper and lower case",
            chunked("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n"),
            200,
            "01234567890123456789",
        ),
        kept(
            "extensions",
            chunked("5;a=b;c=\"d\"\r\nhello\r\n0;z\r\n\r\n"),
            200,
            "hello",
        ),
        kept(
            "space before an extension",
            chunked("5 \t;a\r\nhello\r\n0 \r\n\r\n"),
            200,
            "hello",
        ),
        kept(
            "CRLF as data",
            chunked("2\r\n\r\n\r\n0\r\n\r\n"),
            200,
            "\r\n",
        ),
        kept("a long extension", extension(16 * 1024 - 1), 200, "hello"),
        fault("a longer one", extension(16 * 1024), ResponseError::Chunk),
        fault(
            "no size",
            chunked("\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "a space for a size",
            chunked(" \r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "a space first",
            chunked(" 5\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "a size of letters",
            chunked("xyz\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "a negative size",
            chunked("-5\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "0x",
            chunked("0x5\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "two sizes",
            chunked("5 5\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "beyond 64 bits",
            chunked("10000000000000000\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        early(
            "64 bits",
            chunked("ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
            Missing::Chunks,
        ),
        fault(
            "LF after a size",
            chunked("5\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "LF in an extension",
            chunked("5;a\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "CR alone after the last size",
            chunked("0\rx\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "CR alone after a size",
            chunked("5\rhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "more data than said",
            chunked("4\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "less data than said",
            chunked("6\r\nhello\r\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "LF after data",
            chunked("5\r\nhello\n0\r\n\r\n"),
            ResponseError::Chunk,
        ),
        fault(
            "CR and more after data",
            chunked("5\r\nhello\rx0\r\n\r\n"),
            ResponseError::Chunk,
        ),
    ]
}

pub(super) fn trailers() -> Vec<Case> {
    let trailer = |lines: &str| chunked(&format!("0\r\n{lines}\r\n"));
    let held = "it looks for CRLF first, and for fields in what is before it";
    vec![
        kept("one", trailer("X-Sum: 1\r\n"), 200, ""),
        kept("two, one empty", trailer("a:\r\nb: \t c\r\n"), 200, ""),
        kept(
            "obs-text",
            [chunked("0\r\nX: ").as_bytes(), b"\xe4\r\n\r\n"].concat(),
            200,
            "",
        ),
        kept(
            "a length is none",
            trailer("Content-Length: 5\r\n"),
            200,
            "",
        ),
        fault("no colon", trailer("nonsense\r\n"), ResponseError::Trailer),
        fault("no name", trailer(": a\r\n"), ResponseError::Trailer),
        fault(
            "a space before the colon",
            trailer("a : b\r\n"),
            ResponseError::Trailer,
        ),
        fault("folded", trailer("a: b\r\n c\r\n"), ResponseError::Trailer),
        fault(
            "a control character",
            trailer("a: \x01\r\n"),
            ResponseError::Trailer,
        ),
        fault(
            "LF for CRLF",
            trailer("a: b\nc: d\r\n"),
            ResponseError::Trailer,
        ),
        fault("LF at the end", chunked("0\r\n\n"), ResponseError::Trailer)
            .hyper("early_close", held),
        fault("DEL", trailer("a: \x7f\r\n"), ResponseError::Trailer),
        kept(
            "many, after a long extension",
            chunked(&format!(
                "0;{}\r\na: {}\r\n\r\n",
                "x".repeat(16_000),
                "x".repeat(60_000)
            )),
            200,
            "",
        ),
        fault("no line end", chunked("0\r\n\rx"), ResponseError::Trailer),
        fault("CR alone", trailer("a: b\rc\r\n"), ResponseError::Trailer),
        fault(
            "64 KiB of them",
            trailer(&format!("a: {}\r\n", "x".repeat(64 * 1024))),
            ResponseError::Trailer,
        ),
        kept("101 of them", trailer(&"a: b\r\n".repeat(101)), 200, "")
            .hyper("protocol_trailer", "it takes 100"),
    ]
}
