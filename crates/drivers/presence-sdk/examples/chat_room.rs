//! Joins a room as a user and prints what happens in it, until Ctrl-C.
//!
//! `cargo run -p presence-sdk --example chat_room http://127.0.0.1:3000 lobby ada`

#![expect(clippy::print_stdout, reason = "a program prints what happens")]

use presence_sdk::{Error, Event, RealtimeClient};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let url = argument("http://127.0.0.1:3000");
    let (room, user) = (argument("lobby"), argument("ada"));

    let client = RealtimeClient::connect(&url).await?;
    let mut events = client.events();
    let room = client.join_room(&room, &user).await?;
    room.update_state(&json!({"status": "online"})).await?;
    for member in room.members() {
        println!("{} is here: {}", member.user_id, member.state.as_json());
    }
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(event) => print(&event),
                None => return Ok(()),
            },
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    room.leave().await?;
    client.close().await;
    Ok(())
}

fn print(event: &Event) {
    match event {
        Event::Join(event) => println!("{} joined", event.member.user_id),
        Event::Update(event) => {
            println!(
                "{} is now {}",
                event.member.user_id,
                event.member.state.as_json()
            );
        }
        Event::Leave(event, reason) => println!("{} left: {reason:?}", event.member.user_id),
        other => println!("{other:?}"),
    }
}
