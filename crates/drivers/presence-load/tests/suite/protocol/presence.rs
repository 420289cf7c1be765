//! Presence messages against serde_json: the same fields, whatever their order and formatting.

use presence_load::protocol::ProtocolError;
use presence_load::protocol::json::Scanner;
use presence_load::protocol::presence::{
    Ack, EventType, Incoming, JoinRequest, Member, PresenceEvent, Stamp, write_heartbeat,
    write_join, write_leave,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{prop_assert_eq, proptest};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// Writes a value with its keys in another order and with white space: `seed` decides.
fn format(value: &Value, seed: &mut u64) -> String {
    let mut next = |below: u64| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) % below
    };
    let space = ["", " ", "\n\t", "\r\n  "][next(4) as usize];
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            let turn = next(fields.len().max(1) as u64) as usize;
            fields.rotate_left(turn);
            if next(2) == 0 {
                fields.reverse();
            }
            let fields = fields.into_iter();
            let fields: Vec<_> = fields
                .map(|(key, value)| {
                    format!(
                        "{space}{}{space}:{}",
                        key_text(key, seed),
                        format(value, seed)
                    )
                })
                .collect();
            format!("{space}{{{space}{}}}{space}", fields.join(","))
        }
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(|value| format(value, seed)).collect();
            format!("[{space}{}]{space}", values.join(","))
        }
        value => format!("{space}{value}{space}"),
    }
}

/// Writes a key, sometimes with an escape that is not needed.
fn key_text(key: &str, seed: &mut u64) -> String {
    let is_escaped = *seed & 0x70_0000 == 0 && key.is_ascii() && !key.is_empty();
    let text = Value::from(key).to_string();
    if is_escaped && !text.contains('\\') {
        format!("\"\\u{:04X}{}", key.as_bytes()[0], &text[2..])
    } else {
        text
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "room-[0-9]{3}",
        "\\PC{0,12}",
        "[\"\\\\\n\u{1}a-c]{0,20}",
        "[é\u{1F600}a]{0,9}"
    ]
}

fn extra() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        name().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name(), inner), 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn state() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        extra()
    ];
    let stamp = (number.clone(), number, extra());
    prop_oneof![
        Just(Value::Null),
        stamp.prop_map(|(n, t, other)| json!({"n": n, "t": t, "other": other})),
        any::<(u64, u64)>().prop_map(|(n, t)| json!({"t": t, "n": n})),
        (name(), extra()).prop_map(|(key, value)| json!({key: value})),
    ]
}

/// Returns the stamp of a state as serde_json reads it.
fn stamp(state: &Value) -> Option<Stamp> {
    Some(Stamp {
        n: state["n"].as_u64()?,
        t: state["t"].as_u64()?,
    })
}

/// Returns the number of letters that are added to a stamp, if nothing else is in a state.
fn padding(state: &Value) -> Option<u32> {
    let fields = state.as_object()?;
    let is_padding = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| text.bytes().all(|byte| byte == b'x'))
    };
    let mut letters = 0;
    for (key, value) in fields {
        match key.as_str() {
            "n" | "t" => {}
            "p" if is_padding(value) => letters = value.as_str()?.len() as u32,
            _ => return None,
        }
    }
    Some(letters)
}

/// Adds fields that are there, and one that nobody knows.
fn with<const N: usize>(
    mut object: Value,
    fields: [(&str, Option<Value>); N],
    unknown: &Value,
) -> Value {
    let map = object.as_object_mut().unwrap();
    let fields = fields.into_iter();
    map.extend(fields.filter_map(|(key, value)| Some((key.to_owned(), value?))));
    map.insert("unknown".to_owned(), unknown.clone());
    object
}

proptest! {
    #[test]
    fn an_event_has_the_fields_that_serde_json_finds(
        (room, user, conn) in (name(), name(), name()),
        kind in 0..3_usize,
        (state, unknown) in (state(), extra()),
        (seq, epoch, ts) in (option::of(any::<u64>()), option::of(any::<u64>()), option::of(any::<u64>())),
        reason in option::of(name()),
        mut seed in any::<u64>(),
    ) {
        let names = [("join", EventType::Join), ("leave", EventType::Leave), ("update", EventType::Update)];
        let event = json!({"type": names[kind].0, "roomId": room, "userId": user, "connId": conn, "state": state});
        let event = with(event, [
            ("seq", seq.map(Value::from)),
            ("epoch", epoch.map(Value::from)),
            ("ts", ts.map(Value::from)),
            ("reason", reason.map(Value::from)),
        ], &unknown);
        let expected = PresenceEvent {
            kind: names[kind].1,
            room_id: room.into(),
            user_id: user.into(),
            conn_id: conn.into(),
            stamp: stamp(&state),
            padding: padding(&state),
            seq,
            epoch,
            ts,
            degraded: false,
        };
        let text = format(&event, &mut seed);
        prop_assert_eq!(PresenceEvent::parse(&text), Ok(expected.clone()), "{}", text);
        let packet = format!("2[\"presence:event\",{text},1]");
        prop_assert_eq!(Incoming::parse(&packet), Ok(Incoming::Presence(expected)));
    }

    #[test]
    fn the_answer_to_a_join_has_the_members_that_serde_json_finds(
        members in vec((name(), name(), state(), option::of(any::<u64>())), 0..5),
        conn in name(),
        (epoch, seq, id) in (any::<u64>(), option::of(any::<u64>()), any::<u64>()),
        unknown in extra(),
        mut seed in any::<u64>(),
    ) {
        let snapshot = members.iter().map(|(conn, user, state, epoch)| {
            json!({"connId": conn, "userId": user, "state": state, "lastSeenMs": 5, "epoch": epoch, "x": unknown})
        });
        let answer = json!({"ok": true, "snapshot": snapshot.collect::<Value>(), "self": {"connId": conn, "epoch": epoch, "x": unknown}});
        let answer = with(answer, [
            ("seq", seq.map(Value::from)),
            ("degraded", seq.map(|_| true.into())),
        ], &unknown);
        let text = format!("3{id}[{}]", format(&answer, &mut seed));
        let Ok(Incoming::Ack(read_id, ack)) = Incoming::parse(&text) else { panic!("{text}") };
        let expected = members.iter().map(|(conn, user, state, epoch)| Member {
            conn_id: conn.into(),
            user_id: user.into(),
            stamp: stamp(state),
            padding: padding(state),
            last_seen_ms: Some(5),
            epoch: *epoch,
        });
        prop_assert_eq!(ack.members(), Ok(expected.collect()));
        let expected = Ack {
            ok: true,
            seq,
            self_conn_id: Some(conn.into()),
            self_epoch: Some(epoch),
            degraded: seq.is_some(),
            snapshot: ack.snapshot,
            ..Ack::default()
        };
        prop_assert_eq!((read_id, ack), (id, expected));
    }

    #[test]
    fn the_answer_to_a_heartbeat_has_its_fields(
        (ok, changed) in (any::<bool>(), option::of(any::<bool>())),
        epoch in option::of(any::<u64>()),
        (code, error) in (option::of(name()), option::of(name())),
        unknown in extra(),
        mut seed in any::<u64>(),
    ) {
        let answer = with(json!({"ok": ok}), [
            ("changed", changed.map(Value::from)),
            ("epoch", epoch.map(Value::from)),
            ("code", code.clone().map(Value::from)),
            ("error", error.clone().map(Value::from)),
        ], &unknown);
        let text = format!("[{}]", format(&answer, &mut seed));
        let (code, error) = (code.map(Into::into), error.map(Into::into));
        prop_assert_eq!(Ack::parse(&text), Ok(Ack { ok, changed, epoch, code, error, ..Ack::default() }));
    }

    #[test]
    fn the_scanner_takes_what_serde_json_takes(
        (value, mut seed) in (extra(), any::<u64>()),
        changes in vec((any::<u16>(), "[\\[\\]{},:\"\\\\0-9eE+.\\-tfnu \u{1}]?"), 0..3),
    ) {
        let mut text = format(&value, &mut seed);
        for (at, by) in changes {
            let starts: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
            if let Some(start) = starts.get(usize::from(at) % starts.len().max(1)) {
                let end = start + text[*start..].chars().next().map_or(0, char::len_utf8);
                text.replace_range(start..&end, &by);
            }
        }
        let mut scanner = Scanner::new(&text);
        let read = scanner.value().and_then(|_| scanner.end());
        prop_assert_eq!(read.is_ok(), serde_json::from_str::<IgnoredAny>(&text).is_ok(), "{}", text);
    }

    #[test]
    fn serde_json_reads_what_the_client_writes(
        (room, user) in (name(), name()),
        stamp in option::of(any::<(u64, u64)>()),
        (epoch, padding, id) in (option::of(any::<u64>()), 0..50_usize, any::<u64>()),
    ) {
        let stamp = stamp.map(|(n, t)| Stamp { n, t });
        let state = stamp.map(|Stamp { n, t }| match padding {
            0 => json!({"n": n, "t": t}),
            padding => json!({"n": n, "t": t, "p": "x".repeat(padding)}),
        });
        let mut out = Vec::new();
        let join = JoinRequest { room_id: &room, user_id: &user, stamp, padding };
        write_join(&mut out, id, &join);
        let mut expected = json!({"roomId": room, "userId": user});
        let fields = expected.as_object_mut().unwrap();
        fields.extend(state.clone().map(|state| ("state".to_owned(), state)));
        prop_assert_eq!(request(&out, id), json!(["presence:join", expected]));

        out.clear();
        write_heartbeat(&mut out, id, stamp, epoch, padding);
        let mut fields = serde_json::Map::new();
        fields.extend(state.map(|state| ("patchState".to_owned(), state)));
        fields.extend(epoch.map(|epoch| ("epoch".to_owned(), epoch.into())));
        let argument = if fields.is_empty() { Value::Null } else { fields.into() };
        prop_assert_eq!(request(&out, id), json!(["presence:heartbeat", argument]));

        out.clear();
        write_leave(&mut out, id);
        prop_assert_eq!(request(&out, id), json!(["presence:leave", null]));
    }
}

/// Returns the data of an event with this id.
fn request(out: &[u8], id: u64) -> Value {
    let text = std::str::from_utf8(out).unwrap();
    let data = text.strip_prefix(&format!("2{id}")).unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn messages_are_sorted_and_those_of_others_are_ignored() {
    let parse = Incoming::parse;
    assert_eq!(
        parse("0{\"sid\":\"a\",\"pid\":1}"),
        Ok(Incoming::Connected("a".into()))
    );
    assert_eq!(
        parse("4{\"message\":\"x\"}"),
        Ok(Incoming::Refused("{\"message\":\"x\"}"))
    );
    assert_eq!(parse("1"), Ok(Incoming::Disconnected));
    let parse_in = |text| Incoming::parse_in(text, "/n");
    assert_eq!(parse_in("1/n,"), Ok(Incoming::Disconnected));
    assert_eq!(parse_in("1"), Ok(Incoming::Other));
    for other in [
        "2[\"news\",[1,{}]]",
        "2[7,{}]",
        "2[0]",
        "2/n,[\"presence:event\"]",
        "51-[\"a\",{\"_placeholder\":true}]",
    ] {
        assert_eq!(parse(other), Ok(Incoming::Other), "{other}");
    }
    for wrong in [
        "0{}",
        "0",
        "2[\"presence:event\"]",
        "2[\"presence:event\",{}]",
        "31[]",
        "31[{}]",
        "31[{\"ok\":1}]",
        "31[{\"ok\":true}",
        "31[{\"ok\":true}]]",
        "31[{\"ok\":true,\"epoch\":1.5}]",
        "31[{\"ok\":true,\"epoch\":01}]",
        "2[\"news\",]",
        "2[7,]",
    ] {
        assert_eq!(parse(wrong), Err(ProtocolError::Json), "{wrong}");
    }
    assert!(
        matches!(parse("31[{\"ok\":true,\"epoch\":null},1]"), Ok(Incoming::Ack(1, ack)) if ack.epoch.is_none())
    );
}

#[test]
fn a_value_that_is_nested_deeply_is_skipped_without_a_stack_overflow() {
    let text = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
    assert_eq!(Scanner::new(&text).value(), Ok(&*text));
}

#[test]
fn a_broken_snapshot_is_an_error() {
    let ack = Ack {
        snapshot: Some(r#"[{"connId":"a","userId":"b"},{"connId":1}]"#),
        ..Ack::default()
    };
    assert_eq!(ack.members(), Err(ProtocolError::Json));
    assert_eq!(Ack::default().members(), Ok(Vec::new()));
}

#[test]
fn a_string_has_its_escapes_resolved_and_half_a_surrogate_is_refused() {
    let text = r#""\ud83d\ude00 \u00e9\n\"\/""#;
    assert_eq!(
        Scanner::new(text).string(),
        Ok("\u{1F600} \u{e9}\n\"/".into())
    );
    for wrong in [
        r#""\ud83d""#,
        r#""\ud83d\n""#,
        r#""\ud83d\ud83d""#,
        r#""\ude00""#,
        r#""\x""#,
        r#""\u12""#,
    ] {
        assert_eq!(
            Scanner::new(wrong).string(),
            Err(ProtocolError::Json),
            "{wrong}"
        );
    }
}
