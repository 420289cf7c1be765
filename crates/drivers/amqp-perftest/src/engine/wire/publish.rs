//! A message to publish, as it goes over the wire: built once, then copied and stamped for each message.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
use amq_protocol::protocol::AMQPClass;
use amq_protocol::protocol::basic::{AMQPMethod, AMQPProperties, Publish};

use amqp_client::frame::encode;
use amqp_client::stamp::{self, BodySum, Stamp};

/// Octets around the payload of a frame: type, channel and size before it, the end octet after it (AMQP 0-9-1, 2.3.5).
pub(crate) const FRAME_OVERHEAD: usize = 8;

/// All frames of one message (`basic.publish`, content header, body) with a body that begins with a stamp.
#[derive(Debug, Clone)]
pub struct Template {
    bytes: Vec<u8>,
    /// Offset of the stamp.
    stamp: usize,
    /// Checksum of the body after the stamp.
    rest: BodySum,
}

impl Template {
    /// Builds the frames of a message on a channel, none larger than `frame_max` octets. A stamp replaces the beginning of
    /// the body.
    ///
    /// # Panics
    /// Panics with a body shorter than [`stamp::BYTES`], a frame that cannot hold a stamp, or names above 255 bytes.
    #[must_use]
    pub fn new(
        publish: Publish,
        properties: &AMQPProperties,
        body: &[u8],
        channel: u16,
        frame_max: u32,
    ) -> Self {
        let room = frame_max as usize - FRAME_OVERHEAD;
        assert!(room >= stamp::BYTES, "a frame holds a stamp");
        let publish = AMQPClass::Basic(AMQPMethod::Publish(publish));
        let header = AMQPContentHeader {
            class_id: 60,
            body_size: body.len() as u64,
            properties: properties.clone(),
        };
        let mut bytes = encode(&AMQPFrame::Method(channel, publish));
        bytes.extend(encode(&AMQPFrame::Header(channel, header)));
        // After type, channel and size.
        let stamp = bytes.len() + FRAME_OVERHEAD - 1;
        for piece in body.chunks(room) {
            bytes.extend(encode(&AMQPFrame::Body(channel, piece.to_vec())));
        }
        Self {
            bytes,
            stamp,
            rest: BodySum::new(body),
        }
    }

    /// Appends the frames with this stamp.
    pub fn append(&self, stamp: &Stamp, output: &mut Vec<u8>) {
        let begin = output.len();
        output.extend_from_slice(&self.bytes);
        let at = begin + self.stamp;
        stamp.put(&mut output[at..at + stamp::BYTES], &self.rest);
    }

    /// Returns the octets of a message on the wire.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.bytes.len()
    }
}
