//! Applications and plans that do not fit together: each message says what was expected, what came, and which field of
//! the plan to change.

use std::io::Write as _;

use harness_testing::rows;

use super::application::{Application, Script};
use super::{JOIN, MESSAGES, call, plan, plan_of_row};

fn refused(script: &Script, table: &str) {
    for (row, words) in rows(table) {
        let application = Application::start(script.clone());
        call(&application.url(), &plan_of_row(row), &[]).refused(2, &words);
    }
}

#[test]
fn an_application_that_does_not_fit_the_plan_is_named_before_the_load() {
    let with = |change: fn(&mut Script), row: &str| {
        let mut script = Script::default();
        change(&mut script);
        refused(&script, row);
    };
    with(
        |it| it.refusal = Some(r#"{"message":"unauthorized"}"#),
        "{join} ; {messages} => refused the connection … unauthorized … driver.auth",
    );
    with(
        |it| it.refusal = Some(r#"/x,{"message":"Invalid namespace"}"#),
        "{join} ; {messages} => Invalid namespace … driver.namespace",
    );
    with(
        |it| it.join = Some(""),
        "{join} ; {messages} => driver.conversation.start[0].ack … expected an acknowledgement with true at /0/ok within 1s after `join` … nothing came … correct `emit`",
    );
    with(
        |it| it.join = Some(r#"[{"ok":false,"why":"full"}]"#),
        r#"{join} ; {messages} => start[0].expect … true at /0/ok … `[{"ok":false,"why":"full"}]` came"#,
    );
    with(
        |it| it.is_binary = true,
        r#"{join} ; steps = [{ emit = "echo", ack = true }] => steps[0].ack … a binary message came"#,
    );
    let steps = r#"
        {join} ; steps = [{ emit = "ask", data = [1], expect = { event = "reply" } }] => steps[0].expect.event … the event `reply` … `2["answer",1]` came
        {join} ; steps = [{ emit = "ask", data = [1], expect = { event = "answer", pointer = "/0", is = 2 } }] => steps[0].expect … 2 at /0 … `["answer",1]` came
        {join} ; steps = [{ emit = "echo", data = [{ a = 1 }], ack = true, capture = ["json:/0/b as b"] }] => steps[0].capture … `[{"a":1}]` came
    "#;
    refused(&Script::default(), steps);
}

#[test]
fn a_rule_that_does_not_fit_the_pushes_is_named_before_the_load() {
    let rules = r#"
        fan_out = { event = "message", sender = "/0/user", number = "/0/n", to = "room" } ; {join} ; {messages} => fan_out.event … `message` … chat message
        fan_out = { event = "chat message", sender = "/0/from", number = "/0/n", to = "room" } ; {join} ; {messages} => fan_out.sender … user-1-1 at /0/from … "user":"user-1-1"}
        fan_out = { event = "chat message", sender = "/0/user", number = "/0/id", to = "room" } ; {join} ; {messages} => fan_out.sender … 1 at /0/id
        {fan_out} ; {join} ; steps = [{ emit = "chat message", data = [{ user = "me", n = "{id}" }], ack = true }] => fan_out.sender … user-1-1 … "user":"me" … {{user}}
    "#;
    refused(&Script::default(), rules);
}

#[test]
fn a_description_that_can_not_be_followed_is_named_with_its_remedy() {
    let conversations = r#"
        {join} => driver.conversation.steps … are missing
        steps = [{ data = [1] }] => steps[0].emit … name the event
        steps = [{ emit = "a", data = ["{{word}}"] }] => steps[0].data … `{{word}}` names nothing
        steps = [{ emit = "a", text = "b" }] => steps[0].text … plain WebSocket
        steps = [{ emit = "a", expect = { pointer = "/0" } }] => expect.event … ack = true
        steps = [{ emit = "a", ack = true, expect = { pointer = "0" } }] => expect.pointer … begin it with /
        steps = [{ emit = "a", ack = true, expect = { is = 1 } }] => expect.pointer … is missing
        steps = [{ emit = "a", ack = true, expect = { event = "b" } }] => expect.event … leave out one
        steps = [{ emit = "a", capture = ["json:/0 as x"] }] => steps[0].capture … ack = true
        steps = [{ emit = "a", ack = true, capture = ["json:/0 as user"] }] => steps[0].capture … another name
        steps = [{ emit = "a", ack = true, capture = ["header:a as b"] }] => steps[0].capture … no header fields
        steps = [{ emit = "a", weight = 0 }] => steps[0].weight … 1 or more
        start = [{ emit = "a", data = ["{id}"] }] ; {messages} => start[0] … {{user}}
        {fan_out} ; start = [{ emit = "a" }] ; {messages} => start[0] … add a step that is answered
        {fan_out} ; steps = [{ emit = "a" }] => fan_out … put {{user}} and {id}
        fan_out = { sender = "/0", to = "room" } ; {messages} => fan_out.event … name the event
        rows = "no.csv" ; {messages} => driver.conversation.rows no.csv … can be read
        protocol = "websocket" ; {messages} => steps[0].emit … protocol = "socket.io"
        protocol = "websocket" ; steps = [{}] => steps[0] … `data`
        answer_id = "/id" ; {messages} => answer_id … leave it out
        protocol = "websocket" ; answer_id = "/id" ; steps = [{ text = "a", expect = {} }] => answer_id … put {id} into
    "#;
    for (row, words) in rows(conversations) {
        call("http://127.0.0.1:9", &plan_of_row(row), &[]).refused(2, &words);
    }
    let no_list = plan(&[r#"steps = [{ emit = "a", data = 1 }]"#]);
    call("http://127.0.0.1:9", &no_list, &[]).refused(2, &["steps[0].data", "write [ … ]"]);
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
