//! A server in a thread, and clients that say what they get.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socketio_server::{App, Counts, EchoApp, Server, ServerConfig};
use test_kit::wait_until;
use tokio::sync::oneshot;
use tungstenite::{Message, WebSocket, client};

/// Time after which a test fails that waits.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const WEBSOCKET: &str = "/socket.io/?EIO=4&transport=websocket";
pub(crate) const POLLING: &str = "/socket.io/?EIO=4&transport=polling";

/// A server that stops when this is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    pub(crate) fn start(config: ServerConfig) -> Self {
        Self::start_app(config, Arc::new(EchoApp))
    }

    pub(crate) fn start_app(config: ServerConfig, app: Arc<dyn App>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(config, app, any).expect("a port is free");
        let (stop, stopped) = oneshot::channel();
        let address = server.address();
        let counts = server.counts();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let run = server.run(async {
                let _ = stopped.await;
            });
            runtime.block_on(run).expect("the server serves");
        });
        Self {
            address,
            counts,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Asks the server to stop.
    pub(crate) fn ask_to_stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has stopped.
    pub(crate) fn wait(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server did not panic");
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::open(self.address, WEBSOCKET)
    }

    /// Connects to the main namespace.
    pub(crate) fn join(&self) -> Client {
        let mut client = self.connect();
        client.text();
        client.send("40");
        assert!(client.text().starts_with("40{\"sid\":\""));
        assert_eq!(client.text(), r#"42["auth",{}]"#);
        client
    }

    /// Waits until this many requests of long-polling wait for packets.
    #[track_caller]
    pub(crate) fn wait_for_polls(&self, count: u64) {
        wait_until("requests of long-polling wait", || {
            self.counts.waiting_polls() == count
        });
    }

    /// Opens a session of long-polling.
    pub(crate) fn poll(&self) -> Polled<'_> {
        let (status, body) = self.get(POLLING);
        assert_eq!(status, 200, "{body}");
        let open: serde_json::Value = serde_json::from_str(&body[1..]).expect("JSON");
        let id = open["sid"].as_str().expect("a string").to_owned();
        Polled { server: self, id }
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        http(self.address, "GET", path, b"")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

/// A session of long-polling.
pub(crate) struct Polled<'a> {
    pub(crate) server: &'a TestServer,
    pub(crate) id: String,
}

impl Polled<'_> {
    pub(crate) fn path(&self) -> String {
        format!("{POLLING}&sid={}", self.id)
    }

    pub(crate) fn get(&self) -> (u16, String) {
        self.server.get(&self.path())
    }

    pub(crate) fn post(&self, body: &str) -> (u16, String) {
        http(self.server.address, "POST", &self.path(), body.as_bytes())
    }

    /// Posts packets that the server takes.
    pub(crate) fn send(&self, body: &str) {
        assert_eq!(self.post(body), (200, "ok".to_owned()));
    }

    /// Connects to the main namespace.
    pub(crate) fn join(&self) {
        self.send("40");
        let (_, mut body) = self.get();
        // The event comes apart from the answer.
        if !body.contains("auth") {
            body.push_str(&self.get().1);
        }
        assert!(body.ends_with("42[\"auth\",{}]"), "{body}");
    }
}

/// A WebSocket of an independent implementation.
pub(crate) struct Client(pub(crate) WebSocket<TcpStream>);

impl Client {
    pub(crate) fn open(address: SocketAddr, path: &str) -> Self {
        let url = format!("ws://{address}{path}");
        let (socket, _) = client(&url, stream(address)).expect("a handshake");
        Self(socket)
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0.send(Message::text(text)).expect("it is open");
    }

    pub(crate) fn send_binary(&mut self, bytes: &[u8]) {
        let message = Message::binary(bytes.to_vec());
        self.0.send(message).expect("it is open");
    }

    pub(crate) fn read(&mut self) -> Message {
        self.0.read().expect("a message")
    }

    pub(crate) fn text(&mut self) -> String {
        let message = self.read();
        let text = message.to_text().expect("text").to_owned();
        assert!(message.is_text(), "{message:?}");
        text
    }

    /// Reads until the server has closed, and returns its code.
    pub(crate) fn close_code(&mut self) -> Option<u16> {
        let mut code = None;
        loop {
            match self.0.read() {
                Ok(Message::Close(frame)) => code = frame.map(|frame| frame.code.into()),
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if is_timeout(&error) => {
                    panic!("the server did not close")
                }
                Err(_) => return code,
            }
        }
    }

    /// Sends an event, and checks that it comes back.
    pub(crate) fn echo(&mut self, argument: &str) {
        self.send(&format!(r#"42["message",{argument}]"#));
        let expected = format!(r#"42["message-back",{argument}]"#);
        assert_eq!(self.text(), expected);
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

/// Connects a socket whose reads fail when they take too long.
pub(crate) fn stream(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    let timeout = stream.set_read_timeout(Some(TIMEOUT));
    timeout.expect("the timeout is not 0");
    stream
}

/// Opens a WebSocket, of which the test reads and writes the bytes.
pub(crate) fn raw_websocket(address: SocketAddr, path: &str) -> TcpStream {
    let (stream, head) = websocket_handshake(address, path, "");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream
}

/// Sends the request of a WebSocket with further headers, and reads the head of the response.
pub(crate) fn websocket_handshake(
    address: SocketAddr,
    path: &str,
    headers: &str,
) -> (TcpStream, String) {
    let mut stream = stream(address);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    );
    let sent = stream.write_all(request.as_bytes());
    sent.expect("the request is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    (stream, String::from_utf8(head).expect("text"))
}

/// Encodes a frame as a client does, with a mask that changes nothing.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    if payload.len() < 126 {
        frame.push(0x80 | payload.len() as u8);
    } else {
        frame.push(0xff);
        frame.extend((payload.len() as u64).to_be_bytes());
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

/// Sends a request, and returns the status and the body of the response.
pub(crate) fn http(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> (u16, String) {
    let (head, body) = http_with(address, method, path, "", body);
    let status = head.split(' ').nth(1).expect("a status");
    (status.parse().expect("a number"), body)
}

/// Sends a request with further headers, and returns the head and the body of the response.
pub(crate) fn http_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> (String, String) {
    let mut stream = stream(address);
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    let request = [head.as_bytes(), body].concat();
    stream.write_all(&request).expect("the request is sent");
    let mut response = Vec::new();
    let read = stream.read_to_end(&mut response);
    read.expect("a response");
    let response = String::from_utf8(response).expect("text");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// Returns the settings of the tests: two workers, and times that no test waits for.
pub(crate) fn config() -> ServerConfig {
    ServerConfig {
        workers: NonZeroUsize::new(2).expect("it is not 0"),
        serves_engine_echo: true,
        shutdown_grace: Duration::from_secs(5),
        ..ServerConfig::default()
    }
}
