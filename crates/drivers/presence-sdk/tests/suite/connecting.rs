//! Connections and joins that fail.

use std::time::Duration;

use presence_sdk::{Code, Error, Options, RealtimeClient};
use serde_json::json;
use tokio::sync::mpsc;

use crate::script::{self, Peer, quick, soon};

#[tokio::test]
async fn connecting_fails_with_the_reason() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let refused = RealtimeClient::connect(&format!("http://{address}")).await;
    assert!(matches!(refused, Err(Error::Connect(_))), "{refused:?}");

    let url = script::start(|mut peer: Peer, _| async move {
        peer.open_refusing("no such user").await;
    })
    .await;
    let error = soon(RealtimeClient::connect(&url)).await.unwrap_err();
    assert!(
        matches!(&error, Error::Refused { message } if message == "no such user"),
        "{error}"
    );

    let url = script::start(|mut peer: Peer, _| async move {
        peer.send("hello").await;
        peer.text().await;
    })
    .await;
    let error = soon(RealtimeClient::connect(&url)).await.unwrap_err();
    assert!(
        error.to_string().contains("does not speak Socket.IO"),
        "{error}"
    );

    let url = script::start(|mut peer: Peer, _| async move {
        peer.text().await;
    })
    .await;
    let options = Options::new().connect_timeout(Duration::from_millis(50));
    let error = soon(RealtimeClient::connect_with(&url, options))
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Timeout {
                request: "connect",
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_closes_at_any_step_of_the_handshake_is_an_error() {
    for step in 0..3 {
        let url = script::start(move |mut peer: Peer, _| async move {
            if step > 0 {
                peer.send(r#"0{"sid":"e","pingInterval":25000,"pingTimeout":20000}"#)
                    .await;
            }
            if step > 1 {
                peer.text().await;
            }
        })
        .await;
        let outcome = soon(RealtimeClient::connect(&url)).await;
        assert!(
            matches!(outcome, Err(Error::Connect(_))),
            "step {step}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_rejected_join_has_the_code_and_the_client_may_join_again() {
    let url = script::start(|mut peer: Peer, _| async move {
        peer.open().await;
        let first = peer.expect("presence:join").await;
        peer.refuse(first.id, "room_full").await;
        let second = peer.expect("presence:join").await;
        peer.refuse(second.id, "new_code").await;
        let third = peer.expect("presence:join").await;
        peer.joined(&third, 1, 1).await;
        peer.serve(1).await;
    })
    .await;
    let client = RealtimeClient::connect_with(&url, quick()).await.unwrap();
    let error = soon(client.join_room("r", "u")).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::RoomFull));
    let error = soon(client.join_room("r", "u")).await.unwrap_err();
    assert_eq!(error.code(), Some(&Code::Other("new_code".into())));
    let room = soon(client.join_room("r", "u")).await.unwrap();
    soon(room.heartbeat()).await.unwrap();
}

#[tokio::test]
async fn an_unanswered_join_times_out_and_is_left_so_that_no_member_remains() {
    let (report, mut reports) = mpsc::unbounded_channel();
    let url = script::start(move |mut peer: Peer, _| {
        let report = report.clone();
        async move {
            peer.open().await;
            while let Some(request) = peer.request().await {
                if request.name == "presence:leave" {
                    peer.answer(request.id, json!({"ok": true})).await;
                }
                report.send(request.name).unwrap();
            }
        }
    })
    .await;
    // The answer to the leave must be in time on a busy machine.
    let options = quick().ack_timeout(Duration::from_millis(500));
    let client = RealtimeClient::connect_with(&url, options).await.unwrap();
    let error = soon(client.join_room("r", "u")).await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Timeout {
                request: "presence:join",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(soon(reports.recv()).await.unwrap(), "presence:join");
    assert_eq!(soon(reports.recv()).await.unwrap(), "presence:leave");
}
