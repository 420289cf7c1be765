//! A small presence server in memory, for tests and examples: joins, heartbeats, leaves and events, over WebSocket only.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Map, Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// The rooms of a server.
#[derive(Default)]
struct Hub {
    rooms: Mutex<HashMap<String, Room>>,
    connections: AtomicU64,
    epochs: AtomicU64,
}

#[derive(Default)]
struct Room {
    seq: u64,
    members: BTreeMap<String, Member>,
}

struct Member {
    user: String,
    state: Map<String, Value>,
    epoch: u64,
    outgoing: UnboundedSender<Utf8Bytes>,
}

impl Room {
    /// Sends an event to all members, as one text that they share.
    fn publish(
        &mut self,
        kind: &str,
        room: &str,
        conn: &str,
        user: &str,
        epoch: u64,
        state: &Value,
    ) {
        self.seq += 1;
        let event = json!({"type": kind, "roomId": room, "userId": user, "connId": conn, "state": state,
            "ts": 1, "epoch": epoch, "seq": self.seq});
        let text = Utf8Bytes::from(format!("42{}", json!(["presence:event", event])));
        for member in self.members.values() {
            let _ = member.outgoing.send(text.clone());
        }
    }
}

/// Serves connections until the future is dropped, which closes them all.
pub(crate) async fn serve(listener: TcpListener) {
    let hub = Arc::new(Hub::default());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(connection(stream, Arc::clone(&hub)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Starts a server on a free port of this machine, and returns its URL. It runs as long as the runtime.
pub(crate) async fn start() -> String {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    tokio::spawn(serve(listener));
    format!("http://{address}")
}

async fn connection(stream: TcpStream, hub: Arc<Hub>) {
    let _ = stream.set_nodelay(true);
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
        return;
    };
    let conn = format!("conn{:06}", hub.connections.fetch_add(1, Ordering::Relaxed));
    let (outgoing, mut queue) = mpsc::unbounded_channel::<Utf8Bytes>();
    let open = json!({"sid": "e", "upgrades": [], "pingInterval": 25_000, "pingTimeout": 20_000, "maxPayload": 1_000_000});
    let _ = outgoing.send(format!("0{open}").into());
    let mut joined = None;
    loop {
        tokio::select! {
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) if text.starts_with("40") => {
                    let _ = outgoing.send(format!("40{}", json!({"sid": conn})).into());
                }
                Some(Ok(Message::Text(text))) if text.starts_with("42") => {
                    if let Some(answer) = request(&text, &conn, &mut joined, &hub, &outgoing) {
                        let _ = outgoing.send(answer.into());
                    }
                }
                Some(Ok(Message::Text(text))) if text == "41" => break,
                Some(Ok(_)) => {}
                _ => break,
            },
            Some(text) = queue.recv() => if socket.send(Message::Text(text)).await.is_err() {
                break;
            },
        }
    }
    leave(&conn, &mut joined, &hub);
}

/// Carries out a request and returns the acknowledgement.
fn request(
    text: &str,
    conn: &str,
    joined: &mut Option<String>,
    hub: &Hub,
    outgoing: &UnboundedSender<Utf8Bytes>,
) -> Option<String> {
    let begin = text.find('[')?;
    let arguments: Value = serde_json::from_str(&text[begin..]).ok()?;
    let body = &arguments[1];
    let answer = match arguments[0].as_str()? {
        "presence:join" => join(body, conn, joined, hub, outgoing),
        "presence:heartbeat" => heartbeat(body, conn, joined.as_deref(), hub),
        _ => {
            leave(conn, joined, hub);
            json!({"ok": true})
        }
    };
    Some(format!("43{}[{answer}]", &text[2..begin]))
}

fn join(
    body: &Value,
    conn: &str,
    joined: &mut Option<String>,
    hub: &Hub,
    outgoing: &UnboundedSender<Utf8Bytes>,
) -> Value {
    let (Some(id), Some(user)) = (body["roomId"].as_str(), body["userId"].as_str()) else {
        return json!({"ok": false, "error": "roomId and userId must be text", "code": "invalid_argument"});
    };
    let mut rooms = hub.rooms.lock().unwrap_or_else(PoisonError::into_inner);
    let room = rooms.entry(id.to_owned()).or_default();
    let epoch = 1_000 + hub.epochs.fetch_add(1, Ordering::Relaxed);
    let member = Member {
        user: user.to_owned(),
        state: body["state"].as_object().cloned().unwrap_or_default(),
        epoch,
        outgoing: outgoing.clone(),
    };
    let state = Value::from(member.state.clone());
    room.members.insert(conn.to_owned(), member);
    room.publish("join", id, conn, user, epoch, &state);
    *joined = Some(id.to_owned());
    let snapshot: Vec<Value> = room
        .members
        .iter()
        .map(|(conn, member)| {
            json!({"connId": conn, "userId": member.user, "state": member.state, "lastSeenMs": 1, "epoch": member.epoch})
        })
        .collect();
    json!({"ok": true, "snapshot": snapshot, "self": {"connId": conn, "epoch": epoch}, "seq": room.seq})
}

fn heartbeat(body: &Value, conn: &str, joined: Option<&str>, hub: &Hub) -> Value {
    let mut rooms = hub.rooms.lock().unwrap_or_else(PoisonError::into_inner);
    let room = joined.and_then(|id| rooms.get_mut(id));
    let Some((room, id)) = room.zip(joined) else {
        return json!({"ok": false, "error": "the connection is in no room", "code": "not_joined"});
    };
    let member = room
        .members
        .get_mut(conn)
        .expect("a joined connection is a member");
    let before = member.state.clone();
    let patch = body["patchState"].as_object().cloned();
    member.state.extend(patch.unwrap_or_default());
    let (changed, epoch, user) = (member.state != before, member.epoch, member.user.clone());
    let state = Value::from(member.state.clone());
    if changed {
        room.publish("update", id, conn, &user, epoch, &state);
    }
    json!({"ok": true, "changed": changed, "epoch": epoch})
}

fn leave(conn: &str, joined: &mut Option<String>, hub: &Hub) {
    let Some(id) = joined.take() else { return };
    let mut rooms = hub.rooms.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(room) = rooms.get_mut(&id) else {
        return;
    };
    if let Some(member) = room.members.remove(conn) {
        room.publish("leave", &id, conn, &member.user, member.epoch, &Value::Null);
    }
    if room.members.is_empty() {
        rooms.remove(&id);
    }
}
