//! Dropped futures: the answers of later calls are their own, and nothing remains on the server.

use std::time::Duration;

use presence_sdk::{Error, Options, RealtimeClient};
use serde_json::json;
use tokio::sync::mpsc;

use crate::script::{self, Peer, is_waiting, soon};

async fn client(url: &str) -> RealtimeClient {
    let options = Options::new().without_heartbeats();
    soon(RealtimeClient::connect_with(url, options))
        .await
        .expect("the server accepts")
}

/// Polls a future once, so that its call is passed on, and drops it.
async fn start_and_drop<T>(future: impl Future<Output = T>) {
    assert!(is_waiting(&mut Box::pin(future)).await);
}

#[tokio::test]
async fn dropped_calls_do_not_shift_the_answers_of_later_ones() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        let mut held = Vec::new();
        for epoch in 0_u64..40 {
            held.push((peer.expect("presence:heartbeat").await, epoch));
        }
        // In another order than they were asked.
        for (request, epoch) in held.into_iter().rev() {
            let answer = json!({"ok": true, "changed": false, "epoch": epoch});
            peer.answer(request.id, answer).await;
        }
        peer.serve(1_000).await;
    })
    .await;
    let client = client(&url).await;
    let room = soon(client.join_room("r", "u")).await.unwrap();
    let patch = json!({"n": 1});
    let mut kept = Vec::new();
    for index in 0_u64..40 {
        if index % 3 == 0 {
            start_and_drop(room.heartbeat()).await;
        } else if index % 3 == 1 {
            start_and_drop(room.update_state(&patch)).await;
        } else {
            let mut call = Box::pin(room.heartbeat());
            assert!(is_waiting(&mut call).await);
            kept.push((call, index));
        }
    }
    for (call, index) in kept {
        assert_eq!(soon(call).await.unwrap().epoch, index);
    }
    assert_eq!(soon(room.heartbeat()).await.unwrap().epoch, 1_000);
}

#[tokio::test]
async fn a_dropped_join_leaves_the_room_and_the_next_join_waits_for_that() {
    let (report, mut reports) = mpsc::unbounded_channel();
    let url = script::start(move |mut peer: Peer, _| {
        let report = report.clone();
        async move {
            peer.open().await;
            while let Some(request) = peer.request().await {
                report
                    .send(format!("{} {}", request.name, request.body["roomId"]))
                    .unwrap();
                match request.name.as_str() {
                    "presence:join" => peer.joined(&request, 1, 1).await,
                    _ => peer.answer(request.id, json!({"ok": true})).await,
                }
            }
        }
    })
    .await;
    let client = client(&url).await;
    start_and_drop(client.join_room("a", "u")).await;
    let room = soon(client.join_room("b", "u")).await.unwrap();
    let log = [
        soon(reports.recv()).await,
        soon(reports.recv()).await,
        soon(reports.recv()).await,
    ];
    let log: Vec<String> = log.into_iter().flatten().collect();
    let expected = [
        "presence:join \"a\"",
        "presence:leave null",
        "presence:join \"b\"",
    ];
    assert_eq!(log, expected);
    assert_eq!(room.room_id(), "b");
}

#[tokio::test]
async fn a_dropped_leave_is_carried_out() {
    let (report, mut reports) = mpsc::unbounded_channel();
    let url = script::start(move |mut peer: Peer, _| {
        let report = report.clone();
        async move {
            peer.open_and_join(1, 1).await;
            let leave = peer.expect("presence:leave").await;
            report.send(()).unwrap();
            peer.answer(leave.id, json!({"ok": true})).await;
            let join = peer.expect("presence:join").await;
            peer.joined(&join, 2, 1).await;
            peer.serve(2).await;
        }
    })
    .await;
    let client = client(&url).await;
    let room = soon(client.join_room("r", "u")).await.unwrap();
    start_and_drop(room.leave()).await;
    soon(reports.recv()).await.unwrap();
    assert!(matches!(
        soon(room.heartbeat()).await,
        Err(Error::NotJoined)
    ));
    let again = soon(client.join_room("r", "u")).await.unwrap();
    drop(room);
    assert_eq!(soon(again.heartbeat()).await.unwrap().epoch, 2);
}

#[tokio::test]
async fn a_dropped_connect_closes_the_connection() {
    let (report, mut reports) = mpsc::unbounded_channel();
    let url = script::start(move |mut peer: Peer, _| {
        let report = report.clone();
        async move {
            assert!(peer.text().await.is_none());
            report.send(()).unwrap();
        }
    })
    .await;
    let connecting = RealtimeClient::connect(&url);
    let outcome = tokio::time::timeout(Duration::from_millis(200), connecting).await;
    assert!(outcome.is_err());
    soon(reports.recv()).await.unwrap();
}

#[tokio::test]
async fn a_dropped_close_closes_the_client() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        peer.serve(1).await;
    })
    .await;
    let client = client(&url).await;
    let room = soon(client.join_room("r", "u")).await.unwrap();
    let mut events = client.events();
    start_and_drop(client.close()).await;
    while soon(events.next()).await.is_some() {}
    assert!(matches!(room.heartbeat().await, Err(Error::Closed)));
}

#[tokio::test]
async fn dropping_a_wait_for_an_event_loses_none() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        peer.expect("presence:heartbeat").await;
        peer.event("join", "other", 2, json!({})).await;
        peer.serve(1).await;
    })
    .await;
    let client = client(&url).await;
    let room = soon(client.join_room("r", "u")).await.unwrap();
    let mut events = room.events();
    start_and_drop(events.next()).await;
    start_and_drop(room.heartbeat()).await;
    assert!(soon(events.next()).await.is_some());
}

#[test]
fn calls_end_when_the_runtime_of_the_client_ends() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    let (client, room) = first.block_on(async {
        let url = script::start(|mut peer: Peer, _| async move {
            peer.open_and_join(1, 1).await;
            peer.serve(1).await;
        })
        .await;
        let client = client(&url).await;
        let room = client.join_room("r", "u").await.unwrap();
        (client, room)
    });
    drop(first);
    runtime().block_on(async {
        assert!(matches!(soon(room.heartbeat()).await, Err(Error::Closed)));
        assert!(client.is_closed());
        client.close().await;
    });
}
