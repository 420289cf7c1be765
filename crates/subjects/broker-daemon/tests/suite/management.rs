//! The read-only part of RabbitMQ's management API, and the metrics of each queue.

use std::io::{Read, Write};
use std::net::TcpStream;

use lapin::Channel;
use lapin::options::{BasicAckOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use serde_json::{Value, json};
use test_kit::assert_contains;

use crate::support::{Broker, declare, get, publish, run, select_confirms, start};

/// Basic credentials `guest:guest` and `app:secret`.
const GUEST: &str = "Basic Z3Vlc3Q6Z3Vlc3Q=";
const APP: &str = "Basic YXBwOnNlY3JldA==";
/// A name that needs escaping in a path and in a label.
const QUEUE: &str = "a/b \"c\"\\";
const ENCODED: &str = "a%2Fb%20%22c%22%5C";

/// Sends a request. Returns the head of the answer and its content.
fn ask(broker: &Broker, method: &str, path: &str, authorization: &str) -> (String, String) {
    let mut client = TcpStream::connect(&broker.metrics).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {authorization}\r\n\r\n"
    );
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

fn status(broker: &Broker, method: &str, path: &str, authorization: &str) -> String {
    let (head, _) = ask(broker, method, path, authorization);
    head.split(' ').nth(1).unwrap().to_owned()
}

fn answer(broker: &Broker, path: &str) -> Value {
    let (head, body) = ask(broker, "GET", path, GUEST);
    assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// Returns the entry with this name.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {list}"))
}

/// Declares the queue, with three messages, one of them acknowledged, and another queue.
async fn fill(channel: &Channel) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(7));
    let declare = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(QUEUE.into(), declare, arguments)
        .await
        .unwrap();
    let mine = QueueDeclareOptions {
        exclusive: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare("mine".into(), mine, FieldTable::default())
        .await
        .unwrap();
    select_confirms(channel).await;
    for _ in 0..3 {
        publish(channel, QUEUE, 1, b"x").await;
    }
    for is_acked in [true, false] {
        let got = get(channel, QUEUE).await.unwrap();
        if is_acked {
            got.ack(BasicAckOptions::default()).await.unwrap();
            // Answered after the acknowledgement.
            channel
                .queue_declare("mine".into(), mine, FieldTable::default())
                .await
                .unwrap();
        }
    }
}

#[test]
fn tools_read_what_there_is_under_the_names_that_rabbitmq_gives_it() {
    let broker = start(|config| config.vhosts.push("other".to_owned()));
    run(async {
        let connection = broker.connect().await;
        let channel = connection.create_channel().await.unwrap();
        fill(&channel).await;
        for path in [
            format!("/api/queues/%2F/{ENCODED}"),
            "/api/queues".to_owned(),
            "/api/queues/%2f".to_owned(),
        ] {
            let found = answer(&broker, &path);
            let queue = if found.is_array() {
                named(&found, QUEUE)
            } else {
                &found
            };
            for (key, value) in [
                ("vhost", json!("/")),
                ("durable", json!(true)),
                ("auto_delete", json!(false)),
                ("exclusive", json!(false)),
                ("arguments", json!({"x-max-length": 7})),
                ("messages", json!(2)),
                ("messages_ready", json!(1)),
                ("messages_unacknowledged", json!(1)),
                ("consumers", json!(0)),
                ("state", json!("running")),
                ("type", json!("classic")),
            ] {
                assert_eq!(queue[key], value, "{key} of {path}");
            }
            let stats = json!({"publish": 3, "deliver_get": 2, "deliver": 0, "get": 2, "ack": 1});
            assert_eq!(queue["message_stats"], stats);
        }
        assert_eq!(answer(&broker, "/api/queues/other"), json!([]));
        assert_eq!(
            named(&answer(&broker, "/api/queues"), "mine")["exclusive"],
            true
        );
        let overview = answer(&broker, "/api/overview");
        assert_eq!(overview["object_totals"]["queues"], 2);
        assert_eq!(overview["queue_totals"]["messages"], 2);
        let stats = json!({
            "publish": 3, "confirm": 3, "deliver_get": 2, "redeliver": 0, "ack": 1, "return_unroutable": 0
        });
        assert_eq!(overview["message_stats"], stats);
    });
}

#[test]
fn the_api_asks_for_a_login_and_changes_nothing() {
    let broker = start(|config| config.users.push(("app".to_owned(), "secret".to_owned())));
    for (method, path, authorization, expected) in [
        ("GET", "/api/overview", GUEST, "200"),
        ("HEAD", "/api/overview", APP, "200"),
        ("GET", "/api/overview", "none", "401"),
        ("GET", "/api/overview", "Basic Z3Vlc3Q6eA==", "401"),
        ("GET", "/api/nothing", "none", "401"),
        ("GET", "/api/nothing", GUEST, "404"),
        ("GET", "/api/queues/nowhere", GUEST, "404"),
        ("GET", "/api/queues/%2F/none", GUEST, "404"),
        ("GET", "/api/exchanges", GUEST, "404"),
        ("GET", "/api/queues/%zz", GUEST, "400"),
        ("PUT", "/api/queues/%2F/q", GUEST, "405"),
        ("DELETE", "/api/queues/%2F/q", "none", "405"),
        ("GET", "/metrics", "none", "200"),
        ("GET", "/healthz", "none", "200"),
    ] {
        assert_eq!(
            status(&broker, method, path, authorization),
            expected,
            "{method} {path}"
        );
    }
    let (head, _) = ask(&broker, "GET", "/api/overview", "none");
    assert!(head.contains("www-authenticate: basic"), "{head}");
    let (head, _) = ask(&broker, "POST", "/api/overview", GUEST);
    assert!(head.contains("allow: get, head"), "{head}");
    // A request without a user is no refused login.
    assert_eq!(broker.metric("broker_logins_refused_total"), 1);
}

#[test]
fn health_checks_answer_200_or_503_with_the_reason() {
    let broker = start(|config| config.memory_limit = 1000);
    let port = broker.address.rsplit_once(':').unwrap().1;
    let check = |check: &str| {
        let (head, body) = ask(
            &broker,
            "GET",
            &format!("/api/health/checks/{check}"),
            GUEST,
        );
        (head.split(' ').nth(1).unwrap().to_owned(), body)
    };
    for (path, expected) in [
        ("alarms", "200"),
        ("local-alarms", "200"),
        (&*format!("port-listener/{port}"), "200"),
        ("port-listener/1", "503"),
        ("port-listener/x", "400"),
        ("protocol-listener/amqp", "200"),
        ("protocol-listener/amqp0-9-1", "200"),
        ("protocol-listener/mqtt", "503"),
        ("virtual-hosts", "200"),
        ("node-is-quorum-critical", "200"),
        ("certificate-expiration/2/weeks", "200"),
        ("certificate-expiration/2/moons", "400"),
        ("none", "404"),
    ] {
        assert_eq!(check(path).0, expected, "{path}");
    }
    run(async {
        let connection = broker.connect().await;
        let channel = connection.create_channel().await.unwrap();
        declare(&channel, "q", false).await;
        select_confirms(&channel).await;
        publish(&channel, "q", 1, &[0; 2000]).await;
        let (status, body) = check("alarms");
        assert_eq!(status, "503");
        let found: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(found["status"], "failed");
        assert_eq!(found["alarms"][0]["resource"], "memory");
    });
}

#[test]
fn each_queue_has_metrics_on_a_page_of_their_own() {
    let broker = start(|_| ());
    run(async {
        let connection = broker.connect().await;
        let channel = connection.create_channel().await.unwrap();
        fill(&channel).await;
        let (_, page) = ask(&broker, "GET", "/metrics/per-object", "none");
        for (name, value) in [
            ("messages_ready", 1),
            ("messages_unacked", 1),
            ("consumers", 0),
            ("messages_published_total", 3),
            ("messages_delivered_total", 2),
            ("messages_acked_total", 1),
        ] {
            let line =
                format!("broker_queue_{name}{{vhost=\"/\",queue=\"a/b \\\"c\\\"\\\\\"}} {value}\n");
            assert!(page.contains(&line), "{line} is not in\n{page}");
            assert!(page.contains(&format!(
                "broker_queue_{name}{{vhost=\"/\",queue=\"mine\"}}"
            )));
        }
        assert_contains(&page, &["\nbroker_queues 2\n"]);
        let (_, page) = ask(&broker, "GET", "/metrics", "none");
        assert!(
            !page.contains("broker_queue_"),
            "many queues would swamp this page"
        );
    });
}
