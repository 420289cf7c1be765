//! Responses byte by byte, their meaning, and whether hyper agrees. The server closes after the last byte.
//!
//! A row has a name, the bytes, and the result: whether the connection is kept, with status and body; or a fault. It adds
//! whether `HEAD` asked, or the result of hyper if it differs, with the reason. `{chunked}` stands for a head, and
//! `{3*x}` for `xxx`.

use harness_testing::peer::bytes;
use harness_testing::rows;
use load::net::http1::{Missing, RequestInfo, ResponseError};

use crate::answers::hyper_view::HyperKind::{self, Differs, Same};
use crate::answers::read::Content;

/// Valid and invalid heads.
const HEADS: &str = r"
    plain: HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello => kept 200 hello
    no reason phrase: HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n => kept 200
    no space before the missing phrase: HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n => kept 200
    an unknown status: HTTP/1.1 799 What\r\nContent-Length: 0\r\n\r\n => kept 799
    an empty line first: \r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n => kept 200
    several, of LF alone: \n\n\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n => kept 200
    obs-text in the phrase: HTTP/1.1 200 \xfcber\r\nContent-Length: 0\r\n\r\n => kept 200
    no HTTP: hello\r\n\r\n => StatusLine
    no HTTP and no line: hello => StatusLine
    nearly HTTP and no line: HTTQ => StatusLine
    a status below 100: HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n => StatusLine
    a status of two digits: HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n => StatusLine
    a status of four digits: HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n => StatusLine
    a status of letters: HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n => StatusLine
    two spaces: HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n => StatusLine
    HTTP/2.0: HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n => StatusLine
    HTTP/1.2: HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n => StatusLine
    HTTP/0.9: <html></html> => StatusLine
    lower case: http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n => StatusLine
    a NUL in the phrase: HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n => StatusLine
    LF alone: HTTP/1.1 200 OK\nContent-Length: 5\n\nhello => kept 200 hello
    a folded field: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\r\n b\r\n\tc\r\n\r\nhello => kept 200 hello
    an empty value: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX:\r\n\r\nhello => kept 200 hello
    obs-text in a value: HTTP/1.1 200 OK\r\nX: \xe4\r\nContent-Length: 0\r\n\r\n => kept 200
    a folded length: HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\nhello => kept 200 hello
    a space before the colon: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX : a\r\n\r\nhello => Header
    a space before the first field: HTTP/1.1 200 OK\r\n X: a\r\n\r\n => Header
    no colon: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nnonsense\r\n\r\nhello => Header
    no name: HTTP/1.1 200 OK\r\nContent-Length: 5\r\n: a\r\n\r\nhello => Header
    a control character in a value: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\x01b\r\n\r\nhello => Header
    CR alone: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\rb\r\n\r\nhello => Header
    a name that is not a token: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX(y): a\r\n\r\nhello => Header
    99 fields more: HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{99*X: a\r\n}\r\nhello => kept 200 hello
    100 fields more: HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{100*X: a\r\n}\r\nhello => HeadTooLarge
    64 KiB: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: {65493*x}\r\n\r\nhello => kept 200 hello
    64 KiB and a byte: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: {65494*x}\r\n\r\nhello => HeadTooLarge
    64 KiB without end: HTTP/1.1 200 OK\r\nX: {70000*x} => HeadTooLarge
    close: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello => closed 200 hello
    close in a list: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nconnection: x, CLOSE ,y\r\n\r\nhello => closed 200 hello
    close wins: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\nConnection: keep-alive\r\n\r\nhello => closed 200 hello
    close wins, second: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\nConnection: close\r\n\r\nhello => closed 200 hello
    something else: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: closed\r\n\r\nhello => kept 200 hello
    HTTP/1.0: HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello => closed 200 hello
    HTTP/1.0 keep-alive: HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive\r\n\r\nhello => kept 200 hello
    HTTP/1.0 both: HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive, close\r\n\r\nhello => closed 200 hello
    keep-alive without a length: HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhello => closed 200 hello
    close without body: HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n => closed 204
";

/// Body framing, correct and broken.
const BODIES: &str = r"
    zero: HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n => kept 200
    leading zeros: HTTP/1.1 200 OK\r\nContent-Length: 005\r\n\r\nhello => kept 200 hello
    the same twice in a line: HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello => kept 200 hello
    the same twice: HTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhello => kept 200 hello
    another in the line: HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello => Length
    another line: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCONTENT-LENGTH: 6\r\n\r\nhello => Length
    an empty element: HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n\r\nhello => Length
    an empty length: HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nhello => Length
    a negative length: HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello => Length
    a length with a sign: HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello => Length
    a length in hexadecimal: HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\nhello => Length
    two numbers: HTTP/1.1 200 OK\r\nContent-Length: 5 5\r\n\r\nhello => Length
    beyond 64 bits: HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nhello => Length
    64 bits: HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nhello => early Body 18446744073709551610 … protocol_head_too_large with hyper: it keeps the two largest lengths for itself
    none: HTTP/1.1 200 OK\r\n\r\nhello => closed 200 hello
    none, and nothing: HTTP/1.1 200 OK\r\n\r\n => closed 200
    upper case: HTTP/1.1 200 OK\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n => kept 200
    with a length: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n => Length
    after a length: HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n => Length
    gzip: HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n => Coding
    gzip first: HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n => Coding
    not last: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n => Coding
    identity: HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n => Coding
    chunked twice: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n => Coding
    twice in two lines: HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n => Coding
    empty: HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n => Coding
    of HTTP/1.0: HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n => Coding
    204: HTTP/1.1 204 No Content\r\n\r\n => kept 204
    304 with a length: HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n => kept 304
    204 with chunks: HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n => kept 204
    HEAD: HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n => kept 200 … HEAD
    HEAD without a length: HTTP/1.1 200 OK\r\n\r\n => kept 200 … HEAD
    HEAD with nonsense: HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n => kept 200 … HEAD
    100 first: HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello => kept 200 hello
    103 twice: HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nContent-Length: 9\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nContent-Length: 9\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello => kept 200 hello
    100 to HEAD: HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n => kept 200 … HEAD
    100 alone: HTTP/1.1 100 Continue\r\n\r\n => early Head
    101: HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n => Upgrade
    101 after 100: HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n => Upgrade
    nonsense after 100: HTTP/1.1 100 Continue\r\n\r\nnonsense => StatusLine
    nothing: => early Everything
    an empty line: \r\n => early Head
    half a status line: HTTP/1.1 2 => early Head
    half a head: HTTP/1.1 200 OK\r\nContent-Le => early Head
    all but the last LF: HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r => early Head
    no body: HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n => early Body 5
    half a body: HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel => early Body 2
    no chunk: {chunked} => early Chunks
    half a size: {chunked}5 => early Chunks
    half a chunk: {chunked}5\r\nhel => early Chunks
    no last chunk: {chunked}5\r\nhello\r\n => early Chunks
    no end of the last chunk: {chunked}5\r\nhello\r\n0\r\n => early Chunks
    half a trailer: {chunked}0\r\nX-Su => early Chunks
    all but the last LF of the chunks: {chunked}0\r\n\r => early Chunks
";

/// Chunks and trailers.
const CHUNKS: &str = r#"
    no chunk: {chunked}0\r\n\r\n => kept 200
    two chunks: {chunked}2\r\nhe\r\n003\r\nllo\r\n000\r\n\r\n => kept 200 hello
    upper and lower case: {chunked}A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n => kept 200 01234567890123456789
    extensions: {chunked}5;a=b;c="d"\r\nhello\r\n0;z\r\n\r\n => kept 200 hello
    space before an extension: {chunked}5 \t;a\r\nhello\r\n0 \r\n\r\n => kept 200 hello
    CRLF as data: {chunked}2\r\n\r\n\r\n0\r\n\r\n => kept 200 \r\n
    a long extension: {chunked}5;{16383*x}\r\nhello\r\n0\r\n\r\n => kept 200 hello
    a longer one: {chunked}5;{16384*x}\r\nhello\r\n0\r\n\r\n => Chunk
    no size: {chunked}\r\nhello\r\n0\r\n\r\n => Chunk
    a space for a size: {chunked} \r\n\r\n => Chunk
    a space first: {chunked} 5\r\nhello\r\n0\r\n\r\n => Chunk
    a size of letters: {chunked}xyz\r\nhello\r\n0\r\n\r\n => Chunk
    a negative size: {chunked}-5\r\nhello\r\n0\r\n\r\n => Chunk
    0x: {chunked}0x5\r\nhello\r\n0\r\n\r\n => Chunk
    two sizes: {chunked}5 5\r\nhello\r\n0\r\n\r\n => Chunk
    beyond 64 bits: {chunked}10000000000000000\r\nhello\r\n0\r\n\r\n => Chunk
    64 bits: {chunked}ffffffffffffffff\r\nhello\r\n0\r\n\r\n => early Chunks
    LF after a size: {chunked}5\nhello\r\n0\r\n\r\n => Chunk
    LF in an extension: {chunked}5;a\nhello\r\n0\r\n\r\n => Chunk
    CR alone after the last size: {chunked}0\rx\r\n\r\n => Chunk
    CR alone after a size: {chunked}5\rhello\r\n0\r\n\r\n => Chunk
    more data than said: {chunked}4\r\nhello\r\n0\r\n\r\n => Chunk
    less data than said: {chunked}6\r\nhello\r\n0\r\n\r\n => Chunk
    LF after data: {chunked}5\r\nhello\n0\r\n\r\n => Chunk
    CR and more after data: {chunked}5\r\nhello\rx0\r\n\r\n => Chunk
    one: {chunked}0\r\nX-Sum: 1\r\n\r\n => kept 200
    two, one empty: {chunked}0\r\na:\r\nb: \t c\r\n\r\n => kept 200
    obs-text: {chunked}0\r\nX: \xe4\r\n\r\n => kept 200
    a length is none: {chunked}0\r\nContent-Length: 5\r\n\r\n => kept 200
    no colon: {chunked}0\r\nnonsense\r\n\r\n => Trailer
    no name: {chunked}0\r\n: a\r\n\r\n => Trailer
    a space before the colon: {chunked}0\r\na : b\r\n\r\n => Trailer
    folded: {chunked}0\r\na: b\r\n c\r\n\r\n => Trailer
    a control character: {chunked}0\r\na: \x01\r\n\r\n => Trailer
    LF for CRLF: {chunked}0\r\na: b\nc: d\r\n\r\n => Trailer
    LF at the end: {chunked}0\r\n\n => Trailer … early_close with hyper: it looks for CRLF first, and for fields in what is before it
    DEL: {chunked}0\r\na: \x7f\r\n\r\n => Trailer
    many, after a long extension: {chunked}0;{16000*x}\r\na: {60000*x}\r\n\r\n => kept 200
    no line end: {chunked}0\r\n\rx => Trailer
    CR alone: {chunked}0\r\na: b\rc\r\n\r\n => Trailer
    64 KiB of them: {chunked}0\r\na: {65536*x}\r\n\r\n => Trailer
    101 of them: {chunked}0\r\n{101*a: b\r\n}\r\n => kept 200 … protocol_trailer with hyper: it takes 100
"#;

/// A response with its expected result.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) asked: RequestInfo,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: Result<Content, ResponseError>,
    pub(crate) hyper: HyperKind,
}

fn response(text: &str) -> Vec<u8> {
    let head = r"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut text = text.replace("{chunked}", head);
    while let Some((before, rest)) = text.split_once('{') {
        let (repeated, after) = rest.split_once('}').unwrap();
        let (count, piece) = repeated.split_once('*').unwrap();
        text = [before, &piece.repeat(count.parse().unwrap()), after].concat();
    }
    bytes(&text)
}

fn result(text: &str) -> Result<Content, ResponseError> {
    let mut words = text.split(' ');
    let mut next = || words.next().unwrap_or_default();
    Err(match next() {
        how @ ("kept" | "closed") => {
            return Ok((next().parse().unwrap(), bytes(next()), how == "kept"));
        }
        "early" => ResponseError::Early {
            missing: match next() {
                "Everything" => Missing::Everything,
                "Head" => Missing::Head,
                "Chunks" => Missing::Chunks,
                _ => Missing::Body(next().parse().unwrap()),
            },
        },
        "StatusLine" => ResponseError::StatusLine,
        "Header" => ResponseError::Header,
        "HeadTooLarge" => ResponseError::HeadTooLarge,
        "Length" => ResponseError::Length,
        "Coding" => ResponseError::Coding,
        "Chunk" => ResponseError::Chunk,
        "Trailer" => ResponseError::Trailer,
        "Upgrade" => ResponseError::Upgrade,
        other => panic!("{other}"),
    })
}

/// Returns all cases.
pub(crate) fn cases() -> Vec<Case> {
    let rows = [HEADS, BODIES, CHUNKS].into_iter().flat_map(rows);
    let cases = rows.map(|(text, parts)| {
        let (name, text) = text.split_once(':').unwrap();
        let hyper = parts.last().unwrap().split_once(" with hyper: ");
        Case {
            name,
            asked: RequestInfo {
                head: parts[1..] == ["HEAD"],
            },
            bytes: response(text.trim()),
            expected: result(parts[0]),
            hyper: hyper.map_or(Same, |(kind, why)| Differs(kind, why)),
        }
    });
    cases.collect()
}
