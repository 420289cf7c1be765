//! Servers that do over TLS what servers do: both engines count it alike.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use http_load::Settings;
use load::recorder::OK;
use rustls::{ServerConnection, StreamOwned};

use crate::scenarios::{ENGINES, adds_up, errors, failed, put, users};
use crate::secure::{request, serve_by};
use crate::servers::OK as ANSWER;

type Connection = StreamOwned<ServerConnection, TcpStream>;

const REQUESTS: u64 = 4;

/// Sends four requests of one client to a server; expects one outcome of all with each engine.
#[track_caller]
fn is_counted(
    act: impl Fn(&mut Connection) -> io::Result<()> + Clone + Send + Sync + 'static,
    settings: &Settings,
    expected: Option<&str>,
) {
    for engine in ENGINES {
        let settings = Settings {
            engine,
            tls_insecure: true,
            any_content: true,
            ..settings.clone()
        };
        let tally = put(settings, users(1, REQUESTS), &serve_by(act.clone()));
        assert!(adds_up(&tally), "{engine:?}: {:?}", tally.errors);
        match expected {
            None => assert_eq!(
                tally.counted(OK),
                REQUESTS,
                "{engine:?}: {:?}",
                tally.errors
            ),
            Some(kind) => assert_eq!(errors(&tally), failed(kind, REQUESTS), "{engine:?}"),
        }
    }
}

#[test]
fn an_answer_in_many_records_and_in_one_byte_each_is_whole() {
    let act = |connection: &mut Connection| {
        loop {
            request(connection)?;
            for byte in ANSWER.as_bytes() {
                connection.write_all(&[*byte])?;
                connection.flush()?;
            }
        }
    };
    is_counted(act, &Settings::default(), None);
}

#[test]
fn an_answer_that_is_larger_than_any_buffer_is_whole() {
    let act = |connection: &mut Connection| {
        loop {
            request(connection)?;
            let length = 3_000_000;
            write!(
                connection,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            )?;
            connection.write_all(&vec![b'x'; length])?;
        }
    };
    is_counted(act, &Settings::default(), None);
}

#[test]
fn a_request_that_is_larger_than_the_kernel_takes_at_once_is_sent_whole() {
    const BODY: usize = 8_000_000;
    let act = |connection: &mut Connection| {
        loop {
            request(connection)?;
            let mut body = vec![0; BODY];
            connection.read_exact(&mut body)?;
            connection.write_all(ANSWER.as_bytes())?;
        }
    };
    let settings = Settings {
        method: "POST".to_owned(),
        body: vec!["x".repeat(BODY)],
        ..Settings::default()
    };
    is_counted(act, &settings, None);
}

#[test]
fn a_body_that_ends_with_the_connection_needs_an_alert_at_its_end() {
    let begin = |connection: &mut Connection| {
        request(connection)?;
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello")?;
        connection.flush()
    };
    let polite = move |connection: &mut Connection| {
        begin(connection)?;
        connection.conn.send_close_notify();
        connection.flush()
    };
    is_counted(polite, &Settings::default(), None);
    is_counted(begin, &Settings::default(), Some("early_close"));
}

#[test]
fn a_record_that_cannot_be_read_is_an_error_of_tls() {
    let act = |connection: &mut Connection| {
        request(connection)?;
        connection
            .sock
            .write_all(&[23, 3, 3, 0, 5, 1, 2, 3, 4, 5])?;
        // The client's alert, and its end.
        io::copy(&mut connection.sock, &mut io::sink()).map(drop)
    };
    is_counted(act, &Settings::default(), Some("tls"));
}

#[test]
fn a_server_that_ends_in_the_handshake_is_an_error_of_tls() {
    let act = |connection: &mut Connection| {
        // Unread data would turn the end into a reset.
        connection.sock.read(&mut [0; 16_384]).map(drop)
    };
    is_counted(act, &Settings::default(), Some("tls"));
}
