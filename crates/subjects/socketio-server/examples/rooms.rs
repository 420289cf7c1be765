//! Rooms in which clients talk: `join` enters one, and `say` sends a text to everyone in it.
//!
//! `cargo run -p socketio-server --example rooms`, and then in JavaScript:
//!
//! ```text
//! socket.on("message", (text) => console.log(text));
//! socket.emit("join", "lobby", (count) => socket.emit("say", "lobby", `one of ${count}`));
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use socketio_server::{App, DisconnectReason, Event, Frame, Server, ServerConfig, Socket};

type Members = HashMap<String, Vec<Arc<Socket>>>;

/// The clients in each room.
#[derive(Debug, Default)]
pub(crate) struct Rooms(Mutex<Members>);

impl Rooms {
    fn lock(&self) -> MutexGuard<'_, Members> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, socket: &Arc<Socket>, room: String) -> usize {
        let mut rooms = self.lock();
        let members = rooms.entry(room).or_default();
        members.push(Arc::clone(socket));
        members.len()
    }

    fn say(&self, room: &str, text: &RawValue) {
        // Encoded once, however many there are.
        let frame = Frame::with_event("/", |out| {
            out.extend_from_slice(br#""message","#);
            out.extend_from_slice(text.get().as_bytes());
        });
        for member in self.lock().get(room).into_iter().flatten() {
            member.send(&frame);
        }
    }
}

impl App for Rooms {
    fn event(&self, socket: &Arc<Socket>, event: Event<'_>) {
        let arguments = format!("[{}]", event.arguments);
        match event.name {
            "join" => {
                if let Ok([room]) = serde_json::from_str::<[String; 1]>(&arguments) {
                    let count = self.join(socket, room);
                    if let Some(id) = event.ack {
                        socket.ack(id, &count);
                    }
                }
            }
            "say" => {
                if let Ok((room, text)) = serde_json::from_str::<(String, &RawValue)>(&arguments) {
                    self.say(&room, text);
                }
            }
            _ => {}
        }
    }

    fn disconnect(&self, socket: &Arc<Socket>, _reason: DisconnectReason) {
        self.lock().retain(|_, members| {
            members.retain(|member| !Arc::ptr_eq(member, socket));
            !members.is_empty()
        });
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let address = ([127, 0, 0, 1], 3000).into();
    let server = Server::bind(ServerConfig::default(), Arc::new(Rooms::default()), address)?;
    let interrupted = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    server.run(interrupted).await
}
