//! Arbitrary input: the broker survives it, and keeps nothing of the clients.

use proptest::prelude::*;

use super::*;

/// Generates frames with a plausible beginning and an arbitrary rest.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let methods = prop::sample::select(vec![
        [0, 10, 0, 50],
        [0, 20, 0, 10],
        [0, 20, 0, 40],
        [0, 40, 0, 10],
        [0, 40, 0, 30],
        [0, 50, 0, 10],
        [0, 50, 0, 20],
        [0, 50, 0, 40],
        [0, 60, 0, 10],
        [0, 60, 0, 20],
        [0, 60, 0, 40],
        [0, 60, 0, 70],
        [0, 60, 0, 80],
        [0, 60, 0, 120],
        [0, 85, 0, 10],
        [0, 90, 0, 10],
        [0, 90, 0, 20],
    ]);
    let arguments = prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..40);
    let kind = prop::sample::select(vec![1_u8, 1, 1, 2, 3, 8, 4]);
    (kind, 0_u16..3, methods, arguments).prop_map(|(kind, channel, method, arguments)| {
        let mut bytes = Vec::new();
        crate::frame::begin(&mut bytes, kind, channel, 4 + arguments.len());
        bytes.extend(method);
        bytes.extend(arguments);
        crate::frame::end(&mut bytes);
        bytes
    })
}

proptest! {
    #[test]
    fn plausible_frames_do_no_harm(frames in prop::collection::vec(plausible(), 1..60)) {
        let mut stand = Stand::new();
        let id = stand.client();
        for frame in frames {
            stand.broker.receive(id, &frame);
        }
        stand.broker.disconnect(id);
        prop_assert_eq!(stand.broker.connections.len(), 0);
        prop_assert_eq!(stand.broker.topology.consumer_count(), 0);
    }

    #[test]
    fn any_bytes_do_no_harm(header: bool, pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5)) {
        let mut stand = Stand::new();
        let id = if header { stand.client() } else { stand.broker.connect(None).0 };
        for piece in pieces {
            stand.read(id, &piece);
        }
        stand.broker.disconnect(id);
        prop_assert_eq!(stand.broker.memory.meter.get(), 0);
    }

    /// The division of a stream into reads does not change its meaning.
    #[test]
    fn reads_may_end_anywhere(cuts in prop::collection::vec(1_usize..200, 1..40), bodies in prop::collection::vec(0_usize..500, 1..8)) {
        let mut stand = Stand::new();
        let id = stand.client();
        stand.declare(id, "q", &[]);
        stand.consume(id, "q", "c", true);
        stand.received(id);
        let mut stream = Vec::new();
        for length in &bodies {
            let body = vec![b'x'; *length];
            for frame in publish_frames(("", "q"), AMQPProperties::default(), &body) {
                stream.extend(encode(&frame));
            }
        }
        let mut rest = &stream[..];
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let (piece, left) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            stand.read(id, piece);
            rest = left;
        }
        let expected: Vec<String> = bodies.iter().enumerate().map(|(index, length)| format!("c {} {}", index + 1, "x".repeat(*length))).collect();
        prop_assert_eq!(stand.received(id), expected);
    }
}
