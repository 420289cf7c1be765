//! The client against a peer that stalls, breaks off, and answers wrongly.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use issue_rpc::{Call, Client, ClientError, Code};
use serde_json::{Value, json};

/// A peer that accepts one connection for each list of reactions, and reacts to each request with the next one.
struct Peer {
    socket: PathBuf,
    _folder: tempfile::TempDir,
    thread: JoinHandle<Vec<Value>>,
}

#[derive(Clone)]
enum Reaction {
    /// Answers with these members, and the id of the request.
    Answer(Value),
    /// Answers with exactly this line.
    Line(&'static str),
    /// Does not answer.
    Silence,
}

impl Peer {
    fn new(connections: Vec<Vec<Reaction>>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let thread = thread::spawn(move || {
            let mut requests = Vec::new();
            let mut open = Vec::new();
            for reactions in connections {
                let (stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let is_silent = reactions
                    .iter()
                    .any(|reaction| matches!(reaction, Reaction::Silence));
                for reaction in reactions {
                    let mut line = String::new();
                    lines.read_line(&mut line).unwrap();
                    let request: Value = serde_json::from_str(&line).unwrap();
                    react(&stream, &request, reaction);
                    requests.push(request);
                }
                // A stalled connection stays open; any other one ends.
                if is_silent {
                    open.push(stream);
                }
            }
            requests
        });
        Self {
            socket,
            _folder: folder,
            thread,
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.socket, "tester").unwrap()
    }

    fn requests(self) -> Vec<Value> {
        self.thread.join().unwrap()
    }
}

fn react(mut stream: &UnixStream, request: &Value, reaction: Reaction) {
    match reaction {
        Reaction::Answer(mut answer) => {
            answer["request_id"] = request["request_id"].clone();
            writeln!(stream, "{answer}").unwrap();
        }
        Reaction::Line(line) => writeln!(stream, "{line}").unwrap(),
        Reaction::Silence => {}
    }
}

fn done(data: &str) -> Reaction {
    Reaction::Answer(json!({"success": true, "data": data}))
}

fn create() -> Call {
    Call::new("create", json!({"title": "a"}))
}

#[test]
fn a_request_has_its_deadline_actor_and_version() {
    let peer = Peer::new(vec![vec![done("one"), done("two")]]);
    let mut client = peer.client();
    assert_eq!(client.call(&create()).unwrap().get(), "\"one\"");
    let mut client = client.with_timeout(None);
    assert_eq!(client.call(&create()).unwrap().get(), "\"two\"");
    drop(client);
    let requests = peer.requests();
    assert_eq!(requests[0]["actor"], "tester");
    assert_eq!(requests[0]["client_version"], issue_rpc::VERSION);
    assert!(requests[0]["deadline_ms"].as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(
        requests[1]["deadline_ms"],
        Value::Null,
        "no timeout is no deadline"
    );
    assert_ne!(requests[0]["request_id"], requests[1]["request_id"]);
}

#[test]
fn after_a_timeout_the_next_answer_is_that_of_the_next_request() {
    let peer = Peer::new(vec![vec![Reaction::Silence], vec![done("new")]]);
    let mut client = peer.client().with_timeout(Some(Duration::from_millis(50)));
    let error = client.call(&create()).unwrap_err();
    assert!(
        matches!(error, ClientError::Unanswered { is_sent: true, .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("no answer to create within 50ms"), "{text}");
    assert!(text.contains("may have been done"), "{text}");
    let mut client = client.with_timeout(None);
    assert_eq!(client.call(&create()).unwrap().get(), "\"new\"");
}

#[test]
fn a_write_is_repeated_only_with_its_key() {
    let broken = vec![Reaction::Line("")];
    let peer = Peer::new(vec![broken.clone()]);
    let error = peer.client().call(&create()).unwrap_err();
    assert!(matches!(error, ClientError::Protocol(_)), "{error}");

    // The peer ends each connection after its last reaction.
    let peer = Peer::new(vec![vec![done("one")], vec![done("two")]]);
    let mut client = peer.client();
    client.call(&create()).unwrap();
    assert_eq!(
        client.call(&create().with_key("k")).unwrap().get(),
        "\"two\""
    );
    drop(client);
    assert_eq!(peer.requests()[1]["idempotency_key"], "k");
}

#[test]
fn a_refusal_has_its_code_and_an_answer_of_another_request_is_none() {
    let refusal = json!({"success": false, "code": "not_found", "error": "no issue"});
    let peer = Peer::new(vec![
        vec![
            Reaction::Answer(refusal),
            Reaction::Line(r#"{"success":true,"request_id":77,"data":1}"#),
        ],
        vec![Reaction::Line(
            r#"{"success":false,"code":"busy","error":"10000 connections are open"}"#,
        )],
    ]);
    let mut client = peer.client();
    let show = Call::new("show", json!({"id": "a"}));
    let error = client.call(&show).unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Refused {
                code: Code::NotFound,
                ..
            }
        ),
        "{error}"
    );
    let error = client.call(&show).unwrap_err();
    assert!(error.to_string().contains("another request"), "{error}");
    let error = client.call(&show).unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Refused {
                code: Code::Busy,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_missing_daemon_is_named_with_its_socket() {
    let folder = tempfile::tempdir().unwrap();
    let error = Client::connect(&folder.path().join("none"), "a").unwrap_err();
    assert!(matches!(&error, ClientError::NoDaemon { .. }));
    assert!(error.to_string().contains("/none"), "{error}");
}
