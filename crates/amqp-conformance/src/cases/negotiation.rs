//! Protocol header, `connection.start`, login and `connection.open`: sections 2.2.4 and 4.2.2, class connection.

use amq_protocol::protocol::{basic, connection};
use amq_protocol::types::AMQPValue;
use anyhow::ensure;

use crate::case::{Case, case};
use crate::client::expect_eq;
use crate::connection::{Connection, PROTOCOL_HEADER};
use crate::wire::{BODY, Frame, HEARTBEAT, Wire};

/// First bytes that no AMQP 0-9-1 broker accepts.
const OTHER_HEADERS: [(&str, &[u8; 8]); 6] = [
    ("AMQP 0-9-2", b"AMQP\0\0\x09\x02"),
    ("AMQP 0-10", b"AMQP\x01\x01\0\x0a"),
    ("AMQP 7-7", b"AMQP\0\x07\x07\x07"),
    ("lower case", b"amqp\0\0\x09\x01"),
    ("HTTP", b"GET / HT"),
    ("TLS", b"\x16\x03\x01\x02\0\x01\0\x01"),
];
/// Capabilities that other cases rely on.
const CAPABILITIES: [&str; 7] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "per_consumer_qos",
    "authentication_failure_close",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("protocol header: sent byte by byte", |scope| {
            let wire = Wire::connect(&scope.address())?;
            for byte in PROTOCOL_HEADER {
                wire.write(&[*byte])?;
            }
            expect_eq("the channel of connection.start", wire.frame()?.channel, 0)
        }),
        case(
            "connection.start: version, mechanism PLAIN, locale en_US",
            |scope| {
                let connection = Connection::greet(scope)?;
                let start = &connection.start;
                expect_eq(
                    "version",
                    (start.version_major, start.version_minor),
                    (0, 9),
                )?;
                let words = |text: &[u8]| -> Vec<String> {
                    let text = String::from_utf8_lossy(text);
                    text.split(' ').map(str::to_owned).collect()
                };
                let mechanisms = words(start.mechanisms.as_bytes());
                ensure!(
                    mechanisms.contains(&"PLAIN".to_owned()),
                    "its mechanisms are {mechanisms:?}"
                );
                expect_eq(
                    "locales",
                    words(start.locales.as_bytes()),
                    vec!["en_US".to_owned()],
                )
            },
        ),
        case(
            "connection.start: product and version are long strings",
            |scope| {
                let connection = Connection::greet(scope)?;
                for key in ["product", "version"] {
                    let value = connection.start.server_properties.inner().get(key);
                    let is_text = matches!(value, Some(AMQPValue::LongString(text)) if !text.as_bytes().is_empty());
                    ensure!(is_text, "{key} is {value:?}");
                }
                Ok(())
            },
        ),
        case("connection.open: the default vhost", |scope| {
            Connection::open(scope)?.close()
        }),
        case("connection.open: an unknown vhost is 530", |scope| {
            let connection = Connection::log_in(scope)?;
            connection.send(0, connection.tune_ok())?;
            connection.breaks_on(0, 530, connection.open_vhost("conformance-nowhere"))
        }),
        case("connection.open: a second one is 504", |scope| {
            let connection = Connection::open(scope)?;
            connection.breaks_on(0, 504, connection.open_vhost("/"))
        }),
        case("connection.start-ok: a second one is 504", |scope| {
            let connection = Connection::open(scope)?;
            connection.breaks_on(0, 504, connection.plain("guest", "guest"))
        }),
        case("connection.tune-ok: a second one is 504", |scope| {
            let connection = Connection::open(scope)?;
            connection.breaks_on(0, 504, connection.tune_ok())
        }),
        case(
            "connection.open: before tune-ok ends the connection",
            |scope| {
                let connection = Connection::log_in(scope)?;
                connection.send(0, connection.open_vhost("/"))?;
                connection.is_given_up()
            },
        ),
        case(
            "connection.start: another method in place of start-ok ends the connection",
            |scope| {
                let connection = Connection::greet(scope)?;
                connection.send(1, basic::Qos::default())?;
                connection.is_given_up()
            },
        ),
        case(
            "connection.start: a body in place of start-ok ends the connection",
            |scope| {
                let connection = Connection::greet(scope)?;
                let body = Frame::new(BODY, 1, b"x");
                connection.wire.write(&body.bytes())?;
                connection.is_given_up()
            },
        ),
        case(
            "connection.close: a client that leaves during the handshake",
            |scope| {
                Connection::greet(scope)?.wire.hang_up();
                Connection::log_in(scope)?.wire.hang_up();
                Connection::open(scope)?.close()
            },
        ),
        case(
            "connection.close: frames after it are not answered",
            |scope| {
                let connection = scope.connect()?;
                connection.send(0, connection::Close::default())?;
                let heartbeat = Frame::new(HEARTBEAT, 0, b"");
                connection.wire.write(&heartbeat.bytes())?;
                connection.receive::<connection::CloseOk>().map(drop)
            },
        ),
    ];
    cases.extend(OTHER_HEADERS.map(|(name, header)| {
        case(
            format!("protocol header: {name} is answered with the right one"),
            move |scope| {
                let wire = Wire::connect(&scope.address())?;
                wire.write(header)?;
                expect_eq("the answer", wire.bytes::<8>()?.as_slice(), PROTOCOL_HEADER)?;
                wire.ends()
            },
        )
    }));
    cases.extend(CAPABILITIES.map(|name| {
        case(
            format!("connection.start: capability {name}"),
            move |scope| {
                let capabilities = Connection::greet(scope)?.capabilities()?;
                let value = capabilities.inner().get(name).cloned();
                expect_eq(name, value, Some(AMQPValue::Boolean(true)))
            },
        )
    }));
    cases.extend(logins());
    cases
}

/// Returns the cases about accepted and refused logins.
fn logins() -> Vec<Case> {
    let mut cases = Vec::new();
    for (what, user, password) in [
        ("a wrong password", "guest", "wrong"),
        ("an empty password", "guest", ""),
        ("an unknown user", "conformance-nobody", "guest"),
    ] {
        cases.push(case(
            format!("connection.start-ok: {what} is 403"),
            move |scope| {
                let connection = Connection::greet(scope)?;
                let refused = connection.plain(user, password);
                connection.send(0, refused)?;
                connection.breaks(403).map(drop)
            },
        ));
    }
    cases.push(case(
        "connection.start-ok: a wrong password without authentication_failure_close closes the socket",
        |scope| {
            let connection = Connection::greet(scope)?;
            let refused = connection::StartOk {
                client_properties: amq_protocol::types::FieldTable::default(),
                ..connection.plain("guest", "wrong")
            };
            connection.send(0, refused)?;
            connection.wire.ends()
        },
    ));
    for (what, mechanism, response) in [
        ("an unknown mechanism", "SHA-0", &b"\0guest\0guest"[..]),
        ("an empty mechanism", "", b"\0guest\0guest"),
        ("a PLAIN response without NUL", "PLAIN", b"guest"),
        ("an empty PLAIN response", "PLAIN", b""),
    ] {
        cases.push(case(
            format!("connection.start-ok: {what} ends the connection"),
            move |scope| {
                let connection = Connection::greet(scope)?;
                let refused = connection::StartOk {
                    mechanism: mechanism.into(),
                    response: response.into(),
                    ..connection.plain("guest", "guest")
                };
                connection.send(0, refused)?;
                connection.is_given_up()
            },
        ));
    }
    cases
}
