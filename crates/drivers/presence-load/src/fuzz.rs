//! Fuzz targets: the frames, responses, packets and events of presence servers.

use serde_json::Value;

use crate::protocol::json::Scanner;
use crate::protocol::packet::{SocketPacket, skip_arguments, split_event};
use crate::protocol::presence::Incoming;
use crate::protocol::transport::{Access, Endpoint, Kind, Side, Transport, TransportContext};
use crate::protocol::websocket::Reader;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    ("json", json),
    ("packet", packet),
    ("transport", transport),
    ("websocket", websocket),
];

/// The longest message, in bytes.
const LIMIT: usize = 1000;

/// Frames have one meaning, however they are divided into reads.
pub fn websocket(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let read = |size: usize| {
        let (mut reader, mut unread, mut messages) = (Reader::default(), Vec::new(), Vec::new());
        for piece in stream.chunks(size) {
            unread.extend_from_slice(piece);
            let mut taken = 0;
            loop {
                let (length, message) = match reader.next(&unread[taken..], LIMIT) {
                    Ok(read) => read,
                    Err(error) => return (messages, Some(error)),
                };
                taken += length;
                match message {
                    Some(message) => messages.push(format!("{message:?}")),
                    None => break,
                }
            }
            unread.drain(..taken);
        }
        (messages, None)
    };
    let whole = read(stream.len().max(1));
    assert_eq!(read(usize::from(size) + 1), whole);
}

/// The scanner agrees with serde_json.
pub fn json(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let scanned = |read: &dyn Fn(&mut Scanner<'_>) -> Option<Value>| {
        let mut scanner = Scanner::new(text);
        let value = read(&mut scanner)?;
        scanner.end().is_ok().then_some(value)
    };
    let expected: Option<Value> = serde_json::from_str(text).ok();
    let expect = |fits: fn(&Value) -> bool| expected.clone().filter(fits);
    assert_eq!(
        scanned(&|it| Some(it.string().ok()?.into())),
        expect(Value::is_string)
    );
    assert_eq!(
        scanned(&|it| Some(it.integer().ok()??.into())),
        expect(Value::is_u64)
    );
    assert_eq!(
        scanned(&|it| Some(it.boolean().ok()?.into())),
        expect(Value::is_boolean)
    );
    let is_value = scanned(&|it| it.value().ok().map(|_| Value::Null)).is_some();
    assert!(is_value || expected.is_none(), "{text}");
    if is_value && expected.is_none() {
        // Only depth, and half a surrogate pair, are not checked in what is skipped.
        let error = serde_json::from_str::<Value>(text)
            .expect_err("there is no value")
            .to_string();
        assert!(
            error.contains("recursion")
                || error.contains("surrogate")
                || error.contains("end of hex escape")
                || error.contains("out of range"),
            "{error}"
        );
    }
}

/// An event that is accepted is JSON.
pub fn packet(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let _ = Incoming::parse_in(text, "/admin");
    let incoming = Incoming::parse(text);
    let Ok(packet) = SocketPacket::parse(text) else {
        return assert!(incoming.is_err());
    };
    if let Ok((name, arguments)) = split_event(packet.data)
        && skip_arguments(arguments).is_ok()
        && let Ok(value) = serde_json::from_str::<Value>(packet.data)
    {
        assert_eq!(value.get(0).and_then(Value::as_str), name.as_deref());
    }
}

/// A client survives whatever comes on whichever of its connections, and performs what it is asked for.
pub fn transport(input: &[u8]) {
    let Some((&first, mut steps)) = input.split_first() else {
        return;
    };
    let kind = [Kind::WebSocket, Kind::Polling, Kind::Upgrade][usize::from(first) % 3];
    let endpoint = Endpoint {
        host: "h".to_owned(),
        path: "/socket.io/".to_owned(),
        query: String::new(),
        max_message: LIMIT,
        access: Access::default(),
    };
    let mut context = TransportContext::new(endpoint, 1);
    let mut transport = Transport::new(kind);
    let mut is_open = false;
    let mut kept: [Vec<u8>; 3] = Default::default();
    transport.connected(Side::Main, &mut context);
    // A step: the side and what happens to it, and the length of what it receives.
    while let [step, length, rest @ ..] = steps {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        steps = rest;
        let side = Side::from_token_side(step % 4);
        match step >> 4 {
            0 => transport.connected(side, &mut context),
            1 => drop(transport.ended(side, &mut context)),
            2 if is_open => transport.send(&mut context, |out| out.extend_from_slice(b"2[\"a\"]")),
            3 => transport.close(&mut context),
            _ => {
                let mut unread = std::mem::take(&mut kept[side as usize]);
                unread.extend_from_slice(piece);
                let mut taken = 0;
                loop {
                    let before = taken;
                    match transport.next(side, &unread, &mut taken, &mut context) {
                        Ok(Some(event)) => is_open |= format!("{event:?}") == "Opened",
                        Ok(None) => break,
                        Err(_) => return,
                    }
                    assert!(taken >= before && taken <= unread.len());
                }
                kept[side as usize] = unread.split_off(taken);
            }
        }
        context.actions.clear();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        harness_testing::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
