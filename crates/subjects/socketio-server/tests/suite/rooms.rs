//! The example of the documentation.

#[expect(
    dead_code,
    reason = "it is a program, whose main function the test replaces"
)]
#[path = "../../examples/rooms.rs"]
mod example;

use std::sync::Arc;

use crate::support::{TestServer, config};

#[test]
fn the_example_answers_a_join_and_broadcasts_to_the_room() {
    let server = TestServer::start_app(config(), Arc::new(example::Rooms::default()));
    let mut clients: Vec<_> = ["lobby", "lobby", "kitchen"]
        .into_iter()
        .zip([1, 2, 1])
        .map(|(room, count)| {
            let mut client = server.connect();
            client.text();
            client.send("40");
            client.text();
            client.send(&format!(r#"427["join","{room}"]"#));
            assert_eq!(client.text(), format!("437[{count}]"));
            client
        })
        .collect();
    clients[0].send(r#"42["say","lobby",{"a":[1]}]"#);
    clients[2].send(r#"42["say","kitchen","b"]"#);
    for (client, text) in clients
        .iter_mut()
        .zip([r#"{"a":[1]}"#, r#"{"a":[1]}"#, r#""b""#])
    {
        assert_eq!(client.text(), format!(r#"42["message",{text}]"#));
    }
    // It leaves the namespace, and so the room.
    for packet in ["41", "40", r#"421["join","lobby"]"#] {
        clients[0].send(packet);
    }
    clients[0].text();
    assert_eq!(clients[0].text(), "431[2]");
}
