//! Clients of one server, in memory: what one does, the others see.

use std::time::Duration;

use presence_sdk::{Error, Event, Options, RealtimeClient};
use serde_json::json;

use crate::server;

async fn next(events: &mut presence_sdk::Events) -> Event {
    tokio::time::timeout(Duration::from_secs(20), events.next())
        .await
        .expect("an event arrives")
        .expect("the client is open")
}

#[tokio::test]
async fn members_see_joins_updates_and_leaves_of_each_other_in_order() {
    let url = server::start().await;
    let ada = RealtimeClient::connect(&url).await.unwrap();
    let mut events = ada.events();
    let room = ada
        .join_room_with("lobby", "ada", &json!({"mood": "calm"}))
        .await
        .unwrap();
    assert!(
        matches!(next(&mut events).await, Event::Join(event) if &*event.member.user_id == "ada")
    );
    assert_eq!(room.members().len(), 1);

    let bob = RealtimeClient::connect(&url).await.unwrap();
    let bobs = bob.join_room("lobby", "bob").await.unwrap();
    assert_eq!(bobs.members().len(), 2);
    let mood = &bobs.members()[0].state;
    assert_eq!(mood.as_json(), r#"{"mood":"calm"}"#);
    assert!(
        matches!(next(&mut events).await, Event::Join(event) if &*event.member.user_id == "bob")
    );

    let outcome = bobs.update_state(&json!({"n": 1})).await.unwrap();
    assert!(outcome.changed);
    assert!(!bobs.update_state(&json!({"n": 1})).await.unwrap().changed);
    let Event::Update(event) = next(&mut events).await else {
        panic!("an update")
    };
    assert_eq!(event.member.state.as_json(), r#"{"n":1}"#);
    assert_eq!((event.seq, &*event.room), (Some(3), "lobby"));
    assert_eq!(room.members()[1].state, event.member.state);

    bobs.leave().await.unwrap();
    let Event::Leave(event, _) = next(&mut events).await else {
        panic!("a leave")
    };
    assert_eq!(event.member.state.as_json(), r#"{"n":1}"#);
    assert_eq!(room.members().len(), 1);
    assert!(bobs.members().is_empty() && bobs.snapshot().is_none());
    assert!(matches!(bobs.heartbeat().await, Err(Error::NotJoined)));
    bobs.leave().await.unwrap();
    drop(bobs);
    bob.join_room("lobby", "bob").await.unwrap();
}

#[tokio::test]
async fn dropping_the_last_handle_leaves_the_room_and_closes_the_client() {
    let url = server::start().await;
    let watcher = RealtimeClient::connect(&url).await.unwrap();
    let room = watcher.join_room("r", "watcher").await.unwrap();
    let mut events = room.events();

    let client = RealtimeClient::connect(&url).await.unwrap();
    let mut own = client.events();
    let handle = client.join_room("r", "u").await.unwrap();
    let clone = handle.clone();
    drop(handle);
    assert!(matches!(next(&mut events).await, Event::Join(_)));
    clone.heartbeat().await.unwrap();
    drop(clone);
    assert!(matches!(next(&mut events).await, Event::Leave(..)));
    assert!(client.is_connected());
    let again = client.join_room("r", "u").await.unwrap();
    drop(client);
    again.heartbeat().await.unwrap();
    drop(again);
    while own.next().await.is_some() {}
    assert!(matches!(next(&mut events).await, Event::Join(_)));
    assert!(matches!(next(&mut events).await, Event::Leave(..)));
}

#[tokio::test]
async fn a_closed_client_fails_every_call() {
    let url = server::start().await;
    let client = RealtimeClient::connect(&url).await.unwrap();
    let room = client.join_room("r", "u").await.unwrap();
    client.close().await;
    assert!(client.is_closed() && !client.is_connected());
    assert!(matches!(room.heartbeat().await, Err(Error::Closed)));
    assert!(matches!(
        room.update_state(&json!({})).await,
        Err(Error::Closed)
    ));
    assert!(matches!(room.leave().await, Err(Error::Closed)));
    assert!(matches!(
        client.join_room("r", "u").await,
        Err(Error::Closed)
    ));
    assert!(client.events().next().await.is_none());
    client.close().await;
}

#[tokio::test]
async fn a_client_is_in_one_room_at_a_time() {
    let url = server::start().await;
    let client = RealtimeClient::connect(&url).await.unwrap();
    let room = client.join_room("first", "u").await.unwrap();
    let error = client.join_room("second", "u").await.unwrap_err();
    assert!(matches!(error, Error::AlreadyJoined { room } if &*room == "first"));
    drop(room);
    let second = client.join_room("second", "u").await.unwrap();
    assert_eq!((second.room_id(), second.user_id()), ("second", "u"));
    assert_eq!(second.members().len(), 1);
}

#[tokio::test]
async fn arguments_are_checked_before_anything_is_sent() {
    let url = server::start().await;
    let client = RealtimeClient::connect(&url).await.unwrap();
    let long = "x".repeat(201);
    for (room, user) in [("", "u"), ("r", ""), (long.as_str(), "u"), ("r", &long)] {
        let error = client.join_room(room, user).await.unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    }
    let error = client.join_room_with("r", "u", &[1]).await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    let room = client.join_room("r", "u").await.unwrap();
    let error = room.update_state("text").await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
}

#[tokio::test]
async fn many_calls_at_a_time_are_all_answered() {
    let url = server::start().await;
    let options = Options::new().queue_capacity(100);
    let client = RealtimeClient::connect_with(&url, options).await.unwrap();
    let room = client.join_room("r", "u").await.unwrap();
    let updates: Vec<_> = (0..100).map(|n| json!({"n": n})).collect();
    let calls = updates.iter().map(|update| room.update_state(update));
    let answers = futures_util::future::join_all(calls).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.as_ref().is_ok_and(|ok| ok.changed))
    );
    let further: Vec<_> = (0..150).map(|_| room.heartbeat()).collect();
    let answers = futures_util::future::join_all(further).await;
    let refused = answers
        .iter()
        .filter(|answer| matches!(answer, Err(Error::QueueFull { limit: 100 })));
    assert_eq!(refused.count(), 50);
}

#[tokio::test]
async fn without_tracking_a_client_knows_only_itself() {
    let url = server::start().await;
    let options = Options::new().track_members(false);
    let first = RealtimeClient::connect(&url).await.unwrap();
    let _first = first.join_room("r", "first").await.unwrap();
    let client = RealtimeClient::connect_with(&url, options).await.unwrap();
    let room = client.join_room("r", "u").await.unwrap();
    room.update_state(&json!({"n": 1})).await.unwrap();
    let mut events = room.events();
    let _other = first.join_room("r", "x").await;
    let second = RealtimeClient::connect(&url).await.unwrap();
    let _second = second.join_room("r", "second").await.unwrap();
    assert!(matches!(next(&mut events).await, Event::Join(_)));
    let members = room.members();
    assert_eq!(members.len(), 1);
    assert_eq!(&*members[0].user_id, "u");
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_how_many_events_it_lost() {
    let url = server::start().await;
    let options = Options::new().event_capacity(4);
    let client = RealtimeClient::connect_with(&url, options).await.unwrap();
    let room = client.join_room("r", "u").await.unwrap();
    let mut events = room.events();
    for n in 0..10 {
        room.update_state(&json!({"n": n})).await.unwrap();
    }
    // The answers may be read before the last events.
    while room
        .snapshot()
        .is_some_and(|snapshot| snapshot.seq < Some(11))
    {
        tokio::task::yield_now().await;
    }
    let first = next(&mut events).await;
    assert!(
        matches!(first, Event::Lagged(lost) if lost >= 6),
        "{first:?}"
    );
    let Event::Update(event) = next(&mut events).await else {
        panic!("an update")
    };
    assert_eq!(event.seq, Some(8));
}
