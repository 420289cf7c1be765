//! Joins, heartbeats and leaves.

use serde_json::json;

use super::*;

fn compatible() -> Settings {
    Settings {
        is_compatible: true,
        ..Settings::default()
    }
}

#[test]
fn a_join_is_in_its_own_snapshot_and_its_event_has_that_seq() {
    let server = Server::new(Settings::default());
    let (ann, bob) = (Client::new("a"), Client::new("b"));
    let state = json!({"roomId": "r", "userId": "ann", "state": {"x": 1}});
    let answer = server.request(&ann, "join", &state);
    let member = json!({"connId": "a", "userId": "ann", "state": {"x": 1}, "lastSeenMs": START, "epoch": START});
    let expected = json!({"ok": true, "snapshot": [member], "self": {"connId": "a", "epoch": START}, "seq": 1});
    assert_eq!(answer, expected);
    let event = json!({"type": "join", "roomId": "r", "userId": "ann", "connId": "a", "state": {"x": 1}, "ts": START,
        "epoch": START, "seq": 1});
    assert_eq!(ann.events(), [event]);
    let answer = server.join(&bob, "r");
    assert_eq!(
        (&answer["seq"], answer["snapshot"].as_array().unwrap().len()),
        (&json!(2), 2)
    );
    assert_eq!(
        (ann.announced(), bob.announced()),
        (vec!["join b 2".to_owned()], vec!["join b 2".to_owned()])
    );
}

#[test]
fn a_change_is_published_with_the_whole_state_and_nothing_else_is() {
    let (server, clients) = room_of(&["a", "b"], Settings::default());
    let answer = server.heartbeat(&clients[0], &json!({"x": 1}));
    assert_eq!(answer, json!({"ok": true, "changed": true, "epoch": START}));
    server.heartbeat(&clients[0], &json!({"y": [2]}));
    let answer = server.heartbeat(&clients[0], &json!({"x": 1}));
    assert_eq!(
        answer,
        json!({"ok": true, "changed": false, "epoch": START})
    );
    for client in &clients {
        let events = client.events();
        assert_eq!(events.len(), 2);
        assert_eq!(events[1]["state"], json!({"x": 1, "y": [2]}));
        assert_eq!(
            (&events[1]["type"], &events[1]["seq"]),
            (&json!("update"), &json!(4))
        );
    }
    assert_eq!(server.metric("presence_heartbeats_total"), 3);
    assert_eq!(server.metric("presence_deliveries_total"), 1 + 2 + 4);
}

#[test]
fn a_leaver_does_not_get_its_own_leave() {
    let (server, clients) = room_of(&["a", "b"], Settings::default());
    assert_eq!(
        server.request(&clients[0], "leave", &json!(null)),
        json!({"ok": true})
    );
    assert_eq!(clients[0].announced(), [""; 0]);
    let event = &clients[1].events()[0];
    assert_eq!(
        (&event["reason"], &event["state"]),
        (&json!("leave"), &json!(null))
    );
    assert_eq!(
        server.request(&clients[0], "leave", &json!(null)),
        json!({"ok": true})
    );
    server
        .presence
        .disconnect(&clients[1].session, true, server.now);
    assert_eq!(server.metric("presence_members"), 0);
    assert_eq!(server.metric("presence_rooms"), 0);
    assert_eq!(server.metric("presence_leaves_total"), 2);
}

#[test]
fn a_second_join_replaces_the_state_and_raises_the_epoch() {
    let (server, clients) = room_of(&["a", "b"], Settings::default());
    server.heartbeat(&clients[0], &json!({"x": 1}));
    clients[1].events();
    let answer = server.join(&clients[0], "r");
    assert_eq!(answer["self"]["epoch"], START + 1);
    assert_eq!(answer["snapshot"][0]["state"], json!({}));
    assert_eq!(clients[1].announced(), ["join a 4"]);
    assert_eq!(server.metric("presence_members"), 2);
}

#[test]
fn a_connection_is_in_one_room_and_its_user_may_be_in_several() {
    let (server, clients) = room_of(&["a"], Settings::default());
    assert_eq!(server.join(&clients[0], "other")["code"], "already_joined");
    let other = Client::new("a2");
    let request = json!({"roomId": "r", "userId": "user of a"});
    let answer = server.request(&other, "join", &request);
    assert_eq!(answer["snapshot"].as_array().unwrap().len(), 2);
    server.request(&clients[0], "leave", &json!(null));
    assert_eq!(server.join(&clients[0], "other")["ok"], true);
}

#[test]
fn a_heartbeat_needs_a_join_and_its_epoch() {
    let (server, clients) = room_of(&["a"], Settings::default());
    let stranger = Client::new("s");
    assert_eq!(
        server.heartbeat(&stranger, &json!({}))["code"],
        "not_joined"
    );
    for (epoch, code) in [(START - 1, "stale_epoch"), (START + 1, "stale_epoch")] {
        let answer = server.request(&clients[0], "heartbeat", &json!({"epoch": epoch}));
        assert_eq!(answer["code"], code);
    }
    let answer = server.request(&clients[0], "heartbeat", &json!({"epoch": START}));
    assert_eq!(answer["ok"], true);
    let answer = server.request(&clients[0], "heartbeat", &json!({"epoch": "x"}));
    assert_eq!(answer["code"], "invalid_argument");
}

#[test]
fn limits_are_refused_with_their_codes_and_leave_no_trace() {
    let settings = Settings {
        max_rooms: 2,
        max_room_members: 2,
        max_users: 3,
        max_state_bytes: 20,
        ..Settings::default()
    };
    let (server, clients) = room_of(&["a", "b"], settings);
    let (other, late) = (Client::new("c"), Client::new("d"));
    assert_eq!(server.join(&other, "r")["code"], "room_full");
    assert_eq!(server.join(&other, "r2")["ok"], true);
    assert_eq!(server.join(&late, "r3")["code"], "too_many_rooms");
    assert_eq!(server.join(&late, "r2")["code"], "too_many_users");
    assert_eq!(server.metric("presence_members"), 3);
    let large = json!({"x": "twenty bytes and more"});
    assert_eq!(
        server.heartbeat(&clients[0], &large)["code"],
        "state_too_large"
    );
    let request = json!({"roomId": "r2", "userId": "u", "state": large});
    assert_eq!(
        server.request(&late, "join", &request)["code"],
        "state_too_large"
    );
    assert_eq!(
        server.heartbeat(&clients[0], &json!({"x": 1}))["changed"],
        true
    );
    server.request(&other, "leave", &json!(null));
    assert_eq!(server.join(&late, "r3")["ok"], true);
    assert_eq!(server.metric("presence_rooms"), 2);
}

#[test]
fn a_refused_first_join_leaves_no_room() {
    let settings = Settings {
        max_users: 0,
        ..Settings::default()
    };
    let server = Server::new(settings);
    assert_eq!(
        server.join(&Client::new("a"), "r")["code"],
        "too_many_users"
    );
    assert_eq!(server.metric("presence_rooms"), 0);
}

#[test]
fn compatibility_mode_answers_as_the_model_does() {
    let (mut server, clients) = room_of(&["a", "b"], compatible());
    let tolerated = json!({"ok": true, "changed": false});
    assert_eq!(server.heartbeat(&Client::new("s"), &json!({})), tolerated);
    let lower = server.request(&clients[0], "heartbeat", &json!({"epoch": START - 1}));
    assert_eq!(lower, tolerated);
    let higher = server.request(
        &clients[0],
        "heartbeat",
        &json!({"epoch": START + 9, "patchState": {"x": 1}}),
    );
    assert_eq!(
        higher,
        json!({"ok": true, "changed": true, "epoch": START + 9})
    );
    let event = &clients[1].events()[0];
    assert_eq!(
        (event.get("seq"), &event["epoch"]),
        (None, &json!(START + 9))
    );
    let refused = server.join(&clients[0], "other");
    assert_eq!((&refused["ok"], refused.get("code")), (&json!(false), None));
    let answer = server.join(&clients[0], "r");
    assert_eq!(answer.as_object().unwrap().len(), 3);
    server.pass(30_000);
    assert_eq!(server.heartbeat(&clients[0], &json!({})), tolerated);
}

#[test]
fn events_of_many_threads_reach_every_member_in_the_order_of_their_numbers() {
    let (server, clients) = room_of(&["a", "b", "c", "d"], Settings::default());
    std::thread::scope(|scope| {
        for client in &clients {
            let server = &server;
            scope.spawn(move || {
                for number in 0..500 {
                    server.heartbeat(client, &json!({"n": number}));
                }
            });
        }
    });
    let expected: Vec<u64> = (5..2005).collect();
    for client in &clients {
        let seqs: Vec<_> = client
            .events()
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, expected);
    }
}
