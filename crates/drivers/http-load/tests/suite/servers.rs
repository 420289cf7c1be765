//! The servers of these tests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::scripted::{Scripted, Step};

/// The engines.
pub(crate) const ENGINES: [&str; 2] = ["wire", "hyper"];

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
pub(crate) const MISSING: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello";

pub(crate) fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

pub(crate) fn answers(text: &str) -> Vec<Step> {
    vec![Step::Expect, send(text), Step::Again]
}

/// Starts a server that responds correctly.
pub(crate) fn well() -> Scripted {
    Scripted::start(answers(OK))
}

/// Starts a server that responds correctly on the two connections of the check, and plays `then` on all others.
pub(crate) fn well_at_first(then: Vec<Step>) -> Scripted {
    Scripted::start_each(move |number| match number {
        0 | 1 => answers(OK),
        _ => then.clone(),
    })
}

/// Answers each request of a connection, which has no body, with what a function returns.
pub(crate) fn answer_each(
    mut stream: TcpStream,
    respond: impl Fn(&str) -> &'static str,
) -> Option<()> {
    let mut request = Vec::new();
    loop {
        let mut bytes = [0; 1024];
        let read = stream.read(&mut bytes).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&bytes[..read]);
        if request.ends_with(b"\r\n\r\n") {
            let response = respond(std::str::from_utf8(&request).ok()?);
            stream.write_all(response.as_bytes()).ok()?;
            request.clear();
        }
    }
}

pub(crate) fn url(server: &Scripted) -> String {
    format!("http://{}/x", server.address())
}
