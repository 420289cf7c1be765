//! A server that follows a script of the test, one for each connection.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use presence_sdk::{Event, Events, Options, RealtimeClient, Reconnect, RoomHandle};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// A wait for something that must happen ends after this time, on a busy machine too.
pub(crate) const GENEROUS: Duration = Duration::from_secs(20);

/// A connection of the client, seen from the server.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) socket: WebSocketStream<TcpStream>,
    /// The connection id that it gives out.
    pub(crate) conn: String,
}

/// A request of the client.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) body: Value,
}

/// Starts a server that runs `script` for each connection, with the number of the connection from 0. When the script
/// ends, the connection is dropped. Returns the URL.
pub(crate) async fn start<F, R>(script: F) -> String
where
    F: Fn(Peer, usize) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port is free");
    let address: SocketAddr = listener.local_addr().expect("the listener has an address");
    tokio::spawn(async move {
        let mut scripts = JoinSet::new();
        for index in 0.. {
            let (stream, _) = listener.accept().await.expect("the listener accepts");
            let Ok(socket) = tokio_tungstenite::accept_async(stream).await else {
                continue;
            };
            let conn = format!("c{index}");
            scripts.spawn(script(Peer { socket, conn }, index));
        }
    });
    format!("ws://{address}")
}

impl Peer {
    pub(crate) async fn send(&mut self, text: impl Into<String>) {
        // The client may have ended the connection.
        let _ = self.socket.send(Message::text(text.into())).await;
    }

    /// Performs both handshakes with the given ping times in milliseconds.
    pub(crate) async fn open_with(&mut self, ping_interval: u64, ping_timeout: u64) {
        let open = json!({"sid": "e", "upgrades": [], "pingInterval": ping_interval, "pingTimeout": ping_timeout,
            "maxPayload": 1_000_000});
        self.send(format!("0{open}")).await;
        let connect = self.text().await.expect("the client connects");
        assert!(connect.starts_with("40"), "{connect}");
        self.send(format!("40{}", json!({"sid": self.conn}))).await;
    }

    /// Performs the handshake of Engine.IO and refuses Socket.IO's.
    pub(crate) async fn open_refusing(&mut self, message: &str) {
        self.send(r#"0{"sid":"e","pingInterval":25000,"pingTimeout":20000}"#)
            .await;
        self.text().await;
        self.send(format!("44{}", json!({"message": message})))
            .await;
        self.text().await;
    }

    pub(crate) async fn open(&mut self) {
        self.open_with(25_000, 20_000).await;
    }

    /// Returns the next text of the client, or `None` at the end of the connection.
    pub(crate) async fn text(&mut self) -> Option<String> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Some(text.as_str().to_owned()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Returns the next request, or `None` at the end of the connection. Pongs are left out.
    pub(crate) async fn request(&mut self) -> Option<Request> {
        loop {
            let text = self.text().await?;
            if let Some(event) = text.strip_prefix("42") {
                let begin = event.find('[').expect("an event has arguments");
                let arguments: Value = serde_json::from_str(&event[begin..]).expect("JSON");
                return Some(Request {
                    id: event[..begin].parse().expect("each request has an id"),
                    name: arguments[0].as_str().expect("a name").to_owned(),
                    body: arguments[1].clone(),
                });
            }
            if text == "41" {
                return None;
            }
        }
    }

    /// Returns the next request, which must have the name.
    pub(crate) async fn expect(&mut self, name: &str) -> Request {
        let request = self.request().await.expect("the connection is open");
        assert_eq!(request.name, name, "{request:?}");
        request
    }

    pub(crate) async fn answer(&mut self, id: u64, answer: Value) {
        self.send(format!("43{id}[{answer}]")).await;
    }

    /// Answers a join with a snapshot of this member alone.
    pub(crate) async fn joined(&mut self, request: &Request, epoch: u64, seq: u64) {
        let state = request
            .body
            .get("state")
            .cloned()
            .unwrap_or_else(|| json!({}));
        let member = json!({"connId": self.conn, "userId": request.body["userId"], "state": state,
            "lastSeenMs": 5, "epoch": epoch});
        let answer = json!({"ok": true, "snapshot": [member], "self": {"connId": self.conn, "epoch": epoch},
            "seq": seq});
        self.answer(request.id, answer).await;
    }

    /// Opens, and answers the join.
    pub(crate) async fn open_and_join(&mut self, epoch: u64, seq: u64) -> Request {
        self.open().await;
        let join = self.expect("presence:join").await;
        self.joined(&join, epoch, seq).await;
        join
    }

    pub(crate) async fn refuse(&mut self, id: u64, code: &str) {
        self.answer(id, json!({"ok": false, "error": "refused", "code": code}))
            .await;
    }

    /// Sends an event of another member of room `r`.
    pub(crate) async fn event(&mut self, kind: &str, conn: &str, seq: u64, state: Value) {
        let event = json!({"type": kind, "roomId": "r", "userId": "other", "connId": conn, "state": state,
            "ts": 7, "epoch": 1, "seq": seq});
        self.send(format!("42{}", json!(["presence:event", event])))
            .await;
    }

    /// Answers all requests until the connection ends: joins with the epoch and 0, the others with ok.
    pub(crate) async fn serve(mut self, epoch: u64) {
        while let Some(request) = self.request().await {
            match request.name.as_str() {
                "presence:join" => self.joined(&request, epoch, 0).await,
                _ => {
                    let answer = json!({"ok": true, "changed": true, "epoch": epoch});
                    self.answer(request.id, answer).await;
                }
            }
        }
    }
}

/// Waits for something that must happen.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(GENEROUS, future)
        .await
        .expect("it must happen soon")
}

/// Polls a call once, so that it is passed on. Returns true if it waits for its answer.
pub(crate) async fn is_waiting<T>(call: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_pending())).await
}

/// Options that reconnect at once, without automatic heartbeats.
pub(crate) fn quick() -> Options {
    let reconnect = Reconnect::new(Duration::from_millis(1), Duration::from_millis(20));
    Options::new().without_heartbeats().reconnect(reconnect)
}

/// Connects, and joins room `r` as user `u`.
pub(crate) async fn join(url: &str, options: Options) -> (RealtimeClient, RoomHandle, Events) {
    let client = soon(RealtimeClient::connect_with(url, options)).await;
    let client = client.expect("the server accepts");
    let events = client.events();
    let room = soon(client.join_room("r", "u")).await;
    (client, room.expect("the server accepts"), events)
}

/// Waits for the next event.
pub(crate) async fn next(events: &mut Events) -> Event {
    soon(events.next()).await.expect("the client is open")
}
