//! A proxy between a client and a server that replaces bytes of the server, so that its answers are wrong. Frames from
//! a server are not masked, so a text can be replaced by another one of the same length.

use std::io::{Read as _, Write as _};

use harness_testing::peer;

/// Bytes of the server, and bytes of the same length to send instead.
pub(crate) type Replacement = (&'static [u8], &'static [u8]);

/// Starts a proxy to the server at this port. Returns the URL of the proxy, which runs until the test ends.
pub(crate) fn start(server: u16, replacement: Replacement) -> String {
    let address = peer::proxy(server, move |server, client| {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = server.read(&mut buffer) {
            replace(&mut buffer[..count], replacement);
            if client.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    });
    format!("http://{address}")
}

fn replace(bytes: &mut [u8], (from, to): Replacement) {
    assert_eq!(from.len(), to.len());
    let mut start = 0;
    while let Some(offset) = bytes[start..]
        .windows(from.len())
        .position(|window| window == from)
    {
        bytes[start + offset..][..to.len()].copy_from_slice(to);
        start += offset + to.len();
    }
}
