//! Broken connections: calls end or are kept as documented, and the room is joined again with the last state.

use std::time::Duration;

use futures_util::StreamExt as _;
use presence_sdk::{
    DisconnectCause, Error, Event, Events, LeaveReason, Options, RealtimeClient, Reconnect,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::script::{self, Peer, is_waiting, join, quick, soon};
use crate::server;

async fn wait_for(events: &mut Events, is_wanted: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = soon(events.next()).await.expect("the client is open");
        if is_wanted(&event) {
            return event;
        }
    }
}

/// Starts a server that ends its first connection after a number of updates, which it does not answer. Others can join
/// once the switch is on. Returns its URL, the switch, and the contents of their joins.
async fn absent_server(
    updates: usize,
) -> (String, watch::Sender<bool>, mpsc::UnboundedReceiver<Value>) {
    let (open, is_open) = watch::channel(false);
    let (report, reports) = mpsc::unbounded_channel();
    let url = script::start(move |mut peer: Peer, index| {
        let (mut is_open, report) = (is_open.clone(), report.clone());
        async move {
            if index == 0 {
                peer.open_and_join(1, 1).await;
                for _ in 0..updates {
                    peer.expect("presence:heartbeat").await;
                }
                return;
            }
            is_open.wait_for(|on| *on).await.expect("the test runs");
            let joined = peer.open_and_join(2, 1).await.body;
            report.send(joined).expect("the test runs");
            peer.serve(2).await;
        }
    })
    .await;
    (url, open, reports)
}

#[tokio::test]
async fn all_clients_of_a_restarted_server_come_back_to_their_rooms_with_their_states() {
    const CLIENTS: usize = 30;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("http://{address}");
    let server = tokio::spawn(server::serve(listener));
    let mut joined = Vec::new();
    for index in 0..CLIENTS {
        let client = RealtimeClient::connect_with(&url, quick()).await.unwrap();
        let room = format!("room-{}", index % 3);
        let handle = client
            .join_room(&room, &format!("user-{index}"))
            .await
            .unwrap();
        handle.update_state(&json!({"index": index})).await.unwrap();
        joined.push((client.events(), handle));
    }
    server.abort();
    assert!(server.await.is_err());
    for (events, handle) in &mut joined {
        wait_for(events, |event| matches!(event, Event::Disconnected(_))).await;
        assert!(matches!(handle.heartbeat().await, Err(Error::Disconnected)));
    }
    let listener = TcpListener::bind(address).await.unwrap();
    let _server = tokio::spawn(server::serve(listener));
    for (events, _) in &mut joined {
        let event = wait_for(events, |event| matches!(event, Event::Reconnected { .. })).await;
        assert!(matches!(event, Event::Reconnected { resumed: false }));
    }
    for (index, (events, handle)) in joined.iter_mut().enumerate() {
        while handle.members().len() < CLIENTS / 3 {
            soon(events.next()).await.expect("the client is open");
        }
        let members = handle.members();
        let own = members
            .iter()
            .find(|member| *member.user_id == *handle.user_id());
        assert_eq!(
            own.unwrap().state.as_json(),
            format!(r#"{{"index":{index}}}"#)
        );
        soon(handle.heartbeat()).await.unwrap();
    }
}

#[tokio::test]
async fn updates_while_disconnected_are_carried_by_the_join_in_their_order() {
    // One update arrives, and is not answered.
    let (url, open, mut reports) = absent_server(1).await;
    let (_client, room, mut events) = join(&url, quick()).await;
    let (a, b) = (json!({"n": 1, "x": 1}), json!({"n": 2}));
    let mut first = Box::pin(room.update_state(&a));
    assert!(is_waiting(&mut first).await);
    wait_for(&mut events, |event| matches!(event, Event::Disconnected(_))).await;
    let mut second = Box::pin(room.update_state(&b));
    assert!(is_waiting(&mut second).await);
    assert!(matches!(room.heartbeat().await, Err(Error::Disconnected)));
    assert!(!room.snapshot().unwrap().is_current);
    open.send(true).unwrap();
    assert_eq!(soon(first).await.unwrap().epoch, 2);
    assert_eq!(soon(second).await.unwrap().epoch, 2);
    let body = soon(reports.recv()).await.unwrap();
    assert_eq!(body["state"], json!({"n": 2, "x": 1}));
    soon(room.heartbeat()).await.unwrap();
}

#[tokio::test]
async fn an_update_that_waits_too_long_times_out_and_is_not_carried() {
    let (url, open, mut reports) = absent_server(0).await;
    // The answers to the joins must be in time on a busy machine.
    let options = quick().ack_timeout(Duration::from_secs(1));
    let (_client, room, mut events) = join(&url, options).await;
    wait_for(&mut events, |event| matches!(event, Event::Disconnected(_))).await;
    let error = soon(room.update_state(&json!({"n": 1}))).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    open.send(true).unwrap();
    let body = soon(reports.recv()).await.unwrap();
    assert_eq!(body, json!({"roomId": "r", "userId": "u"}));
}

#[tokio::test]
async fn the_resume_token_is_sent_and_the_membership_kept() {
    let url = script::start(|mut peer: Peer, index| async move {
        peer.open().await;
        let request = peer.expect("presence:join").await;
        let member = json!({"connId": "c0", "userId": "u", "state": {}, "lastSeenMs": 5, "epoch": 1 + index});
        let mut answer = json!({"ok": true, "snapshot": [member], "self": {"connId": "c0", "epoch": 1 + index},
            "seq": 3, "resume": format!("token-{index}")});
        if index > 0 {
            assert_eq!(request.body["resume"], json!("token-0"));
            answer["resumed"] = json!(true);
        }
        peer.answer(request.id, answer).await;
        if index > 0 {
            peer.event("join", "other", 4, json!({})).await;
            peer.serve(2).await;
        }
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    let event = wait_for(&mut events, |event| {
        matches!(event, Event::Reconnected { .. })
    })
    .await;
    assert!(matches!(event, Event::Reconnected { resumed: true }));
    let snapshot = room.snapshot().unwrap();
    assert_eq!((&*snapshot.conn_id, snapshot.epoch), ("c0", 2));
    let event = wait_for(&mut events, |_| true).await;
    assert!(matches!(event, Event::Join(event) if event.seq == Some(4)));
}

#[tokio::test]
async fn a_room_left_while_disconnected_is_not_joined_again() {
    let (url, open, mut reports) = absent_server(0).await;
    let (client, room, mut events) = join(&url, quick()).await;
    wait_for(&mut events, |event| matches!(event, Event::Disconnected(_))).await;
    room.leave().await.unwrap();
    assert!(room.snapshot().is_none());
    // A join waits for the connection.
    let mut other = Box::pin(client.join_room("other", "u"));
    assert!(is_waiting(&mut other).await);
    open.send(true).unwrap();
    soon(other).await.unwrap();
    let body = soon(reports.recv()).await.unwrap();
    assert_eq!(body["roomId"], json!("other"));
}

#[tokio::test]
async fn a_join_in_flight_when_the_connection_breaks_is_sent_again() {
    let url = script::start(|mut peer: Peer, index| async move {
        peer.open().await;
        let join = peer.expect("presence:join").await;
        if index > 2 {
            peer.joined(&join, 1, 1).await;
            peer.serve(1).await;
        }
    })
    .await;
    let (_client, room, _events) = join(&url, quick()).await;
    soon(room.heartbeat()).await.unwrap();
}

#[tokio::test]
async fn a_rejected_automatic_join_is_reported_and_tried_again() {
    let url = script::start(|mut peer: Peer, index| async move {
        if index == 0 {
            peer.open_and_join(1, 1).await;
            return;
        }
        peer.open().await;
        let first = peer.expect("presence:join").await;
        peer.refuse(first.id, "room_full").await;
        let second = peer.expect("presence:join").await;
        peer.joined(&second, 2, 1).await;
        peer.serve(2).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    let event = wait_for(&mut events, |event| {
        matches!(event, Event::RejoinRejected { .. })
    })
    .await;
    assert!(matches!(
        event,
        Event::RejoinRejected {
            code: presence_sdk::Code::RoomFull,
            ..
        }
    ));
    wait_for(&mut events, |event| {
        matches!(event, Event::Reconnected { .. })
    })
    .await;
    soon(room.heartbeat()).await.unwrap();
}

#[tokio::test]
async fn every_way_in_which_a_server_ends_a_connection_leads_to_a_reconnection() {
    let url = script::start(|mut peer: Peer, index| async move {
        peer.open_and_join(1, 1).await;
        match index {
            0 => peer.send("41").await,
            1 => peer.send("1").await,
            2 => drop(peer.socket.close(None).await),
            3 => return,
            _ => return peer.serve(1).await,
        }
        // Not this end closes the TCP connection first.
        peer.text().await;
    })
    .await;
    let (client, room, mut events) = join(&url, quick()).await;
    for _ in 0..4 {
        wait_for(&mut events, |event| matches!(event, Event::Disconnected(_))).await;
        wait_for(&mut events, |event| {
            matches!(event, Event::Reconnected { .. })
        })
        .await;
    }
    soon(room.heartbeat()).await.unwrap();
    assert!(client.is_connected());
}

#[tokio::test]
async fn a_member_that_the_server_removed_joins_again() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_and_join(1, 1).await;
        let left = json!({"type": "leave", "roomId": "r", "userId": "u", "connId": "c0", "state": null, "ts": 1,
            "epoch": 1, "seq": 2, "reason": "expired"});
        peer.send(format!("42{}", json!(["presence:event", left]))).await;
        let join = peer.expect("presence:join").await;
        peer.joined(&join, 2, 3).await;
        peer.serve(2).await;
    })
    .await;
    let (_client, room, mut events) = join(&url, quick()).await;
    wait_for(&mut events, |event| {
        matches!(event, Event::Leave(_, LeaveReason::Expired))
    })
    .await;
    wait_for(&mut events, |event| matches!(event, Event::Rejoined(_))).await;
    assert_eq!(room.snapshot().unwrap().epoch, 2);
}

#[tokio::test]
async fn a_client_can_be_closed_while_it_reconnects() {
    let url = script::start(|mut peer: Peer, index| async move {
        if index == 0 {
            peer.open_and_join(1, 1).await;
        } else {
            peer.text().await;
        }
    })
    .await;
    let (client, room, mut events) = join(&url, quick()).await;
    wait_for(&mut events, |event| matches!(event, Event::Disconnected(_))).await;
    soon(client.close()).await;
    assert!(matches!(
        room.update_state(&json!({})).await,
        Err(Error::Closed)
    ));
    while soon(events.next()).await.is_some() {}
}

#[tokio::test]
async fn a_new_connection_is_opened_at_once_when_the_program_asks_for_it() {
    let url = server::start().await;
    let watcher = RealtimeClient::connect(&url).await.unwrap();
    let watched = watcher.join_room("r", "watcher").await.unwrap();
    let mut seen = watched.events();
    // The first attempt after a loss would wait for up to an hour.
    let hour = Duration::from_secs(3600);
    let options = Options::new().reconnect(Reconnect::new(hour, hour));
    let (client, room, mut events) = join(&url, options).await;
    let patch = json!({"n": 1});
    let mut update = Box::pin(room.update_state(&patch));
    assert!(is_waiting(&mut update).await);
    client.reconnect();
    soon(update).await.unwrap();
    let cause = wait_for(&mut events, |event| matches!(event, Event::Disconnected(_))).await;
    assert!(matches!(
        cause,
        Event::Disconnected(DisconnectCause::Requested)
    ));
    wait_for(&mut events, |event| {
        matches!(event, Event::Reconnected { .. })
    })
    .await;
    assert!(client.is_connected());
    // The others see the end of the connection, not a leave that was asked for.
    wait_for(&mut seen, |event| matches!(event, Event::Leave(..))).await;
    while watched.members().len() < 2 {
        soon(seen.next()).await.expect("the client is open");
    }
    let members = watched.members();
    let other = members.iter().find(|member| *member.user_id != *"watcher");
    assert_eq!(other.unwrap().state.as_json(), r#"{"n":1}"#);
}

#[tokio::test]
async fn a_connection_that_the_program_drops_ends_without_a_farewell() {
    let (report, mut reports) = mpsc::unbounded_channel();
    let url = script::start(move |mut peer: Peer, index| {
        let report = report.clone();
        async move {
            peer.open_and_join(index as u64 + 1, 1).await;
            if index == 0 {
                let last = peer.socket.next().await;
                report.send(matches!(last, None | Some(Err(_)))).unwrap();
                return;
            }
            peer.serve(2).await;
        }
    })
    .await;
    let (client, room, mut events) = join(&url, quick()).await;
    client.reconnect();
    assert!(soon(reports.recv()).await.unwrap(), "it sent something");
    wait_for(&mut events, |event| {
        matches!(event, Event::Reconnected { .. })
    })
    .await;
    soon(room.heartbeat()).await.unwrap();
}
