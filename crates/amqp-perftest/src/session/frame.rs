//! A frame and its octets.

use amq_protocol::frame::{AMQPFrame, gen_frame, parse_frame};

/// Tables and arrays within each other that are read; RabbitMQ's own have two levels.
const DEEPEST: usize = 64;

/// The octets of a frame.
pub(crate) fn encode(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(Vec::new().into())
        .expect("memory takes any frame")
        .into_inner()
        .0
}

/// The first frame of these octets and its length, once it is there whole.
pub(crate) fn whole_frame(octets: &[u8]) -> Result<Option<(usize, AMQPFrame)>, String> {
    if octets.starts_with(b"AMQP") {
        return Err("the broker speaks another version of AMQP than 0-9-1".to_owned());
    }
    let Some(size) = octets.get(3..7) else {
        return Ok(None);
    };
    let whole = u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize + 8;
    if !matches!(octets[0], 1..=3 | 8) || whole > 64 << 20 {
        return Err("what was received is no frame of AMQP 0-9-1".to_owned());
    }
    if octets.len() < whole {
        return Ok(None);
    }
    if nests_deeply(&octets[..whole]) {
        return Err("a frame with tables within tables, deeper than can be read".to_owned());
    }
    parse_frame(&octets[..whole])
        .map(|(_, frame)| Some((whole, frame)))
        .map_err(|error| format!("a frame that can't be read: {error}"))
}

/// Whether tables and arrays may lie so deep within each other that the parser, which recurses, would run out of stack:
/// 5,000 levels ended the process. What only looks like one (`F` or `A` before a length that fits) counts too; in text
/// there is none, since four letters are a length of a gigabyte.
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

    /// `connection.start` with server properties so deep.
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
        assert!(refused.contains("tables within tables"), "{refused}");
        let letters = encode(&AMQPFrame::Body(1, vec![b'A'; 5_000]));
        assert!(matches!(whole_frame(&letters), Ok(Some(_))));
    }
}
