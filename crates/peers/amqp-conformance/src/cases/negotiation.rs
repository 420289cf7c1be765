//! Protocol header, `connection.start`, login and `connection.open`: sections 2.2.4 and 4.2.2, class connection.

use super::*;
use crate::connection::{CAPABILITIES, PROTOCOL_HEADER};
use crate::wire::{BODY, HEARTBEAT, Wire};

/// First bytes that no AMQP 0-9-1 broker accepts.
const OTHER_HEADERS: [(&str, &[u8; 8]); 6] = [
    ("AMQP 0-9-2", b"AMQP\0\0\x09\x02"),
    ("AMQP 0-10", b"AMQP\x01\x01\0\x0a"),
    ("AMQP 7-7", b"AMQP\0\x07\x07\x07"),
    ("lower case", b"amqp\0\0\x09\x01"),
    ("HTTP", b"GET / HT"),
    ("TLS", b"\x16\x03\x01\x02\0\x01\0\x01"),
];

pub(super) fn cases(case: Begin<'_>) {
    case("protocol header: sent byte by byte").on_broker(|scope| {
        let wire = Wire::connect(scope.broker)?;
        for byte in PROTOCOL_HEADER {
            wire.write(&[*byte])?;
        }
        expect_eq("the channel of connection.start", wire.frame()?.channel, 0)
    });
    case("connection.start: version, mechanism PLAIN, locale en_US").on_broker(|scope| {
        let connection = Connection::greet(scope)?;
        let start = &connection.start;
        let version = (start.version_major, start.version_minor);
        expect_eq("version", version, (0, 9))?;
        let mechanisms = String::from_utf8_lossy(start.mechanisms.as_bytes());
        let has_plain = mechanisms.split(' ').any(|name| name == "PLAIN");
        ensure!(has_plain, "its mechanisms are {mechanisms:?}");
        expect_eq("locales", start.locales.as_bytes(), b"en_US")
    });
    case("connection.start: product and version are long strings").on_broker(|scope| {
        let connection = Connection::greet(scope)?;
        for key in ["product", "version"] {
            let value = connection.start.server_properties.inner().get(key);
            let is_text =
                matches!(value, Some(AMQPValue::LongString(text)) if !text.as_bytes().is_empty());
            ensure!(is_text, "{key} is {value:?}");
        }
        Ok(())
    });
    case("connection.open: an unknown vhost is 530").on_broker(|scope| {
        let connection = Connection::log_in(scope)?;
        connection.send(0, connection.tune_ok())?;
        connection
            .unopened(0)
            .run("connection.open conformance-nowhere -> 530")
    });
    case("connection.open: before tune-ok ends the connection").on_broker(|scope| {
        let connection = Connection::log_in(scope)?;
        connection.unopened(0).run("connection.open / -> end")
    });
    case("connection.start: another method instead of start-ok ends the connection").on_broker(
        |scope| {
            let connection = Connection::greet(scope)?;
            connection.unopened(1).run("> basic.qos -> end")
        },
    );
    case("connection.start: a body instead of start-ok ends the connection").on_broker(|scope| {
        let connection = Connection::greet(scope)?;
        connection.wire.send(BODY, 1, b"x")?;
        connection.is_given_up()
    });
    case("connection.close: a client that leaves during the handshake").on_broker(|scope| {
        Connection::greet(scope)?.wire.hang_up();
        Connection::log_in(scope)?.wire.hang_up();
        scope.connect()?.close()
    });
    case("connection.close: frames after it are not answered").on_broker(|scope| {
        let connection = scope.connect()?;
        connection.send(0, connection::Close::default())?;
        connection.wire.send(HEARTBEAT, 0, b"")?;
        connection.receive::<connection::CloseOk>()
    });
    for (name, header) in OTHER_HEADERS {
        let name = format!("protocol header: {name} is answered with the right one");
        case(&name).on_broker(move |scope| {
            let wire = Wire::connect(scope.broker)?;
            wire.write(header)?;
            expect_eq("the answer", wire.bytes::<8>()?.as_slice(), PROTOCOL_HEADER)?;
            wire.ends()
        });
    }
    for name in CAPABILITIES {
        case(&format!("connection.start: capability {name}")).on_broker(move |scope| {
            let start = Connection::greet(scope)?.start;
            match start.server_properties.inner().get("capabilities") {
                Some(AMQPValue::FieldTable(capabilities)) => expect_eq(
                    name,
                    capabilities.inner().get(name),
                    Some(&AMQPValue::Boolean(true)),
                ),
                other => bail!("its capabilities are not a table: {other:?}"),
            }
        });
    }
    logins(case);
}

/// Adds the cases about accepted and refused logins.
fn logins(case: Begin<'_>) {
    for (what, user, password) in [
        ("a wrong password", "guest", "wrong"),
        ("an empty password", "guest", ""),
        ("an unknown user", "conformance-nobody", "guest"),
    ] {
        case(&format!("connection.start-ok: {what} is 403")).on_broker(move |scope| {
            let connection = Connection::greet(scope)?;
            connection.send(0, connection.plain(user, password))?;
            connection.breaks(403).map(drop)
        });
    }
    let what = "a wrong password without authentication_failure_close";
    case(&format!("connection.start-ok: {what} closes the socket")).on_broker(|scope| {
        let connection = Connection::greet(scope)?;
        let mut refused = connection.plain("guest", "wrong");
        refused.client_properties = FieldTable::default();
        connection.send(0, refused)?;
        connection.wire.ends()
    });
    for (what, mechanism, response) in [
        ("an unknown mechanism", "SHA-0", &b"\0guest\0guest"[..]),
        ("an empty mechanism", "", b"\0guest\0guest"),
        ("a PLAIN response without NUL", "PLAIN", b"guest"),
        ("an empty PLAIN response", "PLAIN", b""),
    ] {
        case(&format!("connection.start-ok: {what} ends the connection")).on_broker(move |scope| {
            let connection = Connection::greet(scope)?;
            let mut refused = connection.plain("guest", "guest");
            refused.mechanism = mechanism.into();
            refused.response = response.into();
            connection.send(0, refused)?;
            connection.is_given_up()
        });
    }
}
