//! Conversations on plain WebSocket.

use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;

use harness::launcher::Launcher;
use harness_testing::daemons::prepared;
use harness_testing::peer;
use harness_testing::program::Program;
use null_peer::{Delays, Peer, Serving, Stall};
use tungstenite::{Message, accept};

use super::{accounted, call, plan, plan_of};
use crate::support::start_server;

/// Starts a server that answers each message with itself, as long as it is kept. Returns it and its address.
fn echo() -> (Serving, SocketAddr) {
    let peer = Peer::echo(([127, 0, 0, 1], 0).into()).unwrap();
    let address = peer.address().unwrap();
    (
        peer.start(Delays::new(&[], Stall::default())).unwrap(),
        address,
    )
}

#[test]
fn messages_are_answered_in_order_or_by_a_field_as_text_or_binary() {
    let (_echo, address) = echo();
    let url = format!("ws://{address}/chat?a=1");
    let in_order = r#"steps = [
      { text = "hello {id}", expect = {} },
      { text = "hello {id}", binary = true, expect = {} },
      { data = { id = "{id}", user = "{{user}}" }, expect = { pointer = "/user", is = "{{user}}" } },
    ]"#;
    let by_field = "answer_id = \"/id\"\nsteps = [{ data = { id = \"{id}\" }, expect = {} }]";
    for steps in [in_order, by_field] {
        let run = call(&url, &plan(&["protocol = \"websocket\"", steps]), &[]).run();
        assert_eq!(run.result.operations("ok"), 60);
        run.result
            .counts(&[("messages", 60), ("joins", 6), ("ignored", 0)]);
    }
}

#[test]
fn messages_are_sent_in_the_frames_that_the_plan_names() {
    let kinds = peer::serve(|stream| {
        stream.set_nodelay(true).ok()?;
        let mut socket = accept(stream).ok()?;
        while let Ok(message @ (Message::Text(_) | Message::Binary(_))) = socket.read() {
            let kind = if message.is_text() { "text" } else { "binary" };
            socket
                .send(format!("{{\"kind\":\"{kind}\"}}").into())
                .ok()?;
        }
        Some(())
    });
    let steps = r#"steps = [
      { text = "a", expect = { pointer = "/kind", is = "text" } },
      { text = "a", binary = true, expect = { pointer = "/kind", is = "binary" } },
    ]"#;
    let plan = plan(&["protocol = \"websocket\"", steps]);
    let run = call(&format!("ws://{kinds}"), &plan, &[]).run();
    assert_eq!(run.result.operations("ok"), 60);
}

#[test]
fn users_of_a_closed_loop_wait_for_their_answers_and_think() {
    let (_echo, address) = echo();
    let url = format!("ws://{address}");
    let groups = "groups = [{ name = \"users\", clients = 6 }]";
    let conversation = [
        "protocol = \"websocket\"",
        "think = \"100ms\"",
        r#"steps = [{ text = "hello", expect = {} }]"#,
    ];
    let run = call(&url, &plan_of(groups, &conversation), &[]).run();
    let ok = run.result.operations("ok");
    assert!((6..=30).contains(&ok), "{ok}");
}

/// Answers each message with itself, but the first of the load only before the next one of its user.
fn answer_late(stream: TcpStream, messages: &Mutex<u64>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut socket = accept(stream).ok()?;
    let mut late = None;
    while let Ok(message @ Message::Text(_)) = socket.read() {
        let number = {
            let mut messages = messages.lock().unwrap();
            *messages += 1;
            *messages
        };
        if number == 2 {
            late = Some(message);
            continue;
        }
        for message in late.take().into_iter().chain([message]) {
            socket.send(message).ok()?;
        }
    }
    Some(())
}

#[test]
fn a_late_answer_is_not_taken_for_the_next_one() {
    let groups = "groups = [{ name = \"users\", clients = 6 }]";
    let with_number =
        r#"steps = [{ data = { id = "{id}" }, expect = { pointer = "/id", is = "{id}" } }]"#;
    for (conversation, has_order_alone) in [
        (&[r#"steps = [{ text = "hello", expect = {} }]"#][..], true),
        (&[with_number], false),
        (
            &[
                "answer_id = \"/id\"",
                r#"steps = [{ data = { id = "{id}" }, expect = {} }]"#,
            ],
            false,
        ),
    ] {
        let (address, _) = start_server(0, answer_late);
        let all = [
            &["protocol = \"websocket\"", "think = \"10ms\""],
            conversation,
        ]
        .concat();
        let plan = plan_of(groups, &all);
        let soon = ["--ack-timeout", "300ms", "--duration", "1s"];
        let run = call(&format!("ws://{address}"), &plan, &soon).run();
        let late = run.result.error("answer_timeout");
        assert!(late > 0);
        // A connection whose answers have only their order begins again.
        run.result.counts(&[
            ("connections_lost", if has_order_alone { late } else { 0 }),
            ("messages", run.result.operations("ok") + late),
        ]);
    }
}

#[test]
fn pushes_on_plain_websocket_are_accounted_for() {
    // Each user is alone in its room, so that an echo is its own push.
    let (_echo, address) = echo();
    let url = format!("ws://{address}");
    let conversation = [
        "protocol = \"websocket\"",
        r#"fan_out = { sender = "/from", to = "room" }"#,
        // Other messages need not be JSON.
        r#"steps = [{ data = { from = "{{user}} {id}, hello" } }, { text = "hello", expect = {} }]"#,
    ];
    let run = call(&url, &plan(&conversation), &["--users-per-room", "1"]).run();
    accounted(&run, &[]);
    let ok = run.result.operations("ok");
    run.result
        .counts(&[("events", ok / 2), ("messages", ok), ("ignored", 0)]);
}

#[test]
fn a_server_that_is_none_is_named() {
    let port = peer::serve_page(|_, _| ("404 Not Found", String::new()));
    let steps = [
        "protocol = \"websocket\"",
        "steps = [{ text = \"a\", expect = {} }]",
    ];
    let url = format!("http://127.0.0.1:{port}");
    call(&url, &plan(&steps), &[])
        .refused(2, &["as a WebSocket server", "404", "driver.subprotocols"]);
    let (_echo, address) = echo();
    let url = format!("ws://{address}");
    let steps = [
        "protocol = \"websocket\"",
        "steps = [{ text = \"a\", expect = { pointer = \"/b\" } }]",
    ];
    call(&url, &plan(&steps), &[]).refused(2, &["steps[0].expect", "a value at /b", "`a` came"]);
    let number = "answer_id = \"/number\"\nsteps = [{ data = { id = \"{id}\" }, expect = {} }]";
    let plan = plan(&["protocol = \"websocket\"", number]);
    call(&url, &plan, &[]).refused(2, &["answer_id", "1 at /number", "`{\"id\":1}` came"]);
}

#[test]
fn the_plans_of_the_echo_and_of_subscriptions_fit_their_daemons() {
    let launcher = Launcher::new().unwrap();
    for (name, plan, arguments) in [
        (
            "node-echo",
            "echo",
            ["--rooms", "4", "--set", "groups.0.clients=4"],
        ),
        (
            "null-echo",
            "echo",
            ["--rooms", "4", "--set", "groups.0.clients=4"],
        ),
        (
            "node-graphql",
            "subscriptions",
            ["--rooms", "4", "--users-per-room", "10"],
        ),
    ] {
        let Some(prepared) = prepared(name, "websocket") else {
            continue;
        };
        let plan = format!(
            "{}/../../../configs/presence/{plan}.toml",
            env!("CARGO_MANIFEST_DIR")
        );
        let served = launcher.with(&prepared, &[], |daemon| {
            let run = Program::new(env!("CARGO_BIN_EXE_presence-load"))
                .args(["--plan", &plan, "--warmup", "0s", "--duration", "300ms"])
                .args(["--ramp-up", "100ms"])
                .args(arguments)
                .args([daemon.endpoint().url.clone().unwrap()])
                .run();
            accounted(&run, &[]);
            let messages = run.result.count("messages");
            assert_eq!(run.result.operations("ok"), messages, "{name}");
            let each = if name == "node-graphql" { 10 } else { 0 };
            run.result.counts(&[("events", each * messages)]);
            assert!(messages > 3, "{name}: {}", run.stderr);
        });
        served.unwrap();
    }
}
