//! Frames and their octets (AMQP 0-9-1, 4.2.3).

use amq_protocol::frame::{AMQPFrame, gen_frame, parse_frame};

/// Maximum nesting of tables and arrays; RabbitMQ's own have two levels.
const DEEPEST: usize = 64;

/// Returns the octets of a frame.
#[must_use]
pub fn encode(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(Vec::new().into())
        .expect("memory takes any frame")
        .into_inner()
        .0
}

/// Returns the first frame of these octets and its length, or `None` until the frame is complete.
///
/// # Errors
/// Octets that are not AMQP 0-9-1, with the reason.
pub fn whole_frame(octets: &[u8]) -> Result<Option<(usize, AMQPFrame)>, String> {
    if octets.starts_with(b"AMQP") {
        return Err("the broker uses another version of AMQP than 0-9-1".to_owned());
    }
    let Some(size) = octets.get(3..7) else {
        return Ok(None);
    };
    let whole = u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize + 8;
    if !matches!(octets[0], 1..=3 | 8) || whole > 64 << 20 {
        return Err("the received data is not a valid frame of AMQP 0-9-1".to_owned());
    }
    if octets.len() < whole {
        return Ok(None);
    }
    if nests_deeply(&octets[..whole]) {
        return Err("a frame has tables nested too deeply".to_owned());
    }
    parse_frame(&octets[..whole])
        .map(|(_, frame)| Some((whole, frame)))
        .map_err(|error| format!("an unreadable frame: {error}"))
}

/// Returns true if tables and arrays may be nested so deeply that the parser, which recurses, would run out of stack:
/// 5,000 levels ended the process. Octets that only look like a table (`F` or `A` before a length that fits) count too;
/// text never does, since four letters are a length of a gigabyte.
fn nests_deeply(frame: &[u8]) -> bool {
    let mut open: Vec<usize> = Vec::new();
    for (at, octets) in frame.windows(5).enumerate() {
        let [b'F' | b'A', length @ ..] = octets else {
            continue;
        };
        let length = length
            .iter()
            .fold(0, |sum, octet| sum << 8 | usize::from(*octet));
        let end = at + octets.len() + length;
        if end <= frame.len() {
            open.retain(|end| *end > at);
            open.push(end);
        }
        if open.len() > DEEPEST {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use amq_protocol::protocol::{AMQPClass, connection};
    use amq_protocol::types::{AMQPValue, FieldTable};

    use super::*;

    /// Encodes `connection.start` with server properties of this depth.
    fn start(levels: usize) -> Vec<u8> {
        let mut properties = FieldTable::default();
        for _ in 0..levels {
            let mut outer = FieldTable::default();
            outer.insert("in".into(), AMQPValue::FieldTable(properties));
            properties = outer;
        }
        let start = connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: properties,
            mechanisms: "PLAIN".into(),
            locales: "en_US".into(),
        };
        encode(&AMQPFrame::Method(
            0,
            AMQPClass::Connection(connection::AMQPMethod::Start(start)),
        ))
    }

    #[test]
    fn tables_within_tables_are_read_as_far_as_the_stack_holds() {
        assert!(matches!(whole_frame(&start(20)), Ok(Some(_))));
        let refused = whole_frame(&start(200)).unwrap_err();
        assert!(refused.contains("nested too deeply"), "{refused}");
        let letters = encode(&AMQPFrame::Body(1, vec![b'A'; 5_000]));
        assert!(matches!(whole_frame(&letters), Ok(Some(_))));
    }
}
