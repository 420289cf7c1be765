//! Cases of valid and invalid heads.

use load::net::http1::ResponseError;

use super::{Case, closed, fault, five, kept};

pub(super) fn status_lines() -> Vec<Case> {
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
        fault("no HTTP", "hello\r\n\r\n", ResponseError::StatusLine),
        fault("no HTTP and no line", "hello", ResponseError::StatusLine),
        fault("nearly HTTP and no line", "HTTQ", ResponseError::StatusLine),
        fault(
            "a status below 100",
            line("HTTP/1.1 099 Low"),
            ResponseError::StatusLine,
        ),
        fault(
            "a status of two digits",
            line("HTTP/1.1 20 OK"),
            ResponseError::StatusLine,
        ),
        fault(
            "a status of four digits",
            line("HTTP/1.1 2000 OK"),
            ResponseError::StatusLine,
        ),
        fault(
            "a status of letters",
            line("HTTP/1.1 abc OK"),
            ResponseError::StatusLine,
        ),
        fault(
            "two spaces",
            line("HTTP/1.1  200 OK"),
            ResponseError::StatusLine,
        ),
        fault(
            "HTTP/2.0",
            line("HTTP/2.0 200 OK"),
            ResponseError::StatusLine,
        ),
        fault(
            "HTTP/1.2",
            line("HTTP/1.2 200 OK"),
            ResponseError::StatusLine,
        ),
        fault("HTTP/0.9", "<html></html>", ResponseError::StatusLine),
        fault(
            "lower case",
            line("http/1.1 200 OK"),
            ResponseError::StatusLine,
        ),
        fault(
            "a NUL in the phrase",
            line("HTTP/1.1 200 O\0K"),
            ResponseError::StatusLine,
        ),
    ]
}

pub(super) fn heads() -> Vec<Case> {
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
        fault(
            "a space before the colon",
            five("X : a\r\n"),
            ResponseError::Header,
        ),
        fault(
            "a space before the first field",
            "HTTP/1.1 200 OK\r\n X: a\r\n\r\n",
            ResponseError::Header,
        ),
        fault("no colon", five("nonsense\r\n"), ResponseError::Header),
        fault("no name", five(": a\r\n"), ResponseError::Header),
        fault(
            "a control character in a value",
            five("X: a\x01b\r\n"),
            ResponseError::Header,
        ),
        fault("CR alone", five("X: a\rb\r\n"), ResponseError::Header),
        fault(
            "a name that is no token",
            five("X(y): a\r\n"),
            ResponseError::Header,
        ),
    ]
}

pub(super) fn sizes() -> Vec<Case> {
    let fields = |count: usize| "X: a\r\n".repeat(count);
    let long = |head: usize| {
        let others = five("X: \r\n").len() - "hello".len();
        five(&format!("X: {}\r\n", "x".repeat(head - others)))
    };
    vec![
        kept("99 fields more", five(&fields(99)), 200, "hello"),
        fault(
            "100 fields more",
            five(&fields(100)),
            ResponseError::HeadTooLarge,
        ),
        kept("64 KiB", long(64 * 1024), 200, "hello"),
        fault(
            "64 KiB and a byte",
            long(64 * 1024 + 1),
            ResponseError::HeadTooLarge,
        ),
        fault(
            "64 KiB without end",
            format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(70_000)),
            ResponseError::HeadTooLarge,
        ),
    ]
}

pub(super) fn connections() -> Vec<Case> {
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
