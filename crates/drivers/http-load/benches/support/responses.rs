//! Responses of a server with a body of 1 KiB.

/// Returns the head that nginx sends with a file of 1 KB, whose body is framed by this field.
pub(crate) fn head(framing: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain\r\n{framing}\r\nLast-Modified: Sat, 21 Nov 2026 11:00:00 GMT\r\nConnection: keep-alive\r\nETag: \"673f1a2b-400\"\r\nAccept-Ranges: bytes\r\n\r\n").into_bytes()
}

pub(crate) fn whole() -> Vec<u8> {
    let mut response = head("Content-Length: 1024");
    response.extend([0; 1024]);
    response
}
