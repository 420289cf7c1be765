//! A server that misbehaves: the client ends calls with the right errors, reconnects, and joins again.

use std::time::Duration;

use presence_sdk::{
    Code, DisconnectCause, Error, Event, Events, Options, RealtimeClient, Reconnect,
};
use serde_json::json;
use tokio::sync::mpsc;

use crate::script::{self, Peer, join, next, quick, soon};

/// Reads events until the client is joined again after a disconnection. Returns the cause.
async fn reconnected(events: &mut Events) -> DisconnectCause {
    let mut cause = None;
    loop {
        match next(events).await {
            Event::Disconnected(why) => cause = Some(why),
            Event::Reconnected { .. } => return cause.expect("it was disconnected"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_late_answer_is_not_taken_for_the_answer_of_another_call() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        let late = peer.expect("presence:heartbeat").await;
        let second = peer.expect("presence:heartbeat").await;
        peer.answer(late.id, json!({"ok": true, "changed": false, "epoch": 100}))
            .await;
        peer.answer(
            second.id,
            json!({"ok": true, "changed": true, "epoch": 200}),
        )
        .await;
        peer.answer(77, json!({"ok": false})).await;
        peer.serve(300).await;
    })
    .await;
    // The other answers must be in time on a busy machine.
    let options = quick().ack_timeout(Duration::from_secs(2));
    let (_client, room, _) = join(&url, options).await;
    let error = soon(room.heartbeat()).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    assert_eq!(soon(room.heartbeat()).await.unwrap().epoch, 200);
    assert_eq!(soon(room.heartbeat()).await.unwrap().epoch, 300);
}

#[tokio::test]
async fn two_missed_heartbeats_end_the_connection_and_the_state_comes_back() {
    let (report, mut reports) = mpsc::unbounded_channel();
    let url = script::start(move |mut peer: Peer, index| {
        let report = report.clone();
        async move {
            let join = peer.open_and_join(1, 1).await;
            report.send(join.body).unwrap();
            if index == 0 {
                let update = peer.expect("presence:heartbeat").await;
                peer.answer(update.id, json!({"ok": true, "changed": true, "epoch": 1}))
                    .await;
                // No further answers.
                while peer.request().await.is_some() {}
            } else {
                peer.serve(1).await;
            }
        }
    })
    .await;
    // The answers before the missed ones, and after them, must be in time on a busy machine.
    let interval = Duration::from_millis(500);
    let options = quick().heartbeat_interval(interval).ack_timeout(interval);
    let (_client, room, mut events) = join(&url, options).await;
    soon(room.update_state(&json!({"n": 1}))).await.unwrap();
    assert_eq!(
        reconnected(&mut events).await,
        DisconnectCause::HeartbeatTimeout
    );
    soon(room.heartbeat()).await.unwrap();
    assert_eq!(
        soon(reports.recv()).await.unwrap(),
        json!({"roomId": "r", "userId": "u"})
    );
    let again = json!({"roomId": "r", "userId": "u", "state": {"n": 1}});
    assert_eq!(soon(reports.recv()).await.unwrap(), again);
}

#[tokio::test]
async fn automatic_heartbeats_are_sent_with_the_epoch_and_not_after_updates() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(42, 1).await;
        for _ in 0..3 {
            let heartbeat = peer.expect("presence:heartbeat").await;
            assert_eq!(heartbeat.body, json!({"epoch": 42}));
            peer.answer(
                heartbeat.id,
                json!({"ok": true, "changed": false, "epoch": 42}),
            )
            .await;
        }
        peer.event("update", "other", 2, json!({"done": true}))
            .await;
        peer.serve(42).await;
    })
    .await;
    let options = Options::new().heartbeat_interval(Duration::from_millis(20));
    let (_client, _room, mut events) = join(&url, options).await;
    assert!(matches!(next(&mut events).await, Event::Update(_)));
}

#[tokio::test]
async fn a_server_without_pings_is_considered_dead() {
    let url = script::start(|mut peer: Peer, index| async move {
        let times = if index == 0 {
            (20, 20)
        } else {
            (25_000, 20_000)
        };
        peer.open_with(times.0, times.1).await;
        peer.serve(1).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    assert_eq!(reconnected(&mut events).await, DisconnectCause::PingTimeout);
    soon(room.heartbeat()).await.unwrap();
}

#[tokio::test]
async fn pings_are_answered_and_keep_the_connection() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_with(2_000, 18_000).await;
        let join = peer.expect("presence:join").await;
        peer.joined(&join, 1, 1).await;
        peer.send("2").await;
        assert_eq!(peer.text().await.as_deref(), Some("3"));
        peer.send("6").await;
        peer.event("join", "other", 2, json!({})).await;
        peer.serve(1).await;
    })
    .await;
    let (_client, _room, mut events) = join(&url, quick()).await;
    assert!(matches!(next(&mut events).await, Event::Join(_)));
}

#[tokio::test]
async fn malformed_packets_end_the_connection_and_the_client_comes_back() {
    const MALFORMED: [&str; 10] = [
        "",
        "x",
        "4",
        "42",
        "42[",
        "43[]",
        r#"42["presence:event",{}]"#,
        r#"42["presence:event",{"type":"join","roomId":5}]"#,
        r#"430[{"ok":"yes"}]"#,
        "42[\"presence:event\",{\"type\":\"join\",\"roomId\":\"r\"",
    ];
    let url = script::start(|mut peer: Peer, index| async move {
        peer.open_and_join(1, 1).await;
        if let Some(text) = MALFORMED.get(index) {
            peer.send(*text).await;
            // Not this end closes first.
            peer.text().await;
        }
        peer.serve(1).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    for text in MALFORMED {
        let cause = reconnected(&mut events).await;
        assert!(
            matches!(cause, DisconnectCause::Protocol(_)),
            "{text}: {cause}"
        );
    }
    soon(room.heartbeat()).await.unwrap();
}

#[tokio::test]
async fn a_message_that_is_too_large_ends_the_connection() {
    let url = script::start(|mut peer: Peer, index| async move {
        peer.open_and_join(1, 1).await;
        if index == 0 {
            peer.event("join", "other", 2, json!({"text": "x".repeat(5_000)}))
                .await;
            peer.text().await;
        }
        peer.serve(1).await;
    })
    .await;
    let (_client, _room, mut events) = join(&url, quick().max_message_bytes(4_096)).await;
    assert!(matches!(
        reconnected(&mut events).await,
        DisconnectCause::TooLarge { limit: 4_096, .. }
    ));
}

#[tokio::test]
async fn a_rejected_patch_is_not_part_of_the_state() {
    let url = script::start(|mut peer: Peer, index| async move {
        let join = peer.open_and_join(1, 1).await;
        if index > 0 {
            assert_eq!(join.body["state"], json!({"small": 1}));
            return peer.serve(1).await;
        }
        let small = peer.expect("presence:heartbeat").await;
        peer.answer(small.id, json!({"ok": true, "changed": true, "epoch": 1}))
            .await;
        let large = peer.expect("presence:heartbeat").await;
        peer.refuse(large.id, "state_too_large").await;
        peer.expect("presence:heartbeat").await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    soon(room.update_state(&json!({"small": 1}))).await.unwrap();
    let error = soon(room.update_state(&json!({"large": 1})))
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(&Code::StateTooLarge));
    let error = soon(room.heartbeat()).await.unwrap_err();
    assert!(matches!(error, Error::Disconnected), "{error}");
    assert_eq!(
        reconnected(&mut events).await,
        DisconnectCause::ClosedByServer
    );
    soon(room.heartbeat()).await.unwrap();
}

#[tokio::test]
async fn a_client_is_closed_when_its_attempts_are_used_up() {
    let url = script::start(|mut peer: Peer, index| async move {
        if index == 0 {
            peer.open_and_join(1, 1).await;
        }
    })
    .await;
    let reconnect = Reconnect::new(Duration::from_millis(1), Duration::from_millis(2)).attempts(3);
    let (client, room, mut events) = join(&url, quick().reconnect(reconnect)).await;
    let mut failed = 0;
    while let Some(event) = soon(events.next()).await {
        failed += u32::from(
            matches!(event, Event::ReconnectFailed { attempt, .. } if attempt == failed + 1),
        );
    }
    assert_eq!(failed, 3);
    assert!(client.is_closed());
    assert!(matches!(
        room.update_state(&json!({})).await,
        Err(Error::Closed)
    ));
}

/// Opens, and answers the join with a snapshot that is too large for a limit of 4,096 bytes.
async fn join_too_large(peer: &mut Peer) {
    peer.open().await;
    let join = peer.expect("presence:join").await;
    let snapshot = vec!["x"; 2_000];
    peer.answer(join.id, json!({"ok": true, "snapshot": snapshot}))
        .await;
    // The client ends the connection.
    assert!(peer.request().await.is_none());
}

#[tokio::test]
async fn a_join_whose_answer_is_too_large_fails_once_with_its_reason() {
    let url = script::start(|mut peer: Peer, index| async move {
        if index == 0 {
            join_too_large(&mut peer).await;
            return;
        }
        peer.open().await;
        // Only the call of the program: the first join is not repeated.
        let join = peer.expect("presence:join").await;
        assert_eq!(join.body["userId"], "second");
        peer.joined(&join, 1, 1).await;
        peer.serve(1).await;
    })
    .await;
    let options = quick().max_message_bytes(4_096);
    let client = soon(RealtimeClient::connect_with(&url, options)).await;
    let client = client.unwrap();
    let mut events = client.events();
    let error = soon(client.join_room("r", "u")).await.unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { limit: 4_096, .. }),
        "{error}"
    );
    let cause = reconnected(&mut events).await;
    assert!(
        matches!(cause, DisconnectCause::TooLarge { bytes, .. } if bytes > 8_000),
        "{cause}"
    );
    let room = soon(client.join_room("r", "second")).await.unwrap();
    soon(room.heartbeat()).await.unwrap();
}

#[tokio::test]
async fn a_room_that_has_become_too_large_to_join_again_is_left() {
    let url = script::start(|mut peer: Peer, index| async move {
        match index {
            0 => {
                peer.open_and_join(1, 1).await;
            }
            1 => join_too_large(&mut peer).await,
            _ => {
                peer.open().await;
                assert!(peer.request().await.is_none(), "it joined again");
            }
        }
    })
    .await;
    let options = quick().max_message_bytes(4_096);
    let (client, room, mut events) = join(&url, options).await;
    loop {
        match next(&mut events).await {
            Event::RejoinFailed(Error::TooLarge { limit: 4_096, .. }) => break,
            Event::Disconnected(_) | Event::ReconnectFailed { .. } => {}
            other => panic!("unexpected: {other:?}"),
        }
    }
    loop {
        if let Event::Reconnected { .. } = next(&mut events).await {
            break;
        }
    }
    let error = soon(room.heartbeat()).await.unwrap_err();
    assert!(matches!(error, Error::NotJoined), "{error}");
    assert!(room.members().is_empty());
    client.close().await;
}
