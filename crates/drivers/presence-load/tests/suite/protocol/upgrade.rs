//! The upgrade from long-polling to WebSocket.

use presence_load::protocol::ProtocolError;
use presence_load::protocol::transport::{Closed, Event, Kind, Side, Transport, TransportContext};
use presence_load::protocol::websocket::apply_mask;

use super::{
    OPEN, accept, context, frame, message, read, read_all, response, send, take_opened, take_output,
};

/// Takes the texts of the short frames that the client has written.
fn take_frames(cx: &mut TransportContext) -> Vec<String> {
    let output = std::mem::take(&mut cx.actions.output[Side::Probe as usize]);
    let mut rest = &output[..];
    let mut texts = Vec::new();
    while let [0x81, length, behind @ ..] = rest {
        let (key, behind) = behind.split_first_chunk().unwrap();
        let (payload, behind) = behind.split_at(usize::from(length & 0x7F));
        let mut payload = payload.to_vec();
        apply_mask(&mut payload, *key);
        texts.push(String::from_utf8(payload).unwrap());
        rest = behind;
    }
    assert!(rest.is_empty(), "{rest:x?}");
    texts
}

/// Returns a client that polls and has sent its probe.
fn probing() -> (Transport, TransportContext) {
    let (mut transport, mut cx) = (Transport::new(Kind::Upgrade), context());
    transport.connected(Side::Main, &mut cx);
    let opening = response(&format!("0{OPEN}"));
    let read = read_all(&mut transport, Side::Main, &[&opening], &mut cx);
    assert_eq!(read, Ok(vec![Event::Opened]));
    assert_eq!(take_opened(&mut cx), [Side::Probe]);
    cx.actions.clear();
    transport.connected(Side::Probe, &mut cx);
    let request = take_output(Side::Probe, &mut cx);
    let target = "GET /socket.io/?EIO=4&transport=websocket&sid=abc HTTP/1.1\r\n";
    assert!(request.starts_with(target), "{request}");
    let read = read_all(&mut transport, Side::Probe, &[&accept(&request)], &mut cx);
    assert_eq!(read, Ok(vec![]));
    assert_eq!(take_frames(&mut cx), ["2probe"]);
    (transport, cx)
}

#[test]
fn the_last_poll_and_payload_are_answered_before_the_upgrade_and_nothing_is_lost() {
    let (mut transport, mut cx) = probing();
    send(&mut transport, "0", &mut cx);
    transport.connected(Side::Post, &mut cx);
    assert!(take_output(Side::Post, &mut cx).ends_with("\r\n\r\n40"));
    assert_eq!(
        read(&mut transport, Side::Probe, &frame("3probe"), &mut cx),
        []
    );
    // The client waits for two responses now, and sends nothing.
    send(&mut transport, "2[\"a\"]", &mut cx);
    send(&mut transport, "2[\"b\"]", &mut cx);
    let last = response("42[\"x\"]\x1e6\x1e42[\"y\"]");
    let events = read(&mut transport, Side::Main, &last, &mut cx);
    assert_eq!(events, [message("2[\"x\"]"), message("2[\"y\"]")]);
    assert!(
        take_output(Side::Main, &mut cx).is_empty(),
        "it polls no more"
    );
    assert!(take_frames(&mut cx).is_empty());
    assert_eq!(
        read(&mut transport, Side::Post, &response("ok"), &mut cx),
        [Event::Upgraded]
    );
    assert_eq!(take_frames(&mut cx), ["5", "42[\"a\"]", "42[\"b\"]"]);
    assert_eq!(cx.actions.close, [true, true, false]);
    cx.actions.clear();

    assert_eq!(read(&mut transport, Side::Main, b"rest", &mut cx), []);
    assert_eq!(transport.ended(Side::Main, &mut cx), None);
    assert_eq!(transport.ended(Side::Post, &mut cx), None);
    send(&mut transport, "2[\"c\"]", &mut cx);
    assert_eq!(take_frames(&mut cx), ["42[\"c\"]"]);
    let frames = [frame("42[\"z\"]"), frame("2")].concat();
    let (first, second) = frames.split_at(4);
    let events = read_all(&mut transport, Side::Probe, &[first, second], &mut cx);
    assert_eq!(events, Ok(vec![message("2[\"z\"]"), Event::Ping]));
    assert_eq!(take_frames(&mut cx), ["3"]);
    let ended = transport.ended(Side::Probe, &mut cx);
    assert_eq!(ended, Some(Event::Closed(Closed::End)));
}

#[test]
fn a_poll_that_is_answered_first_does_not_delay_the_upgrade() {
    let (mut transport, mut cx) = probing();
    assert_eq!(
        read(&mut transport, Side::Probe, &frame("3probe"), &mut cx),
        []
    );
    let events = read(&mut transport, Side::Main, &response("6"), &mut cx);
    assert_eq!(events, [Event::Upgraded]);
    assert_eq!(take_frames(&mut cx), ["5"]);
}

#[test]
fn a_frame_behind_the_answer_to_the_probe_is_kept() {
    let (mut transport, mut cx) = probing();
    let frames = [frame("3probe"), frame("42[\"a\"]")].concat();
    let (first, second) = frames.split_at(10);
    read(&mut transport, Side::Probe, first, &mut cx);
    let events = read(&mut transport, Side::Main, &response("6"), &mut cx);
    assert_eq!(events, [Event::Upgraded]);
    let events = read(&mut transport, Side::Probe, second, &mut cx);
    assert_eq!(events, [message("2[\"a\"]")]);
}

#[test]
fn a_server_without_websocket_keeps_the_client_polling() {
    let (mut transport, mut cx) = (Transport::new(Kind::Upgrade), context());
    transport.connected(Side::Main, &mut cx);
    let opening = response(&format!("0{}", OPEN.replace("\"websocket\"", "")));
    read(&mut transport, Side::Main, &opening, &mut cx);
    assert_eq!(take_opened(&mut cx), []);
}

#[test]
fn a_probe_that_fails_ends_the_session() {
    for (answer, expected) in [
        (frame("3other"), Err(ProtocolError::Open)),
        (
            frame(&format!(
                "0{}",
                "{\"sid\":\"a\",\"pingInterval\":1,\"pingTimeout\":2}"
            )),
            Err(ProtocolError::Probe),
        ),
        (vec![0x88, 0], Ok(vec![Event::Closed(Closed::Frame(None))])),
    ] {
        let (mut transport, mut cx) = probing();
        let read = read_all(&mut transport, Side::Probe, &[&answer], &mut cx);
        assert_eq!(read, expected);
    }
    let (mut transport, mut cx) = probing();
    let ended = transport.ended(Side::Probe, &mut cx);
    assert_eq!(ended, Some(Event::Closed(Closed::End)));
}
