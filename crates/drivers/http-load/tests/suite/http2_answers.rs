//! One table of answers over HTTP/2, for both engines. After the bytes of an answer the server closes.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};

use harness_testing::{peer, rows};
use http_load::{Engine, Settings};
use load::recorder::OK;

use crate::frames::{begin, frames, next_request};
use crate::scenarios::{ENGINES, adds_up, errors, failed, put, users};

/// A row has a name, the frames of the answer, and the outcome of the request, for `ok` with the length of the body. It adds
/// whether `HEAD` asked, or the outcome with hyper if it differs, with the reason.
const ANSWERS: &str = r#"
    plain: HEADERS 4 1 88 + DATA 1 1 "hello" => ok 5
    no body: HEADERS 5 1 88 => ok 0
    an empty piece at the end: HEADERS 4 1 88 + DATA 0 1 "hello" + DATA 1 1 => ok 5
    padding: HEADERS 4 1 88 + DATA 9 1 02 "hello" 00 00 => ok 5
    padding alone: HEADERS 4 1 88 + DATA 8 1 02 00 00 + DATA 1 1 "hello" => ok 5
    a length: HEADERS 4 1 88 5c 01 "5" + DATA 1 1 "hello" => ok 5
    the same length twice: HEADERS 4 1 88 5c 01 "5" 5c 01 "5" + DATA 1 1 "hello" => ok 5
    the length of a body that HEAD has not: HEADERS 5 1 88 5c 01 "5" => ok 0 … HEAD
    a head in pieces: HEADERS 1 1 + CONTINUATION 0 1 08 + CONTINUATION 4 1 03 "200" => ok 0
    interim responses: HEADERS 4 1 08 03 "103" + HEADERS 4 1 08 03 "100" + HEADERS 4 1 88 + DATA 1 1 "hello" => ok 5
    trailers: HEADERS 4 1 88 + DATA 0 1 "hello" + HEADERS 5 1 00 01 "a" 01 "b" => ok 5
    a ping, and an unknown frame: PING 0 0 07*8 + HEADERS 4 1 88 + be ff 1 "grease" + DATA 1 1 "hello" => ok 5
    other frames between: PRIORITY 0 1 00*5 + WINDOW_UPDATE 0 0 00 00 00 01 + HEADERS 4 1 88 + SETTINGS 0 0 + DATA 1 1 "hello" => ok 5
    new settings: SETTINGS 0 0 00 01 00*5 03 00 00 00 01 00 04 00 00 00 01 00 05 00 01 00 00 + HEADERS 4 1 88 + DATA 1 1 "hello" => ok 5
    a GOAWAY behind it: HEADERS 4 1 88 + DATA 1 1 "hello" + GOAWAY 0 0 00 00 00 01 00*4 => ok 5
    a GOAWAY before it: GOAWAY 0 0 00 00 00 01 00*4 + HEADERS 4 1 88 + DATA 1 1 "hello" => ok 5
    a status of errors: HEADERS 5 1 8d => status
    nothing: => early_close
    a part of a frame: raw 00 00 01 01 04 => early_close … reset with hyper: it reports what is left as an error of the system
    a head without a body: HEADERS 4 1 88 + DATA 0 1 "hel" => early_close
    a reset: RST_STREAM 0 1 00 00 00 02 => reset
    a reset within the body: HEADERS 4 1 88 + DATA 0 1 "hel" + RST_STREAM 0 1 00 00 00 08 => reset
    a GOAWAY that excludes it: GOAWAY 0 0 00 00 00 00 00*4 => early_close
    HTTP/1.1: raw "HTTP/1.1" 20 "200" 20 "OK" 0d 0a "Content-Length:" 20 "0" 0d 0a 0d 0a => protocol_http2
    a length that is too long: HEADERS 4 1 88 5c 01 "9" + DATA 1 1 "hello" => protocol_http2
    a length that is too short: HEADERS 4 1 88 5c 01 "3" + DATA 1 1 "hello" => protocol_http2
    a length of letters: HEADERS 4 1 88 5c 01 "x" + DATA 1 1 "hello" => protocol_http2
    two lengths: HEADERS 4 1 88 5c 01 "5" 5c 01 "6" + DATA 1 1 "hello" => protocol_http2
    no status: HEADERS 5 1 5c 01 "0" => protocol_http2
    a field in upper case: HEADERS 5 1 88 00 01 "A" 01 "b" => protocol_http2
    a field of connections: HEADERS 5 1 88 00 0a "connection" 05 "close" => protocol_http2
    101: HEADERS 4 1 08 03 "101" + HEADERS 4 1 88 + DATA 1 1 "hello" => protocol_http2 … ok with hyper: it takes it for an interim response
    a body of 204: HEADERS 4 1 89 + DATA 1 1 "hello" => protocol_http2 … ok with hyper: it hands the body on
    a body for HEAD: HEADERS 4 1 88 + DATA 1 1 "hello" => protocol_http2 … HEAD
    data first: DATA 1 1 "hello" => protocol_http2
    a push: PUSH_PROMISE 4 1 00 00 00 02 82 84 86 => protocol_http2
    a frame above 16 KiB: HEADERS 4 1 00*16385 => protocol_http2
    a stream that was not opened: HEADERS 4 3 88 => protocol_http2
    a stream of the server: HEADERS 4 2 88 => protocol_http2
    fields that cannot be decoded: HEADERS 5 1 ff ff ff ff ff ff => protocol_http2
    a frame within a head: HEADERS 0 1 88 + PING 0 0 00*8 => protocol_http2
    more padding than data: HEADERS 4 1 88 + DATA 8 1 09 "hello" => protocol_http2
    a short ping: PING 0 0 00*7 => protocol_http2
    a window that does not grow: WINDOW_UPDATE 0 0 00*4 => protocol_http2
    a head above 64 KiB: HEADERS 0 1 88 00 01 "a" 7f f1 ff 04 78*16000 + CONTINUATION 0 1 78*16000 + CONTINUATION 0 1 78*16000 + CONTINUATION 0 1 78*16000 + CONTINUATION 0 1 78*16000 + CONTINUATION 0 1 78*16000 => protocol_head_too_large … protocol_http2 with hyper: it counts the frames of a head instead
"#;

fn answer(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    begin(stream)?;
    next_request(stream)?;
    stream.write_all(bytes)?;
    stream.shutdown(Shutdown::Write)?;
    // Unread data would turn the end into a reset.
    io::copy(stream, &mut io::sink()).map(drop)
}

#[test]
fn the_table_of_answers_over_http2_is_counted_as_it_says() {
    let mut wrong = Vec::new();
    for (text, parts) in rows(ANSWERS) {
        let (name, text) = text.split_once(':').unwrap();
        let differs = parts.last().unwrap().split_once(" with hyper: ");
        let is_head = parts[1..] == ["HEAD"];
        let method = if is_head { "HEAD" } else { "GET" };
        for engine in ENGINES {
            let bytes = frames(text.trim());
            let address = peer::serve(move |mut stream| answer(&mut stream, &bytes));
            let settings = Settings {
                engine,
                method: method.to_owned(),
                http2: true,
                ..Settings::default()
            };
            let tally = put(settings, users(1, 1), &format!("http://{address}/"));
            let differs = differs.filter(|_| engine == Engine::Hyper);
            let outcome = differs.map_or(parts[0], |(outcome, _why)| outcome);
            let (ok, body) = (tally.counted(OK), tally.counted("body_bytes"));
            let right = match outcome.strip_prefix("ok") {
                Some("") => ok == 1,
                Some(length) => ok == 1 && length.trim() == body.to_string(),
                None => errors(&tally) == failed(outcome, 1),
            };
            if !right || !adds_up(&tally) {
                let seen = (ok, body, errors(&tally));
                wrong.push(format!("{name}, {engine:?}: {outcome}, but {seen:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
