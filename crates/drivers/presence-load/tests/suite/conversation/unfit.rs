//! Constructs of a description that can't be followed, and applications that they do not fit: each message has the field of
//! the plan and the remedy.

use harness_testing::{peer, rows};
use tungstenite::{Message, accept};

use super::application::{Application, Script};
use super::{JOIN, call, plan, plan_of, plan_of_row};

/// A short time for what does not come.
const SOON: [&str; 2] = ["--ack-timeout", "500ms"];

/// Starts a server of Socket.IO that acknowledges each event with an attachment of these bytes, or one that it does not send.
fn attaching(bytes: Option<&'static [u8]>) -> String {
    let address = peer::serve(move |stream| {
        stream.set_nodelay(true).ok()?;
        let mut socket = accept(stream).ok()?;
        let open = r#"0{"sid":"s","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}"#;
        socket.send(Message::text(open)).ok()?;
        while let Ok(message) = socket.read() {
            let Message::Text(text) = message else {
                continue;
            };
            let answer = match text.as_str().strip_prefix("42") {
                None => r#"40{"sid":"c"}"#.to_owned(),
                Some(event) => {
                    let (id, _) = event.split_once('[')?;
                    format!(r#"461-{id}[{{"_placeholder":true,"num":0}}]"#)
                }
            };
            let has_attachment = answer.starts_with("46");
            socket.send(Message::text(answer)).ok()?;
            if let Some(bytes) = bytes.filter(|_| has_attachment) {
                socket.send(Message::binary(bytes)).ok()?;
            }
        }
        Some(())
    });
    format!("http://{address}")
}

#[test]
fn an_application_that_a_construct_does_not_fit_is_named_before_the_load() {
    let application = Application::start(Script::default());
    let url = application.url();
    let table = r#"
        {join} ; steps = [{ emit = "echo", data = ["{binary:10}"], ack = true }] => steps[0].ack … after `echo` … the server closed
        {join} ; scenarios = [{ steps = [{ emit = "echo", ack = true }, { emit = "no", ack = true, repeat = 2 }] }] => driver.conversation.scenarios[0].steps[1].ack … after `no`
        fan_out = { event = "chat message", sender = "/0/user", number = "/0/n", to = "everybody" } ; {join} ; {messages} => fan_out.event … at user-2-1 … correct `to`
        fan_out = { event = "chat message", name = "{{room}}", sender = "/0/user", number = "/0/n", to = "room" } ; {join} ; {messages} => fan_out.name … is `room-001` for two users … {{socket}}
        fan_out = { event = "chat message", name = "{{token}}", sender = "/0/user", number = "/0/n", to = "room" } ; {captures} ; {messages} => fan_out.name … at /0/user and 1 at /0/n … what the application calls the sender
    "#;
    let capture = r#"ack = true, capture = ["json:/0/token as token"]"#;
    let table = table.replace("{captures}", &JOIN.replace("ack = true", capture));
    for (row, words) in rows(&table) {
        call(&url, &plan_of_row(row), &SOON).refused(2, &words);
    }
    let echo = plan(&[r#"steps = [{ emit = "echo", ack = true }]"#]);
    call(&attaching(None), &echo, &SOON)
        .refused(2, &["steps[0].ack", "without 1 of its attachments"]);
    let bytes = r#"expect = { pointer = "/0", is = "{binary:base64:AAEC}" }"#;
    let bytes = plan(&[&format!(
        r#"steps = [{{ emit = "echo", ack = true, {bytes} }}]"#
    )]);
    call(&attaching(Some(&[0, 1, 3])), &bytes, &SOON)
        .refused(2, &["steps[0].expect", "AAEC", "_placeholder"]);
    let refusing = peer::serve_page(|_, _| ("401 Unauthorized", String::new()));
    let url = format!("http://127.0.0.1:{refusing}");
    call(&url, &echo, &[]).refused(2, &["401", "driver.headers", "driver.conversation.query"]);
}

#[test]
fn a_construct_that_can_not_be_followed_is_named_with_its_remedy() {
    let mut file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::io::Write::write_all(&mut file, b"token,n\na,1\n").unwrap();
    let file = format!("rows = {:?}", file.path().to_str().unwrap());
    let message = r#"steps = [{ emit = "a", data = ["{id}"], ack = true }]"#;
    let table = r#"
        {rows} ; query = "token={{token}}" ; {message} => driver.conversation.query … write {{user.token}}
        query = "?a = 1" ; {message} => driver.conversation.query … as it is sent
        query = "id={id}" ; {message} => driver.conversation.query … use {{user}}
        {rows} ; query = "t={{user.no}}" ; {message} => driver.conversation.query … `{{user.no}}` names nothing
        {message} ; scenarios = [{ steps = [] }] => scenarios[0].steps … are missing
        {message} ; scenarios = [{ steps = [{ emit = "a" }] }] => driver.conversation.scenarios … leave out one
        scenarios = [{ steps = [{ emit = "a", weight = 2 }] }] => scenarios[0].steps[0].weight … give it to driver.conversation.scenarios[0]
        scenarios = [{ weight = 0, steps = [{ emit = "a" }] }] => scenarios[0].weight … 1 or more
        start = [{ emit = "a", repeat = 2 }] ; {message} => start[0].repeat … leave it out
        start = [{ emit = "a", think = "1s" }] ; {message} => start[0].think … leave it out
        steps = [{ emit = "a", repeat = 0 }] => repeat … uniform:1:5
        steps = [{ emit = "a", think = "1s" }] => steps[0].think … clients instead of a rate
        think = "1s" ; {message} => driver.conversation.think … clients instead of a rate
        steps = [{ emit = "a", data = ["{binary:x}"] }] => steps[0].data … write {binary:1024}
        protocol = "websocket" ; steps = [{ data = ["{binary:1}"] }] => steps[0].data … as `text`
        fan_out = { event = "a", sender = "/0", name = "bob", to = "room" } ; {message} => fan_out.name … `bob` … {{socket}}
        fan_out = { event = "a", sender = "/0", name = "{{me}}", to = "room" } ; {message} => fan_out.name … `{{me}}` names nothing
    "#;
    let table = table.replace("{rows}", &file).replace("{message}", message);
    for (row, words) in rows(&table) {
        call("http://127.0.0.1:9", &plan_of_row(row), &[]).refused(2, &words);
    }
    let many = plan_of(
        "groups = [{ name = \"messages\", rate = 1.0 }]",
        &[
            r#"fan_out = { event = "a", sender = "/0", to = "everybody" }"#,
            message,
        ],
    );
    let users = ["--rooms", "10000"];
    call("http://127.0.0.1:9", &many, &users).refused(
        2,
        &["fan_out.to", "900,000,000 pairs", "at most 500,000,000"],
    );
    let divided = ["--processes", "2"];
    call("http://127.0.0.1:9", &many, &divided).refused(2, &["fan_out.to", "in one program"]);
    let auth = ["--auth", r#"{"token":"{{token}}"}"#];
    let plan = plan(&[&file, message]);
    call("http://127.0.0.1:9", &plan, &auth).refused(2, &["driver.auth", "{{user.token}}"]);
}
