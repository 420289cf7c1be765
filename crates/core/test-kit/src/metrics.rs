//! The metrics page of a program.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};

/// Returns the answer of an address to `GET /metrics`, with its head; `None` if there is none.
pub fn page(address: impl ToSocketAddrs) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}

/// Returns the value of a metric, with its labels, at an address.
///
/// # Panics
/// There is no page, or the metric is not on it.
#[track_caller]
pub fn read(address: impl ToSocketAddrs, name: &str) -> u64 {
    let page = page(address);
    value(&page.expect("the address has a metrics page"), name)
}

/// Returns the value of a metric, with its labels, on a page.
///
/// # Panics
/// The metric is not on the page, or its value is not a whole number.
#[must_use]
#[track_caller]
pub fn value(page: &str, name: &str) -> u64 {
    let mut lines = page.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("{name} is not in\n{page}"));
    value
        .parse()
        .unwrap_or_else(|error| panic!("{name} {value}: {error}"))
}
