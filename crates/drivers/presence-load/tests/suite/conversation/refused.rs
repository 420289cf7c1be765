//! Applications and plans that do not fit together: each message says what was expected, what came, and which field of
//! the plan to change.

use std::io::Write as _;

use super::application::{Application, Script};
use super::{FAN_OUT, JOIN, MESSAGES, call, plan};

fn refused(script: Script, conversation: &[&str], words: &[&str]) {
    let application = Application::start(script);
    call(&application.url(), &plan(conversation), &[]).refused(2, words);
}

#[test]
fn an_application_that_does_not_fit_the_plan_is_named_before_the_load() {
    let with = |change: fn(&mut Script)| {
        let mut script = Script::default();
        change(&mut script);
        script
    };
    refused(
        with(|it| it.refusal = Some(r#"{"message":"unauthorized"}"#)),
        &[JOIN, MESSAGES],
        &["refused the connection", "unauthorized", "driver.auth"],
    );
    refused(
        with(|it| it.refusal = Some(r#"/x,{"message":"Invalid namespace"}"#)),
        &[JOIN, MESSAGES],
        &["Invalid namespace", "driver.namespace"],
    );
    refused(
        with(|it| it.join = Some("")),
        &[JOIN, MESSAGES],
        &[
            "driver.conversation.start[0].ack",
            "expected an acknowledgement with true at /0/ok within 1s after `join`",
            "nothing came",
            "correct `emit`",
        ],
    );
    refused(
        with(|it| it.join = Some(r#"[{"ok":false,"why":"full"}]"#)),
        &[JOIN, MESSAGES],
        &[
            "start[0].expect",
            "true at /0/ok",
            r#"`[{"ok":false,"why":"full"}]` came"#,
        ],
    );
    let event = r#"steps = [{ emit = "ask", data = [1], expect = { event = "reply" } }]"#;
    refused(
        Script::default(),
        &[JOIN, event],
        &[
            "steps[0].expect.event",
            "the event `reply`",
            r#"`2["answer",1]` came"#,
        ],
    );
    let value = r#"steps = [{ emit = "ask", data = [1], expect = { event = "answer", pointer = "/0", is = 2 } }]"#;
    refused(
        Script::default(),
        &[JOIN, value],
        &["steps[0].expect", "2 at /0", r#"`["answer",1]` came"#],
    );
    let capture = r#"steps = [{ emit = "echo", data = [{ a = 1 }], ack = true, capture = ["json:/0/b as b"] }]"#;
    refused(
        Script::default(),
        &[JOIN, capture],
        &["steps[0].capture", r#"`[{"a":1}]` came"#],
    );
    refused(
        with(|it| it.is_binary = true),
        &[JOIN, r#"steps = [{ emit = "echo", ack = true }]"#],
        &["steps[0].ack", "a binary message came"],
    );
}

#[test]
fn a_rule_that_does_not_fit_the_pushes_is_named_before_the_load() {
    for (from, to, words) in [
        (
            "\"chat message\"",
            "\"message\"",
            &["fan_out.event", "`message`", "chat message"][..],
        ),
        (
            "/0/user",
            "/0/from",
            &[
                "fan_out.sender",
                "user-1-1 at /0/from",
                r#""user":"user-1-1"}"#,
            ],
        ),
        ("/0/n\"", "/0/id\"", &["fan_out.sender", "1 at /0/id"]),
    ] {
        refused(
            Script::default(),
            &[&FAN_OUT.replace(from, to), JOIN, MESSAGES],
            words,
        );
    }
    let other = MESSAGES.replace("{{user}}", "me");
    refused(
        Script::default(),
        &[FAN_OUT, JOIN, &other],
        &["fan_out.sender", "user-1-1", r#""user":"me""#, "{{user}}"],
    );
}

#[test]
fn a_description_that_can_not_be_followed_is_named_with_its_remedy() {
    for (conversation, words) in [
        (
            &[JOIN][..],
            &["driver.conversation.steps", "are missing"][..],
        ),
        (
            &["steps = [{ data = [1] }]"],
            &["steps[0].emit", "name the event"],
        ),
        (
            &[r#"steps = [{ emit = "a", data = 1 }]"#],
            &["steps[0].data", "write [ … ]"],
        ),
        (
            &[r#"steps = [{ emit = "a", data = ["{{word}}"] }]"#],
            &["steps[0].data", "`{{word}}` names nothing"],
        ),
        (
            &[r#"steps = [{ emit = "a", text = "b" }]"#],
            &["steps[0].text", "plain WebSocket"],
        ),
        (
            &[r#"steps = [{ emit = "a", expect = { pointer = "/0" } }]"#],
            &["expect.event", "ack = true"],
        ),
        (
            &[r#"steps = [{ emit = "a", ack = true, expect = { pointer = "0" } }]"#],
            &["expect.pointer", "begin it with /"],
        ),
        (
            &[r#"steps = [{ emit = "a", ack = true, expect = { is = 1 } }]"#],
            &["expect.pointer", "is missing"],
        ),
        (
            &[r#"steps = [{ emit = "a", ack = true, expect = { event = "b" } }]"#],
            &["expect.event", "leave out one"],
        ),
        (
            &[r#"steps = [{ emit = "a", capture = ["json:/0 as x"] }]"#],
            &["steps[0].capture", "ack = true"],
        ),
        (
            &[r#"steps = [{ emit = "a", ack = true, capture = ["json:/0 as user"] }]"#],
            &["steps[0].capture", "another name"],
        ),
        (
            &[r#"steps = [{ emit = "a", ack = true, capture = ["header:a as b"] }]"#],
            &["steps[0].capture", "no header fields"],
        ),
        (
            &[r#"steps = [{ emit = "a", weight = 0 }]"#],
            &["steps[0].weight", "1 or more"],
        ),
        (
            &[r#"start = [{ emit = "a", data = ["{id}"] }]"#, MESSAGES],
            &["start[0]", "{{user}}"],
        ),
        (
            &[FAN_OUT, r#"start = [{ emit = "a" }]"#, MESSAGES],
            &["start[0]", "add a step that is answered"],
        ),
        (
            &[FAN_OUT, r#"steps = [{ emit = "a" }]"#],
            &["fan_out", "put {{user}} and {id}"],
        ),
        (
            &[r#"fan_out = { sender = "/0", to = "room" }"#, MESSAGES],
            &["fan_out.event", "name the event"],
        ),
        (
            &["rows = \"no.csv\"", MESSAGES],
            &["driver.conversation.rows no.csv", "can be read"],
        ),
        (
            &["protocol = \"websocket\"", MESSAGES],
            &["steps[0].emit", "protocol = \"socket.io\""],
        ),
        (
            &["protocol = \"websocket\"", "steps = [{}]"],
            &["steps[0]", "`data`"],
        ),
        (
            &["answer_id = \"/id\"", MESSAGES],
            &["answer_id", "leave it out"],
        ),
        (
            &[
                "protocol = \"websocket\"",
                "answer_id = \"/id\"",
                r#"steps = [{ text = "a", expect = {} }]"#,
            ],
            &["answer_id", "put {id} into"],
        ),
    ] {
        call("http://127.0.0.1:9", &plan(conversation), &[]).refused(2, words);
    }
    let plan = plan(&[JOIN, MESSAGES]);
    call("http://127.0.0.1:9", &plan, &["--mode", "sdk"]).refused(2, &["--mode", "conversation"]);
}

#[test]
fn rows_that_lack_what_a_template_names_are_named_with_their_line() {
    let steps = r#"steps = [{ emit = "echo", data = ["{{word}}"], ack = true }]"#;
    for (suffix, text, words) in [
        (".csv", "word,n\n", &["rows"][..]),
        (".csv", "word,n\na,1\nb\n", &["rows", "3"]),
        (".csv", "n\n1\n", &["steps[0].data", "{{word}}"]),
        (".csv", "word,room\na,1\n", &["`room`", "rename the column"]),
        (".jsonl", "{\"word\":\"a\"}\n{\"n\":1}\n", &["rows", "2"]),
    ] {
        let mut rows = tempfile::Builder::new().suffix(suffix).tempfile().unwrap();
        rows.write_all(text.as_bytes()).unwrap();
        let rows = format!("rows = {:?}", rows.path().to_str().unwrap());
        let plan = plan(&[&rows, JOIN, steps]);
        call("http://127.0.0.1:9", &plan, &[]).refused(2, words);
    }
}
