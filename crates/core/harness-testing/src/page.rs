//! A metrics page that a test serves.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
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
