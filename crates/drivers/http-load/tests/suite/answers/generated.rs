//! Random well-formed responses, with their meaning.

use load::net::http1::RequestInfo;
use proptest::prelude::*;

use crate::answers::read::Content;

/// A response and its meaning.
#[derive(Debug, Clone)]
pub(crate) struct Generated {
    pub(crate) asked: RequestInfo,
    pub(crate) bytes: Vec<u8>,
    pub(crate) until_close: bool,
    status: u16,
    body: Vec<u8>,
    keep_alive: bool,
}

impl Generated {
    pub(crate) fn expected(&self) -> Content {
        (self.status, self.body.clone(), self.keep_alive)
    }
}

#[derive(Debug, Clone)]
enum Framing {
    Length,
    LengthTwice,
    Chunked {
        size: usize,
        extension: &'static str,
        trailers: &'static str,
    },
    UntilClose,
}

fn framing() -> impl Strategy<Value = Framing> {
    let chunked = (
        1_usize..40,
        prop::sample::select(vec!["", ";a", " ;a=\"b;c\"", "\t"]),
        prop::sample::select(vec!["", "X-Sum: 1\r\n", "a:\r\nb: \x20c\td \r\n"]),
    )
        .prop_map(|(size, extension, trailers)| Framing::Chunked {
            size,
            extension,
            trailers,
        });
    prop_oneof![
        Just(Framing::Length),
        Just(Framing::LengthTwice),
        chunked,
        Just(Framing::UntilClose)
    ]
}

prop_compose! {
    pub(crate) fn answer()(
        head in any::<bool>(),
        is_1_1 in prop::bool::weighted(0.8),
        status in prop::sample::select(vec![200_u16, 201, 204, 206, 304, 404, 429, 500, 503, 599, 999]),
        reason in prop::sample::select(vec!["", " ", " OK", " Not at all"]),
        end in prop::sample::select(vec!["\r\n", "\r\n", "\n"]),
        interim in 0..3_usize,
        before in prop::sample::select(vec!["", "\r\n"]),
        noise in "(X-[a-z]{1,12}: ?[ -~]{0,20}\n){0,12}",
        folded in any::<bool>(),
        connection in prop::sample::select(vec!["", "close", "keep-alive", "Keep-Alive, x", "x ,CLOSE"]),
        lower in any::<bool>(),
        framing in framing(),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) -> Generated {
        let framing = match framing {
            Framing::Chunked { .. } if !is_1_1 => Framing::Length,
            framing => framing,
        };
        let bodyless = head || matches!(status, 204 | 304);
        let mut text = before.to_owned();
        for _ in 0..interim {
            text += "HTTP/1.1 103 Early Hints\r\nContent-Length: 7\r\n\r\n";
        }
        text += &format!("HTTP/1.{} {status}{reason}{end}", u8::from(is_1_1));
        text += &noise.replace('\n', end);
        if folded {
            text += &format!("X-Folded: a{end} b{end}");
        }
        let name = |name: &str| if lower { name.to_lowercase() } else { name.to_owned() };
        if !connection.is_empty() {
            text += &format!("{}: {connection}{end}", name("Connection"));
        }
        let length = body.len();
        text += &match framing {
            Framing::Length => format!("{}: {length}{end}", name("Content-Length")),
            Framing::LengthTwice => format!("{0}: {length}{end}{0}:{length} , {length}{end}", name("Content-Length")),
            Framing::Chunked { .. } => format!("{}: Chunked{end}", name("Transfer-Encoding")),
            Framing::UntilClose => String::new(),
        };
        text += end;
        let mut bytes = text.into_bytes();
        if !bodyless {
            append(&mut bytes, &framing, &body);
        }
        let until_close = !bodyless && matches!(framing, Framing::UntilClose);
        let asks_to_close = connection.to_lowercase().contains("close");
        let asks_to_keep = connection.to_lowercase().contains("keep-alive");
        Generated {
            asked: RequestInfo { head },
            bytes,
            until_close,
            status,
            body: if bodyless { Vec::new() } else { body },
            keep_alive: !until_close && !asks_to_close && (is_1_1 || asks_to_keep),
        }
    }
}

fn append(bytes: &mut Vec<u8>, framing: &Framing, body: &[u8]) {
    let Framing::Chunked {
        size,
        extension,
        trailers,
    } = framing
    else {
        bytes.extend_from_slice(body);
        return;
    };
    for chunk in body.chunks(*size) {
        bytes.extend(format!("{:X}{extension}\r\n", chunk.len()).into_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend(format!("00{extension}\r\n{trailers}\r\n").into_bytes());
}
