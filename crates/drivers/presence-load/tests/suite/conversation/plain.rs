//! Conversations on plain WebSocket.

use std::net::SocketAddr;

use harness_testing::peer;
use tungstenite::{Message, accept};

use super::{accounted, call, plan, plan_of};

/// Starts a server that answers each message with itself, and with the one before if `swaps`.
fn echo() -> SocketAddr {
    peer::serve(|stream| {
        stream.set_nodelay(true).ok()?;
        let mut socket = accept(stream).ok()?;
        while let Ok(message @ (Message::Text(_) | Message::Binary(_))) = socket.read() {
            socket.send(message).ok()?;
        }
        Some(())
    })
}

#[test]
fn messages_are_answered_in_order_or_by_a_field_as_text_or_binary() {
    let url = format!("ws://{}/chat?a=1", echo());
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
fn users_of_a_closed_loop_wait_for_their_answers_and_think() {
    let url = format!("ws://{}", echo());
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

#[test]
fn pushes_on_plain_websocket_are_accounted_for() {
    // Each user is alone in its room, so that an echo is its own push.
    let url = format!("ws://{}", echo());
    let conversation = [
        "protocol = \"websocket\"",
        r#"fan_out = { sender = "/from", to = "room" }"#,
        r#"steps = [{ data = { from = "{{user}} {id}, hello" } }]"#,
    ];
    let run = call(&url, &plan(&conversation), &["--users-per-room", "1"]).run();
    accounted(&run, &[]);
    let ok = run.result.operations("ok");
    run.result.counts(&[("events", ok), ("messages", ok)]);
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
    let url = format!("ws://{}", echo());
    let steps = [
        "protocol = \"websocket\"",
        "steps = [{ text = \"a\", expect = { pointer = \"/b\" } }]",
    ];
    call(&url, &plan(&steps), &[]).refused(2, &["steps[0].expect", "a value at /b", "`a` came"]);
    let number = "answer_id = \"/number\"\nsteps = [{ data = { id = \"{id}\" }, expect = {} }]";
    let plan = plan(&["protocol = \"websocket\"", number]);
    call(&url, &plan, &[]).refused(2, &["answer_id", "1 at /number", "`{\"id\":1}` came"]);
}
