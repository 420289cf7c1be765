//! Metrics pages: one that a test serves, and the page of a program.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Serves pages on a free port of 127.0.0.1 until the test program ends; returns the port. `answer` gets the port and
/// the text of each request, and returns the status and the page.
pub fn serve(mut answer: impl FnMut(u16, &str) -> (&'static str, String) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap_or(0);
            let (status, body) = answer(port, &String::from_utf8_lossy(&request[..length]));
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    port
}

/// Returns the answer of an address to `GET /metrics`, with its head; `None` if there is none.
#[must_use]
pub fn get(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}
