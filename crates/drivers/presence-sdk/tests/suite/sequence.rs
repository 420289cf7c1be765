//! Numbers and epochs: lost, early and repeated events, and members that the server does not know.

use presence_sdk::{Code, Event, RejoinCause};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::script::{self, Peer, join, next, quick, soon};

#[tokio::test]
async fn packets_that_a_client_need_not_understand_are_ignored() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        for text in [
            "6",
            "3",
            r#"42["metadata:event",{}]"#,
            r#"42/admin,["presence:event",{}]"#,
            r#"451-["presence:event",{"_placeholder":true,"num":0}]"#,
            r#"42["presence:event",{"type":"wave","roomId":"r","userId":"u","connId":"x"}]"#,
            r#"42["presence:event",{"type":"join","roomId":"elsewhere","userId":"u","connId":"x","state":{}}]"#,
        ] {
            peer.send(text).await;
        }
        let bytes = Message::binary(vec![0, 255]);
        futures_util::SinkExt::send(&mut peer.socket, bytes).await.unwrap();
        peer.event("join", "other", 2, json!({})).await;
        peer.serve(1).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    assert!(matches!(next(&mut events).await, Event::Join(event) if event.seq == Some(2)));
    assert_eq!(room.members().len(), 2);
}

#[tokio::test]
async fn a_gap_is_reported_and_a_new_snapshot_fetched() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 10).await;
        peer.event("join", "other", 11, json!({})).await;
        peer.event("update", "other", 14, json!({"n": 4})).await;
        let join = peer.expect("presence:join").await;
        peer.joined(&join, 2, 15).await;
        peer.event("update", "other", 16, json!({"n": 5})).await;
        peer.serve(2).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    assert!(matches!(next(&mut events).await, Event::Join(event) if event.seq == Some(11)));
    assert!(matches!(
        next(&mut events).await,
        Event::Gap {
            expected: 12,
            got: 14
        }
    ));
    assert!(matches!(next(&mut events).await, Event::Update(event) if event.seq == Some(14)));
    assert!(matches!(
        next(&mut events).await,
        Event::Rejoined(RejoinCause::Gap)
    ));
    assert!(matches!(next(&mut events).await, Event::Update(event) if event.seq == Some(16)));
    let snapshot = room.snapshot().unwrap();
    assert_eq!(
        (snapshot.seq, snapshot.epoch, snapshot.is_current),
        (Some(16), 2, true)
    );
    assert_eq!(snapshot.members.len(), 2);
}

#[tokio::test]
async fn events_around_the_answer_to_a_join_are_neither_lost_nor_repeated() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open().await;
        let join = peer.expect("presence:join").await;
        // The own join before the answer, and the event after the snapshot, too.
        peer.event("join", "c0", 5, json!({})).await;
        peer.event("join", "other", 6, json!({"early": 1})).await;
        peer.joined(&join, 1, 5).await;
        peer.event("join", "other", 6, json!({"early": 2})).await;
        peer.event("update", "other", 7, json!({"late": 1})).await;
        peer.serve(1).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    assert!(matches!(next(&mut events).await, Event::Join(event) if event.seq == Some(5)));
    assert!(matches!(next(&mut events).await, Event::Join(event) if event.seq == Some(6)));
    assert!(matches!(next(&mut events).await, Event::Update(event) if event.seq == Some(7)));
    let members = room.members();
    assert_eq!(members.len(), 2);
    assert_eq!(members[1].state.as_json(), r#"{"late":1}"#);
}

#[tokio::test]
async fn the_own_join_may_arrive_after_the_answer() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 5).await;
        peer.event("join", "c0", 5, json!({})).await;
        peer.event("join", "c0", 5, json!({})).await;
        peer.event("join", "other", 6, json!({})).await;
        peer.serve(1).await;
    })
    .await;
    let (_client, _room, mut events) = join(&url, quick()).await;
    assert!(matches!(next(&mut events).await, Event::Join(event) if event.seq == Some(5)));
    assert!(matches!(next(&mut events).await, Event::Join(event) if event.seq == Some(6)));
}

#[tokio::test]
async fn an_expired_or_unknown_member_joins_again_and_the_update_is_carried() {
    for (code, cause) in [
        ("expired", RejoinCause::Expired),
        ("not_joined", RejoinCause::NotJoined),
        ("stale_epoch", RejoinCause::StaleEpoch),
    ] {
        let url = script::start(move |mut peer: Peer, _| async move {
            peer.open_and_join(1, 1).await;
            let heartbeat = peer.expect("presence:heartbeat").await;
            peer.refuse(heartbeat.id, code).await;
            let join = peer.expect("presence:join").await;
            assert_eq!(join.body["state"], json!({"n": 1}));
            peer.joined(&join, 2, 2).await;
            let heartbeat = peer.expect("presence:heartbeat").await;
            assert_eq!(heartbeat.body["epoch"], json!(2));
            peer.answer(
                heartbeat.id,
                json!({"ok": true, "changed": false, "epoch": 2}),
            )
            .await;
            peer.serve(2).await;
        })
        .await;
        let (_client, room, mut events) = join(&url, quick()).await;
        let outcome = soon(room.update_state(&json!({"n": 1}))).await.unwrap();
        assert_eq!((outcome.changed, outcome.epoch), (true, 2));
        let lost = next(&mut events).await;
        assert!(matches!(lost, Event::MembershipLost(why) if why == cause));
        assert!(matches!(next(&mut events).await, Event::Rejoined(why) if why == cause));
        soon(room.heartbeat()).await.unwrap();
    }
}

#[tokio::test]
async fn a_heartbeat_of_an_expired_member_is_rejected_but_the_client_joins_again() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        let heartbeat = peer.expect("presence:heartbeat").await;
        peer.refuse(heartbeat.id, "expired").await;
        let join = peer.expect("presence:join").await;
        peer.joined(&join, 2, 2).await;
        peer.serve(2).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    let error = soon(room.heartbeat()).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::Expired));
    assert!(matches!(
        next(&mut events).await,
        Event::MembershipLost(RejoinCause::Expired)
    ));
    assert!(matches!(
        next(&mut events).await,
        Event::Rejoined(RejoinCause::Expired)
    ));
    assert_eq!(room.snapshot().unwrap().epoch, 2);
}

#[tokio::test]
async fn a_new_join_does_not_undo_an_update_in_flight() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        let update = peer.expect("presence:heartbeat").await;
        // The server has carried it out; its answer is under way when the client sees the gap.
        peer.event("update", "other", 5, json!({})).await;
        let join = peer.expect("presence:join").await;
        peer.answer(update.id, json!({"ok": true, "changed": true, "epoch": 1}))
            .await;
        assert_eq!(join.body["state"], json!({"n": 1}));
        peer.joined(&join, 2, 6).await;
        peer.serve(2).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    soon(room.update_state(&json!({"n": 1}))).await.unwrap();
    assert!(matches!(
        next(&mut events).await,
        Event::Gap {
            expected: 2,
            got: 5
        }
    ));
    assert!(matches!(next(&mut events).await, Event::Update(_)));
    assert!(matches!(
        next(&mut events).await,
        Event::Rejoined(RejoinCause::Gap)
    ));
    assert_eq!(room.members()[0].state.as_json(), r#"{"n":1}"#);
}

#[tokio::test]
async fn events_that_a_removed_member_missed_are_no_gap() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        let heartbeat = peer.expect("presence:heartbeat").await;
        peer.refuse(heartbeat.id, "expired").await;
        let join = peer.expect("presence:join").await;
        // The own join, after events that were not sent to this client.
        peer.event("join", "c0", 9, json!({})).await;
        peer.joined(&join, 2, 9).await;
        peer.event("join", "other", 10, json!({})).await;
        peer.serve(2).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    assert!(soon(room.heartbeat()).await.is_err());
    assert!(matches!(
        next(&mut events).await,
        Event::MembershipLost(RejoinCause::Expired)
    ));
    assert!(matches!(next(&mut events).await, Event::Join(event) if event.seq == Some(9)));
    assert!(matches!(
        next(&mut events).await,
        Event::Rejoined(RejoinCause::Expired)
    ));
    assert!(matches!(next(&mut events).await, Event::Join(event) if event.seq == Some(10)));
}
