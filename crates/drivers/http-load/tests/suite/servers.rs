//! The servers of these tests.

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

pub(crate) fn url(server: &Scripted) -> String {
    format!("http://{}/x", server.address())
}
