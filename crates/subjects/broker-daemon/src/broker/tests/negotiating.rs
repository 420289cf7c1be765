//! Negotiation, and errors that close a connection.

use super::*;

#[test]
fn a_connection_without_a_header_is_closed() {
    let mut stand = Stand::new();
    let (half_open, _) = stand.broker.connect(None);
    let id = stand.client();
    stand.broker.now += 11_000;
    stand.broker.sweep();
    assert_eq!(stand.connection(half_open).phase(), Phase::Closed);
    assert_eq!(stand.connection(id).phase(), Phase::Running);
}

#[test]
fn closing_that_crosses_the_brokers_own_is_answered_and_both_are_over_once_each_was() {
    let mut stand = Stand::new();
    let id = stand.client();
    let close = || AMQPClass::Channel(ChannelMethod::Close(channel::Close::default()));
    let close_ok = || AMQPClass::Channel(ChannelMethod::CloseOk(channel::CloseOk {}));
    let open = || AMQPClass::Channel(ChannelMethod::Open(channel::Open {}));
    stand.publish_as(id, ("nowhere", ""), AMQPProperties::default(), b"x");
    // Sent before the client reads that its channel is closed.
    assert_eq!(stand.run(id, close()), ["channel.close 404", "20.41"]);
    stand.method(id, 1, close_ok());
    assert_eq!(stand.run(id, open()), ["channel.open-ok"]);
}

#[test]
fn connection_close_is_answered_each_time_until_the_client_has_closed_the_socket() {
    let mut stand = Stand::new();
    let id = stand.client();
    let close = || AMQPClass::Connection(ConnectionMethod::Close(connection::Close::default()));
    for _ in 0..2 {
        stand.method(id, 0, close());
        assert_eq!(stand.received(id), ["connection.close-ok"]);
    }
    // A client that keeps the socket open is not awaited for ever, however often it asks.
    stand.broker.now += 10_001;
    stand.method(id, 0, close());
    stand.broker.sweep();
    assert_eq!(stand.connection(id).phase(), Phase::Closed);
}

#[test]
fn a_type_that_is_not_known_is_501_and_a_weight_is_505() {
    let mut stand = Stand::new();
    let id = stand.client();
    // On a channel that is not open.
    stand.broker.receive(id, &[9, 0, 7, 0, 0, 0, 1, 0, 0xce]);
    assert_eq!(stand.received(id), ["connection.close 501"]);

    let id = stand.client();
    let frames = publish_frames(("", "q"), AMQPProperties::default(), b"x");
    stand.frame(id, &frames[0]);
    let mut header = encode(&frames[1]);
    // After the head of the frame and the class.
    header[10] = 1;
    stand.broker.receive(id, &header);
    assert_eq!(stand.received(id), ["connection.close 505"]);
    // From now on everything but the answer is ignored.
    stand.publish(id, "q", "x");
    assert_eq!(stand.received(id), [""; 0]);
}
