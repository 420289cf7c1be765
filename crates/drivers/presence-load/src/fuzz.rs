//! Fuzz targets: the frames, responses, packets and events of servers, and their messages against a conversation.

use std::sync::LazyLock;

use serde_json::{Value, json};
use traffic::Values;

use crate::conversation::{Conversation, Pointer, ServerMessage, find, read, text as text_of};
use crate::protocol::json::Scanner;
use crate::protocol::packet::{SocketPacket, skip_arguments, split_event};
use crate::protocol::presence::Incoming;
use crate::protocol::transport::{Access, Endpoint, Kind, Side, Transport, TransportContext};
use crate::protocol::websocket::Reader;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    ("conversation", conversation),
    ("json", json),
    ("packet", packet),
    ("pointer", pointer),
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

/// A description that points into acknowledgements, events and pushes.
static DESCRIPTION: LazyLock<Conversation> = LazyLock::new(|| {
    let expect = json!({ "pointer": "/0/ok", "is": { "n": "{id}", "deep": [true, "{{user}}"] } });
    let expect_event = json!({ "event": "b", "pointer": "/0" });
    let settings = json!({ "conversation": {
        "fan_out": { "event": "a", "sender": "/0/user", "number": "/0/n", "to": "room" },
        "steps": [
            { "emit": "a", "data": ["{id}"], "ack": true, "expect": expect, "capture": ["json:/0/t as t"] },
            { "emit": "b", "expect": expect_event, "capture": ["json:/0/1 as u", "regex:x(.)y as v"] },
        ],
    }});
    let settings = serde_json::from_value(settings).expect("the settings are valid");
    let prepared = Conversation::new(&settings, 1).expect("the conversation is valid");
    prepared.expect("there is one")
});

/// A message of a server is held against a description without harm, and the origin of a push is the one that serde_json finds.
pub fn conversation(input: &[u8]) {
    let Ok(message) = str::from_utf8(input) else {
        return;
    };
    let _ = read(message, "/admin");
    let answer = match read(message, "") {
        Ok(ServerMessage::Event(_, event)) => event,
        Ok(ServerMessage::Ack(_, arguments)) => arguments,
        _ => return,
    };
    let mut values = vec![None; DESCRIPTION.values];
    for step in &DESCRIPTION.steps {
        let _ = step.fits(answer, Values::from_number(1));
        let _ = step.capture(answer, &mut values);
    }
    let rule = DESCRIPTION.fan_out.as_ref().expect("it has a rule");
    let _ = rule.origin(answer);
    let Ok(parsed) = serde_json::from_str::<Value>(answer) else {
        return;
    };
    let argument = |name: &str| {
        let value = parsed.get(1)?.get(name)?;
        Some(
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned),
        )
    };
    let number = argument("n").and_then(|number| number.parse().ok());
    // Written again, each name is there once.
    let again = parsed.to_string();
    let origin = rule.origin(&again).expect("it is JSON");
    let origin = origin.map(|(sender, number)| (sender.into_owned(), number));
    assert_eq!(origin, argument("user").zip(number));
}

/// Two pointers find what serde_json finds: the input is a line for each, and JSON behind them.
pub fn pointer(input: &[u8]) {
    let parts = str::from_utf8(input).ok().and_then(|input| {
        let (first, rest) = input.split_once('\n')?;
        let (second, json) = rest.split_once('\n')?;
        Some((first, second, json))
    });
    let Some((first, second, json)) = parts else {
        return;
    };
    let [Ok(a), Ok(b)] = [first, second].map(|text| Pointer::parse("pointer", text)) else {
        return;
    };
    for found in find(json, [&a, &b]).into_iter().flatten().flatten() {
        let _ = text_of(found);
    }
    let Ok(parsed) = serde_json::from_str::<Value>(json) else {
        return;
    };
    // Written again, each name is there once.
    let again = parsed.to_string();
    let found = find(&again, [&a, &b]).expect("it is JSON");
    for (pointer, found) in [first, second].into_iter().zip(found) {
        let found = found.map(|found| serde_json::from_str(found).expect("it is JSON"));
        assert_eq!(
            found.as_ref(),
            parsed.pointer(pointer),
            "{pointer} in {again}"
        );
    }
    if let Value::Array(arguments) = &parsed {
        let event = Value::from_iter([&[Value::from("name")], &arguments[..]].concat()).to_string();
        let [behind] = find(&event, [&a.behind_name()]).expect("it is JSON");
        let behind = behind.map(|behind| serde_json::from_str(behind).expect("it is JSON"));
        assert_eq!(behind.as_ref(), parsed.pointer(first), "{first} in {event}");
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
