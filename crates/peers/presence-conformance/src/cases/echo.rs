//! Socket.IO 5 and Engine.IO 4: the answers of a server in echo mode. `/` answers `message` with `message-back`, and
//! `message-with-ack` with an acknowledgement; `/` and `/custom` send the credentials as `auth`.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    credentials(case);
    messages(case);
    binary(case);
    engine(case);
}

fn connected(server: &Server) -> anyhow::Result<WebSocketClient> {
    let mut socket = WebSocketClient::connect(server)?;
    let event = socket.event()?;
    expect_eq("the first event", event.event_name(), Some("auth"))?;
    Ok(socket)
}

fn credentials(case: Begin<'_>) {
    for (namespace, sent) in [
        ("", json!({"token": "123"})),
        ("/custom,", json!({"a": [1, {"b": null}]})),
    ] {
        let name = namespace.trim_end_matches(',');
        case(&format!(
            "Socket.IO 5, connect: the credentials for {name:?} reach the server"
        ))
        .on(Setup::Echo)
        .check(move |server| {
            let mut socket = WebSocketClient::open(server)?;
            socket.send(&format!("0{namespace}{sent}"))?;
            expect_eq("the answer", socket.packet()?.kind, Kind::Connect)?;
            expect_eq("the event", socket.event()?.data, json!(["auth", sent]))
        });
    }
    case("Socket.IO 5, connect: without credentials they are an empty object")
        .on(Setup::Echo)
        .check(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            expect_eq("the event", socket.event()?.data, json!(["auth", {}]))
        });
    case("Socket.IO 5, namespace: one connection has two, each with its own id")
        .on(Setup::Echo)
        .check(|server| {
            let mut socket = connected(server)?;
            socket.send("0/custom,")?;
            let answer = socket.packet()?;
            expect_eq("namespace", &*answer.namespace, "/custom")?;
            ensure!(
                text(&answer.data, "/sid")? != socket.id,
                "both have the same id"
            );
            expect_eq(
                "the event's namespace",
                &*socket.event()?.namespace,
                "/custom",
            )?;
            socket.send("1/custom,")?;
            socket.send("2[\"message\"]")?;
            expect_eq(
                "after a DISCONNECT of the other",
                socket.event()?.data,
                json!(["message-back"]),
            )
        });
}

/// Returns lists of arguments, each with a description.
fn arguments() -> [(&'static str, Value); 6] {
    [
        ("no argument", json!([])),
        ("one argument", json!([1])),
        (
            "three arguments of different types",
            json!([1, "2", {"3": [true, false, null]}]),
        ),
        (
            "twenty arguments",
            Value::from((0..20).collect::<Vec<i32>>()),
        ),
        ("characters of four bytes", json!(["😀\u{0}\u{1e}\u{2028}"])),
        (
            "numbers",
            json!([0, -1, 1.5, 1e300, 9_007_199_254_740_991_u64]),
        ),
    ]
}

fn messages(case: Begin<'_>) {
    for (what, sent) in arguments() {
        let arguments = sent.as_array().cloned().unwrap_or_default();
        let given = arguments.clone();
        case(&format!("Socket.IO 5, event: {what} come back"))
            .on(Setup::Echo)
            .check(move |server| {
                let mut socket = connected(server)?;
                let event = [vec![json!("message")], given.clone()].concat();
                socket.send(&format!("2{}", Value::from(event)))?;
                let answer = socket.event()?;
                expect_eq("the event", answer.event_name(), Some("message-back"))?;
                expect_eq("the arguments", answer.arguments()?, &*given)
            });
        case(&format!("Socket.IO 5, ack: {what} come back"))
            .on(Setup::Echo)
            .check(move |server| {
                let mut socket = connected(server)?;
                let answer = socket.call("message-with-ack", &arguments)?;
                expect_eq("the arguments", &*answer, &*arguments)
            });
    }
}

fn binary(case: Begin<'_>) {
    case("Socket.IO 5, binary: an event with two attachments comes back")
        .on(Setup::Echo)
        .check(|server| attachments_come_back(&mut connected(server)?));
    case("Socket.IO 5, binary: an event with two attachments comes back over polling")
        .on(Setup::Echo)
        .check(|server| {
            let mut socket = Socket::connect_over(Polling::open(server)?)?;
            socket.event()?;
            attachments_come_back(&mut socket)
        });
    case("Socket.IO 5, binary: an acknowledgement with attachments comes back")
        .on(Setup::Echo)
        .check(|server| {
            let mut socket = connected(server)?;
            let placeholder = |number: u32| json!({"_placeholder": true, "num": number});
            let event = json!(["message-with-ack", placeholder(0), [1, placeholder(1)]]);
            socket.send(&format!("52-789{event}"))?;
            socket.transport.send_binary(&[1, 2])?;
            socket.transport.send_binary(&[3; 1_000])?;
            let answer = socket.packet()?;
            expect_eq(
                "type and id",
                (answer.kind, answer.id),
                (Kind::BinaryAck, Some(789)),
            )?;
            expect_eq(
                "arguments",
                answer.arguments()?,
                &[placeholder(0), json!([1, placeholder(1)])][..],
            )?;
            expect_eq(
                "attachments",
                answer.attachments,
                [vec![1, 2], vec![3; 1_000]],
            )
        });
    case("Socket.IO 5, binary: a placeholder inside an object keeps its position")
        .on(Setup::Echo)
        .check(|server| {
            let mut socket = connected(server)?;
            let event = json!(["message", {"a": {"b": {"_placeholder": true, "num": 0}}}]);
            socket.send(&format!("51-{event}"))?;
            socket.transport.send_binary(&[])?;
            let answer = socket.event()?;
            expect_at(&answer.data, "/1/a/b/_placeholder", &true.into())?;
            expect_eq("attachments", answer.attachments, [Vec::<u8>::new()])
        });
}

/// Asserts that the echo of a binary event has its attachments.
fn attachments_come_back<T: Transport>(socket: &mut Socket<T>) -> anyhow::Result<()> {
    let placeholder = |number: u32| json!({"_placeholder": true, "num": number});
    let event = json!(["message", placeholder(0), "between", placeholder(1)]);
    socket.send(&format!("52-{event}"))?;
    socket.transport.send_binary(&[1, 2, 3])?;
    socket.transport.send_binary(&[0xff; 300])?;
    let answer = socket.event()?;
    expect_eq("the event", answer.event_name(), Some("message-back"))?;
    expect_eq(
        "arguments",
        answer.arguments()?,
        &[placeholder(0), json!("between"), placeholder(1)][..],
    )?;
    expect_eq(
        "attachments",
        answer.attachments,
        [vec![1, 2, 3], vec![0xff; 300]],
    )
}

/// The path at which a server in echo mode sends Engine.IO messages back.
const ENGINE_PATH: &str = "/engine.io/";

fn engine(case: Begin<'_>) {
    for message in ["hello", "", "ü€😀", "a\u{0}b"] {
        case(
            &format!("Engine.IO 4, message: {message:?} comes back")
                .escape_debug()
                .to_string()
                .replace('\\', ""),
        )
        .on(Setup::Echo)
        .check(move |server| {
            let server = server.with_path(ENGINE_PATH);
            let packet = format!("4{message}");
            let mut engine = Engine::open(&server)?;
            engine.transport().send(&packet)?;
            expect_eq("over a WebSocket", engine.transport().text()?, &*packet)?;
            let mut polling = Polling::open(&server)?;
            let transport: &mut dyn Transport = &mut polling;
            transport.send(&packet)?;
            expect_eq("over polling", transport.text()?, packet)
        });
    }
    case("Engine.IO 4, message: a binary message comes back, over polling as base64")
        .on(Setup::Echo)
        .check(|server| {
            let server = server.with_path(ENGINE_PATH);
            let bytes: Vec<u8> = (0..=255).collect();
            let mut engine = Engine::open(&server)?;
            engine.socket.send_binary(&bytes)?;
            let transport = engine.transport();
            expect_eq(
                "over a WebSocket",
                transport.packet()?,
                Received::Binary(bytes.clone()),
            )?;
            let mut polling = Polling::open(&server)?;
            let transport: &mut dyn Transport = &mut polling;
            transport.send_binary(&bytes)?;
            expect_eq("over polling", transport.packet()?, Received::Binary(bytes))
        });
    case("Engine.IO 4, payload: text and binary packets in one payload")
        .on(Setup::Echo)
        .check(|server| {
            let mut polling = Polling::open(&server.with_path(ENGINE_PATH))?;
            polling.send_all(&["4text", "bAQIDBA==", "4more"])?;
            let transport: &mut dyn Transport = &mut polling;
            for expected in [
                Received::Text("4text".to_owned()),
                Received::Binary(vec![1, 2, 3, 4]),
                Received::Text("4more".to_owned()),
            ] {
                expect_eq("the packet", transport.packet()?, expected)?;
            }
            Ok(())
        });
}
