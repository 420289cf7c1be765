//! Answers byte by byte, what each means, and whether hyper agrees. After the last byte the server closes.

use http_load::answer::{Asked, Fault, Missing};

use crate::hyper_view::HyperKind::{self, Differs, Same};
use crate::read::Content;

/// One answer.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) asked: Asked,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Result<Content, Fault>,
    pub(crate) hyper: HyperKind,
}

impl Case {
    fn to_head(mut self) -> Self {
        self.asked.head = true;
        self
    }

    fn hyper(mut self, kind: &'static str, why: &'static str) -> Self {
        self.hyper = Differs(kind, why);
        self
    }
}

fn case(name: &'static str, bytes: impl Into<Vec<u8>>, expected: Result<Content, Fault>) -> Case {
    Case {
        name,
        asked: Asked { head: false },
        bytes: bytes.into(),
        expected,
        hyper: Same,
    }
}

/// The connection may be used again.
fn kept(name: &'static str, bytes: impl Into<Vec<u8>>, status: u16, body: &str) -> Case {
    case(name, bytes, Ok((status, body.into(), true)))
}

/// It may not.
fn closed(name: &'static str, bytes: impl Into<Vec<u8>>, status: u16, body: &str) -> Case {
    case(name, bytes, Ok((status, body.into(), false)))
}

fn fault(name: &'static str, bytes: impl Into<Vec<u8>>, fault: Fault) -> Case {
    case(name, bytes, Err(fault))
}

fn early(name: &'static str, bytes: impl Into<Vec<u8>>, missing: Missing) -> Case {
    case(name, bytes, Err(Fault::Early { missing }))
}

/// A chunked answer.
fn chunked(rest: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}")
}

/// An answer of 5 bytes with some more fields.
fn five(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{fields}\r\nhello")
}

/// All of them.
pub(crate) fn cases() -> Vec<Case> {
    [
        status_lines(),
        heads(),
        sizes(),
        lengths(),
        codings(),
        bodyless(),
        connections(),
        chunks(),
        trailers(),
        cut_short(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn status_lines() -> Vec<Case> {
    let empty = "Content-Length: 0\r\n\r\n";
    let line = |line: &str| format!("{line}\r\n{empty}");
    vec![
        kept("plain", five(""), 200, "hello"),
        kept("no reason phrase", line("HTTP/1.1 200 "), 200, ""),
        kept(
            "no space before the missing phrase",
            line("HTTP/1.1 200"),
            200,
            "",
        ),
        kept("an unknown status", line("HTTP/1.1 799 What"), 799, ""),
        kept("an empty line first", line("\r\nHTTP/1.1 200 OK"), 200, ""),
        kept(
            "several, of LF alone",
            line("\n\n\nHTTP/1.1 200 OK"),
            200,
            "",
        ),
        kept(
            "obs-text in the phrase",
            b"HTTP/1.1 200 \xfcber\r\nContent-Length: 0\r\n\r\n",
            200,
            "",
        ),
        fault("no HTTP", "hello\r\n\r\n", Fault::StatusLine),
        fault("no HTTP and no line", "hello", Fault::StatusLine),
        fault("nearly HTTP and no line", "HTTQ", Fault::StatusLine),
        fault(
            "a status below 100",
            line("HTTP/1.1 099 Low"),
            Fault::StatusLine,
        ),
        fault(
            "a status of two digits",
            line("HTTP/1.1 20 OK"),
            Fault::StatusLine,
        ),
        fault(
            "a status of four digits",
            line("HTTP/1.1 2000 OK"),
            Fault::StatusLine,
        ),
        fault(
            "a status of letters",
            line("HTTP/1.1 abc OK"),
            Fault::StatusLine,
        ),
        fault("two spaces", line("HTTP/1.1  200 OK"), Fault::StatusLine),
        fault("HTTP/2.0", line("HTTP/2.0 200 OK"), Fault::StatusLine),
        fault("HTTP/1.2", line("HTTP/1.2 200 OK"), Fault::StatusLine),
        fault("HTTP/0.9", "<html></html>", Fault::StatusLine),
        fault("lower case", line("http/1.1 200 OK"), Fault::StatusLine),
        fault(
            "a NUL in the phrase",
            line("HTTP/1.1 200 O\0K"),
            Fault::StatusLine,
        ),
    ]
}

fn heads() -> Vec<Case> {
    vec![
        kept(
            "LF alone",
            "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
            200,
            "hello",
        ),
        kept(
            "a folded field",
            five("X: a\r\n b\r\n\tc\r\n"),
            200,
            "hello",
        ),
        kept("an empty value", five("X:\r\n"), 200, "hello"),
        kept(
            "obs-text in a value",
            [
                b"HTTP/1.1 200 OK\r\nX: \xe4\r\n".as_slice(),
                b"Content-Length: 0\r\n\r\n",
            ]
            .concat(),
            200,
            "",
        ),
        kept(
            "a folded length",
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\nhello",
            200,
            "hello",
        ),
        fault("a space before the colon", five("X : a\r\n"), Fault::Header),
        fault(
            "a space before the first field",
            "HTTP/1.1 200 OK\r\n X: a\r\n\r\n",
            Fault::Header,
        ),
        fault("no colon", five("nonsense\r\n"), Fault::Header),
        fault("no name", five(": a\r\n"), Fault::Header),
        fault(
            "a control character in a value",
            five("X: a\x01b\r\n"),
            Fault::Header,
        ),
        fault("CR alone", five("X: a\rb\r\n"), Fault::Header),
        fault(
            "a name that is no token",
            five("X(y): a\r\n"),
            Fault::Header,
        ),
    ]
}

fn sizes() -> Vec<Case> {
    let fields = |count: usize| "X: a\r\n".repeat(count);
    let long = |head: usize| {
        let others = five("X: \r\n").len() - "hello".len();
        five(&format!("X: {}\r\n", "x".repeat(head - others)))
    };
    vec![
        kept("99 fields more", five(&fields(99)), 200, "hello"),
        fault("100 fields more", five(&fields(100)), Fault::HeadTooLarge),
        kept("64 KiB", long(64 * 1024), 200, "hello"),
        fault(
            "64 KiB and a byte",
            long(64 * 1024 + 1),
            Fault::HeadTooLarge,
        ),
        fault(
            "64 KiB without end",
            format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(70_000)),
            Fault::HeadTooLarge,
        ),
    ]
}

fn lengths() -> Vec<Case> {
    let length = |length: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nhello");
    vec![
        kept(
            "zero",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            200,
            "",
        ),
        kept("leading zeros", length("005"), 200, "hello"),
        kept("the same twice in a line", length("5, 5"), 200, "hello"),
        kept(
            "the same twice",
            five("content-length: 5\r\n"),
            200,
            "hello",
        ),
        fault("another in the line", length("5, 6"), Fault::Length),
        fault("another line", five("CONTENT-LENGTH: 6\r\n"), Fault::Length),
        fault("an empty element", length("5,"), Fault::Length),
        fault("an empty length", length(""), Fault::Length),
        fault("a negative length", length("-5"), Fault::Length),
        fault("a length with a sign", length("+5"), Fault::Length),
        fault("a length in hexadecimal", length("0x5"), Fault::Length),
        fault("two numbers", length("5 5"), Fault::Length),
        fault(
            "beyond 64 bits",
            length("18446744073709551616"),
            Fault::Length,
        ),
        early(
            "64 bits",
            length("18446744073709551615"),
            Missing::Body(u64::MAX - 5),
        )
        .hyper(
            "protocol_head_too_large",
            "it keeps the two largest lengths for itself",
        ),
        closed("none", "HTTP/1.1 200 OK\r\n\r\nhello", 200, "hello"),
        closed("none, and nothing", "HTTP/1.1 200 OK\r\n\r\n", 200, ""),
    ]
}

fn codings() -> Vec<Case> {
    let coding = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n0\r\n\r\n");
    vec![
        kept(
            "upper case",
            coding("TRANSFER-ENCODING: CHUNKED\r\n"),
            200,
            "",
        ),
        fault(
            "with a length",
            coding("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            Fault::Length,
        ),
        fault(
            "after a length",
            coding("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            Fault::Length,
        ),
        fault("gzip", coding("Transfer-Encoding: gzip\r\n"), Fault::Coding),
        fault(
            "gzip first",
            coding("Transfer-Encoding: gzip, chunked\r\n"),
            Fault::Coding,
        ),
        fault(
            "not last",
            coding("Transfer-Encoding: chunked, gzip\r\n"),
            Fault::Coding,
        ),
        fault(
            "identity",
            coding("Transfer-Encoding: identity\r\n"),
            Fault::Coding,
        ),
        fault(
            "chunked twice",
            coding("Transfer-Encoding: chunked, chunked\r\n"),
            Fault::Coding,
        ),
        fault(
            "twice in two lines",
            coding("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            Fault::Coding,
        ),
        fault("empty", coding("Transfer-Encoding:\r\n"), Fault::Coding),
        fault(
            "of HTTP/1.0",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            Fault::Coding,
        ),
    ]
}

fn bodyless() -> Vec<Case> {
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nContent-Length: 9\r\n\r\n";
    vec![
        kept("204", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        kept(
            "304 with a length",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            304,
            "",
        ),
        kept(
            "204 with chunks",
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
            204,
            "",
        ),
        kept(
            "HEAD",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            200,
            "",
        )
        .to_head(),
        kept("HEAD without a length", "HTTP/1.1 200 OK\r\n\r\n", 200, "").to_head(),
        kept(
            "HEAD with nonsense",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            200,
            "",
        )
        .to_head(),
        kept("100 first", format!("{interim}{}", five("")), 200, "hello"),
        kept(
            "103 twice",
            format!("{hints}{hints}{}", five("")),
            200,
            "hello",
        ),
        kept(
            "100 to HEAD",
            format!("{interim}HTTP/1.1 200 OK\r\n\r\n"),
            200,
            "",
        )
        .to_head(),
        early("100 alone", interim, Missing::Head),
        fault(
            "101",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            Fault::Upgrade,
        ),
        fault(
            "101 after 100",
            format!("{interim}HTTP/1.1 101 Switching Protocols\r\n\r\n"),
            Fault::Upgrade,
        ),
        fault(
            "nonsense after 100",
            format!("{interim}nonsense"),
            Fault::StatusLine,
        ),
    ]
}

fn connections() -> Vec<Case> {
    let old = |fields: &str| format!("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n{fields}\r\nhello");
    vec![
        closed("close", five("Connection: close\r\n"), 200, "hello"),
        closed(
            "close in a list",
            five("connection: x, CLOSE ,y\r\n"),
            200,
            "hello",
        ),
        closed(
            "close wins",
            five("Connection: close\r\nConnection: keep-alive\r\n"),
            200,
            "hello",
        ),
        closed(
            "close wins, second",
            five("Connection: keep-alive\r\nConnection: close\r\n"),
            200,
            "hello",
        ),
        kept(
            "something else",
            five("Connection: closed\r\n"),
            200,
            "hello",
        ),
        closed("HTTP/1.0", old(""), 200, "hello"),
        kept(
            "HTTP/1.0 keep-alive",
            old("Connection: Keep-Alive\r\n"),
            200,
            "hello",
        ),
        closed(
            "HTTP/1.0 both",
            old("Connection: keep-alive, close\r\n"),
            200,
            "hello",
        ),
        closed(
            "keep-alive without a length",
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhello",
            200,
            "hello",
        ),
        closed(
            "close without body",
            "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
            204,
            "",
        ),
    ]
}

fn chunks() -> Vec<Case> {
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
        fault("a longer one", extension(16 * 1024), Fault::Chunk),
        fault("no size", chunked("\r\nhello\r\n0\r\n\r\n"), Fault::Chunk),
        fault(
            "a space first",
            chunked(" 5\r\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "a size of letters",
            chunked("xyz\r\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "a negative size",
            chunked("-5\r\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault("0x", chunked("0x5\r\nhello\r\n0\r\n\r\n"), Fault::Chunk),
        fault(
            "two sizes",
            chunked("5 5\r\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "beyond 64 bits",
            chunked("10000000000000000\r\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        early(
            "64 bits",
            chunked("ffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
            Missing::Chunks,
        ),
        fault(
            "LF after a size",
            chunked("5\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "LF in an extension",
            chunked("5;a\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "CR alone after a size",
            chunked("5\rhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "more data than said",
            chunked("4\r\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "less data than said",
            chunked("6\r\nhello\r\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "LF after data",
            chunked("5\r\nhello\n0\r\n\r\n"),
            Fault::Chunk,
        ),
        fault(
            "CR and more after data",
            chunked("5\r\nhello\rx0\r\n\r\n"),
            Fault::Chunk,
        ),
    ]
}

fn trailers() -> Vec<Case> {
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
        fault("no colon", trailer("nonsense\r\n"), Fault::Trailer),
        fault("no name", trailer(": a\r\n"), Fault::Trailer),
        fault(
            "a space before the colon",
            trailer("a : b\r\n"),
            Fault::Trailer,
        ),
        fault("folded", trailer("a: b\r\n c\r\n"), Fault::Trailer),
        fault(
            "a control character",
            trailer("a: \x01\r\n"),
            Fault::Trailer,
        ),
        fault("LF for CRLF", trailer("a: b\nc: d\r\n"), Fault::Trailer),
        fault("LF at the end", chunked("0\r\n\n"), Fault::Trailer).hyper("early_close", held),
        fault("no line end", chunked("0\r\n\rx"), Fault::Trailer),
        fault("CR alone", trailer("a: b\rc\r\n"), Fault::Trailer),
        fault(
            "64 KiB of them",
            trailer(&format!("a: {}\r\n", "x".repeat(64 * 1024))),
            Fault::Trailer,
        ),
        kept("101 of them", trailer(&"a: b\r\n".repeat(101)), 200, "")
            .hyper("protocol_trailer", "it takes 100"),
    ]
}

fn cut_short() -> Vec<Case> {
    vec![
        early("nothing", "", Missing::Everything),
        early("an empty line", "\r\n", Missing::Head),
        early("half a status line", "HTTP/1.1 2", Missing::Head),
        early(
            "half a head",
            "HTTP/1.1 200 OK\r\nContent-Le",
            Missing::Head,
        ),
        early(
            "all but the last LF",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r",
            Missing::Head,
        ),
        early(
            "no body",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            Missing::Body(5),
        ),
        early(
            "half a body",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
            Missing::Body(2),
        ),
        early("no chunk", chunked(""), Missing::Chunks),
        early("half a size", chunked("5"), Missing::Chunks),
        early("half a chunk", chunked("5\r\nhel"), Missing::Chunks),
        early("no last chunk", chunked("5\r\nhello\r\n"), Missing::Chunks),
        early(
            "no end of the last chunk",
            chunked("5\r\nhello\r\n0\r\n"),
            Missing::Chunks,
        ),
        early("half a trailer", chunked("0\r\nX-Su"), Missing::Chunks),
        early(
            "all but the last LF of the chunks",
            chunked("0\r\n\r"),
            Missing::Chunks,
        ),
    ]
}
