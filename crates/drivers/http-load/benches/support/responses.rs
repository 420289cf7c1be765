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

/// The settings of a server of HTTP/2, all of them usual.
#[allow(dead_code, reason = "each bench uses its part")]
pub(crate) const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Length of the head of a frame.
const FRAME: usize = 9;

/// Returns the same response over HTTP/2: a frame with the head, whose fields nginx adds to the dynamic table (RFC 7541
/// §6.2.1), and one with the body.
#[allow(dead_code, reason = "each bench uses its part")]
pub(crate) fn frames() -> Vec<u8> {
    let mut block = vec![0x88];
    for (index, value) in [
        (54, "nginx/1.22.1"),
        (33, "Sat, 21 Nov 2026 12:00:00 GMT"),
        (31, "text/plain"),
        (28, "1024"),
        (44, "Sat, 21 Nov 2026 11:00:00 GMT"),
        (34, "\"673f1a2b-400\""),
        (18, "bytes"),
    ] {
        block.extend([0x40 | index, value.len() as u8]);
        block.extend(value.bytes());
    }
    let head = |length: usize, kind, flags| {
        let length = (length as u32).to_be_bytes();
        [length[1], length[2], length[3], kind, flags, 0, 0, 0, 0]
    };
    let headers = head(block.len(), 1, 0x4);
    [&headers[..], &block, &head(1024, 0, 0x1), &[0; 1024]].concat()
}

/// Sets the number of the stream in both frames.
#[allow(dead_code, reason = "each bench uses its part")]
pub(crate) fn set_stream(frames: &mut [u8], stream: u32) {
    let data = frames.len() - 1024 - FRAME;
    for frame in [0, data] {
        frames[frame + 5..frame + FRAME].copy_from_slice(&stream.to_be_bytes());
    }
}
