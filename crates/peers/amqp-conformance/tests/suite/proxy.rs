//! A proxy between a client and a broker that changes the broker's answers: a wrong broker without writing one.

use std::io::{Read, Write as _};

use harness_testing::peer;

/// Changes a frame from the broker, or leaves it unchanged.
pub(crate) type Rule = fn(&mut Frame);

/// A frame from the broker.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    channel: [u8; 2],
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    fn is_method(&self, (class, method): (u16, u16)) -> bool {
        let ids = [class.to_be_bytes(), method.to_be_bytes()].concat();
        self.kind == 1 && self.payload.starts_with(&ids)
    }

    /// Replaces a 16-bit number at this offset of a method.
    pub(crate) fn replace_method(&mut self, ids: (u16, u16), at: usize, from: u16, to: u16) {
        if self.is_method(ids) && self.payload[at..].starts_with(&from.to_be_bytes()) {
            self.payload[at..at + 2].copy_from_slice(&to.to_be_bytes());
        }
    }

    /// Replaces a byte at this offset of a method.
    pub(crate) fn replace_byte(&mut self, ids: (u16, u16), at: usize, from: u8, to: u8) {
        if self.is_method(ids) && self.payload[at] == from {
            self.payload[at] = to;
        }
    }

    /// Replaces a text by one of the same length, wherever it occurs.
    pub(crate) fn replace_text(&mut self, from: &[u8], to: &[u8]) {
        let found = self
            .payload
            .windows(from.len())
            .position(|window| window == from);
        if let Some(at) = found {
            self.payload[at..at + to.len()].copy_from_slice(to);
        }
    }

    /// Reads the next frame; `None` once the broker hangs up.
    fn read(from: &mut impl Read) -> Option<Self> {
        let mut head = [0; 7];
        from.read_exact(&mut head).ok()?;
        let [kind, high, low, length @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        from.read_exact(&mut payload).ok()?;
        from.read_exact(&mut [0]).ok()?;
        Some(Self {
            kind,
            channel: [high, low],
            payload,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        [
            &[self.kind],
            &self.channel[..],
            &length,
            &self.payload,
            &[0xCE],
        ]
        .concat()
    }
}

/// Starts a proxy to a broker on this machine. Returns its URI.
pub(crate) fn start(broker: u16, rule: Rule) -> String {
    let address = peer::proxy(broker, move |broker, client| {
        while let Some(mut frame) = Frame::read(broker) {
            rule(&mut frame);
            if client.write_all(&frame.bytes()).is_err() {
                return;
            }
        }
    });
    format!("amqp://{address}")
}
