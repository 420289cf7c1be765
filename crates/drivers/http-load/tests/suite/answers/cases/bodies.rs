//! Cases of body framing, correct and broken.

use load::net::http1::{Missing, ResponseError};

use super::{Case, chunked, closed, early, fault, five, kept};

pub(super) fn lengths() -> Vec<Case> {
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
        fault("another in the line", length("5, 6"), ResponseError::Length),
        fault(
            "another line",
            five("CONTENT-LENGTH: 6\r\n"),
            ResponseError::Length,
        ),
        fault("an empty element", length("5,"), ResponseError::Length),
        fault("an empty length", length(""), ResponseError::Length),
        fault("a negative length", length("-5"), ResponseError::Length),
        fault("a length with a sign", length("+5"), ResponseError::Length),
        fault(
            "a length in hexadecimal",
            length("0x5"),
            ResponseError::Length,
        ),
        fault("two numbers", length("5 5"), ResponseError::Length),
        fault(
            "beyond 64 bits",
            length("18446744073709551616"),
            ResponseError::Length,
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

pub(super) fn codings() -> Vec<Case> {
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
            ResponseError::Length,
        ),
        fault(
            "after a length",
            coding("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            ResponseError::Length,
        ),
        fault(
            "gzip",
            coding("Transfer-Encoding: gzip\r\n"),
            ResponseError::Coding,
        ),
        fault(
            "gzip first",
            coding("Transfer-Encoding: gzip, chunked\r\n"),
            ResponseError::Coding,
        ),
        fault(
            "not last",
            coding("Transfer-Encoding: chunked, gzip\r\n"),
            ResponseError::Coding,
        ),
        fault(
            "identity",
            coding("Transfer-Encoding: identity\r\n"),
            ResponseError::Coding,
        ),
        fault(
            "chunked twice",
            coding("Transfer-Encoding: chunked, chunked\r\n"),
            ResponseError::Coding,
        ),
        fault(
            "twice in two lines",
            coding("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            ResponseError::Coding,
        ),
        fault(
            "empty",
            coding("Transfer-Encoding:\r\n"),
            ResponseError::Coding,
        ),
        fault(
            "of HTTP/1.0",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            ResponseError::Coding,
        ),
    ]
}

pub(super) fn bodyless() -> Vec<Case> {
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
        .asked_by_head(),
        kept("HEAD without a length", "HTTP/1.1 200 OK\r\n\r\n", 200, "").asked_by_head(),
        kept(
            "HEAD with nonsense",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            200,
            "",
        )
        .asked_by_head(),
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
        .asked_by_head(),
        early("100 alone", interim, Missing::Head),
        fault(
            "101",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            ResponseError::Upgrade,
        ),
        fault(
            "101 after 100",
            format!("{interim}HTTP/1.1 101 Switching Protocols\r\n\r\n"),
            ResponseError::Upgrade,
        ),
        fault(
            "nonsense after 100",
            format!("{interim}nonsense"),
            ResponseError::StatusLine,
        ),
    ]
}

pub(super) fn cut_short() -> Vec<Case> {
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
