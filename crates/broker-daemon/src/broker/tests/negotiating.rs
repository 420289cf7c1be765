//! Negotiation, and errors that end a connection.

use super::*;

#[test]
fn another_protocol_is_answered_with_ours_and_closed() {
    let mut stand = Stand::new();
    let (id, _) = stand.broker.connect(None);
    stand.broker.receive(id, b"GET / HTTP/1.1\r\n");
    assert_eq!(stand.bytes(id), b"AMQP\x00\x00\x09\x01");
    assert_eq!(stand.broker.connection(id).unwrap().phase, Phase::Closed);
}

#[test]
fn a_header_may_come_byte_by_byte() {
    let mut stand = Stand::new();
    let (id, _) = stand.broker.connect(None);
    for length in 1..=8 {
        stand.broker.receive(id, &b"AMQP\x00\x00\x09\x01"[..length]);
    }
    assert_eq!(stand.told(id), ["connection.start"]);
}

#[test]
fn refused_credentials_are_403_and_an_unknown_vhost_is_530() {
    let mut stand = Stand::new();
    let id = stand.stranger();
    stand.log_in(id, "wrong", "/");
    assert_eq!(stand.told(id), ["connection.start", "connection.close 403"]);
    let id = stand.stranger();
    stand.log_in(id, "guest", "nowhere");
    assert_eq!(stand.told(id).last().unwrap(), "connection.close 530");
    let counts = stand.broker.counts;
    assert_eq!((counts.logins_refused, counts.vhosts_refused), (1, 1));
}

#[test]
fn a_frame_that_is_too_large_is_501_before_it_has_come() {
    let mut stand = Stand::new();
    let id = stand.client();
    stand.broker.receive(id, &[1, 0, 1, 0, 1, 0, 0]);
    assert_eq!(stand.told(id), ["connection.close 501"]);
    let id = stand.client();
    stand.broker.receive(id, &[1, 0, 1, 0, 0, 0, 1, 0, 0]);
    assert_eq!(stand.told(id), ["connection.close 501"]);
}

#[test]
fn what_comes_where_it_does_not_belong_closes_the_connection() {
    let open = AMQPClass::Channel(ChannelMethod::Open(channel::Open {}));
    let get = AMQPClass::Basic(Basic::GetEmpty(basic::GetEmpty {}));
    let publish =
        |index: usize| publish_frames(("", "q"), AMQPProperties::default(), b"x").remove(index);
    for (frame, code) in [
        (AMQPFrame::Method(1, open.clone()), 504),
        (AMQPFrame::Method(11, open), 530),
        (AMQPFrame::Method(2, get.clone()), 504),
        (AMQPFrame::Method(1, get.clone()), 503),
        (AMQPFrame::Method(0, get), 504),
        (publish(1), 505),
        (publish(2), 505),
    ] {
        let mut stand = Stand::new();
        let id = stand.client();
        stand.frame(id, &frame);
        assert_eq!(
            stand.told(id),
            [format!("connection.close {code}")],
            "{frame:?}"
        );
        // Nothing but the answer counts from now on.
        stand.publish(id, "q", "x");
        assert_eq!(stand.told(id), [""; 0]);
    }
}

#[test]
fn a_tune_beyond_what_was_offered_is_refused() {
    for (frame_max, channel_max) in [(4095, 1), (200_000, 1), (8192, 3000), (0, 1), (8192, 0)] {
        let mut stand = Stand::new();
        let id = stand.stranger();
        let tune = connection::TuneOk {
            channel_max,
            frame_max,
            heartbeat: 0,
        };
        stand.broker.connection(id).unwrap().phase = Phase::Tune;
        stand.method(id, 0, AMQPClass::Connection(ConnectionMethod::TuneOk(tune)));
        assert_eq!(stand.told(id).last().unwrap(), "connection.close 530");
    }
}

#[test]
fn who_says_nothing_is_closed_and_who_is_silent_too_long_as_well() {
    let mut stand = Stand::new();
    let (half_open, _) = stand.broker.connect(None);
    let id = stand.client();
    stand.broker.connection(id).unwrap().heartbeat = 10;
    stand.broker.now += 11_000;
    stand.broker.sweep();
    assert_eq!(
        stand.broker.connection(half_open).unwrap().phase,
        Phase::Closed
    );
    assert_eq!(stand.bytes(id), [8, 0, 0, 0, 0, 0, 0, 206]);
    stand.frame(id, &AMQPFrame::Heartbeat);
    stand.broker.now += 20_000;
    stand.broker.sweep();
    assert_eq!(stand.broker.connection(id).unwrap().phase, Phase::Running);
    stand.broker.now += 2_000;
    stand.broker.sweep();
    assert_eq!(stand.broker.connection(id).unwrap().phase, Phase::Closed);
}
