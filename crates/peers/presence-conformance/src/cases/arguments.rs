//! The presence protocol: invalid arguments, and names and states of every kind.

use super::*;
use harness::verify::conformance::Skip;

use crate::cases::sessions::ends_or_answers;

/// The largest length of a name in bytes.
const LONGEST: usize = 200;

pub(super) fn cases(case: Begin<'_>) {
    joins(case);
    heartbeats(case);
    names(case);
    states(case);
    large_states(case);
    binary_states(case);
}

/// Adds a case about a join that is refused. The error must name the field.
fn refused_join(case: Begin<'_>, what: &str, field: &'static str, request: Value) {
    case(&format!("presence, join: {what} is invalid_argument")).check_robust(move |server| {
        let mut member = Member::open(server)?;
        let answer = member.call("presence:join", &request)?;
        is_invalid(&answer, field)?;
        // The refusal has no effect.
        expect_refused(&member.heartbeat(&json!({}))?, "not_joined")?;
        expect_at(
            &member.ask_to_join(&server.name("room"), "a")?,
            "/ok",
            &true.into(),
        )
    });
}

fn is_invalid(answer: &Value, field: &str) -> anyhow::Result<()> {
    expect_refused(answer, "invalid_argument")?;
    let error = text(answer, "/error")?;
    ensure!(
        error.contains(field),
        "the error {error:?} does not name {field}"
    );
    Ok(())
}

fn joins(case: Begin<'_>) {
    let wrong = [
        ("a number", json!(1)),
        ("null", Value::Null),
        ("an empty text", json!("")),
        ("an object", json!({})),
        ("a text of 201 bytes", json!("x".repeat(LONGEST + 1))),
        (
            "a text of 67 characters in 201 bytes",
            json!("€".repeat(67)),
        ),
    ];
    for (what, value) in wrong {
        let room = json!({"roomId": value, "userId": "a"});
        refused_join(case, &format!("{what} as roomId"), "roomId", room);
        let user = json!({"roomId": "conformance-arguments", "userId": value});
        refused_join(case, &format!("{what} as userId"), "userId", user);
    }
    refused_join(case, "no roomId", "roomId", json!({"userId": "a"}));
    refused_join(
        case,
        "no userId",
        "userId",
        json!({"roomId": "conformance-arguments"}),
    );
    for (what, state) in [
        ("an array", json!([1])),
        ("a text", json!("a")),
        ("a number", json!(1)),
    ] {
        let request = json!({"roomId": "conformance-arguments", "userId": "a", "state": state});
        refused_join(case, &format!("{what} as state"), "state", request);
    }
    case("presence, resume: a number as resume is invalid_argument")
        .on(Setup::Resume)
        .check_robust(|server| {
            let mut member = Member::open(server)?;
            let request = json!({"roomId": server.name("room"), "userId": "a", "resume": 1});
            is_invalid(&member.call("presence:join", &request)?, "resume")
        });
    for (what, argument) in [
        ("null", Value::Null),
        ("an array", json!([])),
        ("a text", json!("a")),
    ] {
        refused_join(case, &format!("{what} as the argument"), "", argument);
    }
}

fn heartbeats(case: Begin<'_>) {
    for (what, field, request) in [
        (
            "an array as patchState",
            "patchState",
            json!({"patchState": [1]}),
        ),
        (
            "a text as patchState",
            "patchState",
            json!({"patchState": "a"}),
        ),
        ("a negative epoch", "epoch", json!({"epoch": -1})),
        ("a fraction as epoch", "epoch", json!({"epoch": 1.5})),
        ("a text as epoch", "epoch", json!({"epoch": "1"})),
        ("an array as the argument", "", json!([])),
        ("a text as the argument", "", json!("a")),
    ] {
        case(&format!("presence, heartbeat: {what} is invalid_argument")).check_robust(
            move |server| {
                let (mut member, _) = Member::join(server, &server.name("room"), "a")?;
                let answer = member.heartbeat(&request)?;
                is_invalid(&answer, field)?;
                member.patches(&json!({"still": "here"}))
            },
        );
    }
}

fn names(case: Begin<'_>) {
    for (what, name) in [
        ("1 byte", "x".to_owned()),
        ("200 bytes", "x".repeat(LONGEST)),
        ("50 characters in 200 bytes", "😀".repeat(50)),
        ("spaces", "  a b ".to_owned()),
        ("quotes, slashes and commas", "\"a\\'/b,c:{}*?".to_owned()),
        ("control characters", "a\u{0}\n\u{1e}\u{7f}b".to_owned()),
        (
            "combined characters",
            "e\u{301}\u{200d}\u{feff}ü".to_owned(),
        ),
        (
            "the names of properties of JavaScript",
            "__proto__".to_owned(),
        ),
    ] {
        case(&format!(
            "presence, join: {what} as names come back as they are"
        ))
        .check(move |server| {
            // A suffix keeps the room apart from those of other runs, as far as it fits.
            let suffix = server.name("-");
            let room = if name.len() + suffix.len() > LONGEST {
                name.clone()
            } else {
                format!("{name}{suffix}")
            };
            let (mut member, answer) = Member::join(server, &room, &name)?;
            let own = present(&answer, member.id())?;
            expect_at(own, "/userId", &(&*name).into())?;
            let own = member.id().to_owned();
            loop {
                let event = member.event()?;
                if event.connection()? == own {
                    expect_at(&event.0, "/roomId", &room.into())?;
                    return expect_at(&event.0, "/userId", &(&*name).into());
                }
            }
        });
    }
    case("presence, join: rooms whose names differ in case or in a space are different").check(
        |server| {
            let room = server.name("Room");
            let (_first, _) = Member::join(server, &room, "a")?;
            for other in [room.to_lowercase(), format!("{room} "), format!(" {room}")] {
                let (_, answer) = Member::join(server, &other, "b")?;
                expect_eq("members", array(&answer, "/snapshot")?.len(), 1)?;
            }
            Ok(())
        },
    );
}

/// The reason to skip the cases about the largest state.
const NO_LIMIT: &str = "the server sets no limit on states";

/// Skips the case if a large state was accepted: the limit is the server's own choice.
fn has_limit(answer: &Value) -> anyhow::Result<()> {
    if answer["ok"] == true {
        return Err(Skip(NO_LIMIT).into());
    }
    Ok(())
}

fn states(case: Begin<'_>) {
    let mut deep = json!("bottom");
    for depth in 0..60 {
        deep = if depth % 2 == 0 {
            json!([deep])
        } else {
            json!({"in": deep})
        };
    }
    for (what, state) in [
        ("60 levels", json!({"deep": deep})),
        (
            "numbers of all sorts",
            json!({"n": [0, -1, 1.5, -2.5e-7, 1e300, 9_007_199_254_740_991_u64]}),
        ),
        (
            "true, false and null",
            json!({"a": true, "b": false, "c": null}),
        ),
        (
            "an empty key, and keys with dots and quotes",
            json!({"": 1, "a.b": 2, "\"": 3, "$x": 4}),
        ),
        (
            "characters of four bytes",
            json!({"😀": "👩\u{200d}👩\u{200d}👧", "\u{2028}": "\u{1e}\u{0}"}),
        ),
        (
            "fields as an event has them",
            json!({"type": "leave", "seq": 0, "connId": "x", "ok": false}),
        ),
        (
            "an object that looks like an attachment",
            json!({"a": {"_placeholder": true, "num": 0}}),
        ),
        (
            "300 keys",
            (0..300)
                .map(|at| (format!("key-{at}"), json!(at)))
                .collect::<Value>(),
        ),
    ] {
        case(&format!("presence, state: {what} come back as they are")).check(move |server| {
            let room = server.name("room");
            let (mut member, answer) = Member::join_with(server, &room, "a", &state)?;
            expect_at(present(&answer, member.id())?, "/state", &state)?;
            expect_at(&member.event()?.0, "/state", &state)?;
            member.patches(&json!({"patch": state}))?;
            expect_at(&member.event()?.0, "/state/patch", &state)
        });
    }
}

fn large_states(case: Begin<'_>) {
    case("presence, state: 2,000 levels end the connection, are refused, or come back")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            let deep = format!("{}1{}", "{\"a\":".repeat(2_000), "}".repeat(2_000));
            let room = server.name("room");
            // This client's own reader takes 128 levels, so the state is replaced before anybody reads it.
            socket.send(&format!(
                "2[\"presence:heartbeat\",{{\"patchState\":{deep}}}]"
            ))?;
            socket.send(&format!(
                "2[\"presence:leave\",{{\"roomId\":\"{room}\",\"state\":{deep}}}]"
            ))?;
            ends_or_answers(&mut socket)
        });
    case("presence, state: 900,000 bytes are refused with state_too_large").check_robust(
        |server| {
            let mut member = Member::open(server)?;
            let state = json!({"big": "x".repeat(900_000)});
            let request = json!({"roomId": server.name("room"), "userId": "a", "state": state});
            let answer = member.call("presence:join", &request)?;
            has_limit(&answer)?;
            expect_refused(&answer, "state_too_large")?;
            expect_refused(&member.heartbeat(&json!({}))?, "not_joined")
        },
    );
    case("presence, state: patches that add up to too much are refused, and the state stays")
        .check_robust(|server| {
            let (mut member, _) = Member::join(server, &server.name("room"), "a")?;
            for at in 0..60 {
                let mut patch = serde_json::Map::new();
                patch.insert(format!("part-{at}"), json!("x".repeat(4_000)));
                let answer = member.heartbeat(&json!({"patchState": patch}))?;
                if answer["ok"] == false {
                    expect_refused(&answer, "state_too_large")?;
                    return member.patches(&json!({"part-0": "small"}));
                }
                member.event()?;
            }
            Err(Skip(NO_LIMIT).into())
        });
}

fn binary_states(case: Begin<'_>) {
    let placeholder = || json!({"a": {"_placeholder": true, "num": 0}});
    case("presence, state: binary values in a join are invalid_argument").check_robust(
        move |server| {
            let mut member = Member::open(server)?;
            let room = server.name("room");
            let request = json!({"roomId": room, "userId": "a", "state": placeholder()});
            is_binary_refused(&mut member, "presence:join", &request)?;
            expect_refused(&member.heartbeat(&json!({}))?, "not_joined")
        },
    );
    case("presence, state: binary values in a heartbeat are invalid_argument").check_robust(
        move |server| {
            let (mut member, _) = Member::join(server, &server.name("room"), "a")?;
            member.event()?;
            let request = json!({"patchState": placeholder()});
            is_binary_refused(&mut member, "presence:heartbeat", &request)?;
            member.patches(&json!({"b": 1}))?;
            expect_at(&member.event()?.0, "/state", &json!({"b": 1}))
        },
    );
}

/// Asserts that a request with one attachment is refused. Skips the case if the server accepts it.
fn is_binary_refused(member: &mut Member, event: &str, argument: &Value) -> anyhow::Result<()> {
    let id = 999;
    let socket = &mut member.socket;
    socket.send(&format!("51-{id}{}", json!([event, argument])))?;
    socket.transport.send_binary(&[1, 2, 3])?;
    // An accepted join is acknowledged with the bytes in its snapshot.
    let answer = loop {
        let packet = socket.packet()?;
        if packet.id == Some(id) {
            break packet;
        }
    };
    let answer = answer.arguments()?.first().context("an empty answer")?;
    if answer["ok"] == true {
        return Err(Skip("the server stores binary values").into());
    }
    is_invalid(answer, "")
}
