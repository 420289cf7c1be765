//! Engine.IO 4: handshakes, and requests without a session.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    accepted(case);
    refused_requests(case);
    refused_websockets(case);
    offers(case);
}

fn accepted(case: Begin<'_>) {
    case("Engine.IO 4, handshake: a WebSocket has sid, intervals and maxPayload").check(|server| {
        let handshake = Engine::open(server)?.handshake;
        expect_eq("upgrades of a WebSocket", &*handshake.upgrades, [""; 0])?;
        has_limits(&handshake)
    });
    case("Engine.IO 4, handshake: polling offers the upgrade to websocket").check(|server| {
        let handshake = Polling::open(server)?.handshake;
        expect_eq("upgrades of polling", &*handshake.upgrades, ["websocket"])?;
        has_limits(&handshake)
    });
    case("Engine.IO 4, handshake: polling answers with text in UTF-8").check(|server| {
        let response = http::get(server, &server.target(POLLING))?.response()?;
        response.ok()?;
        let kind = response.header("content-type").unwrap_or_default();
        let is_text = kind.eq_ignore_ascii_case("text/plain; charset=UTF-8");
        ensure!(is_text, "Content-Type is {kind:?}");
        Ok(())
    });
    case("Engine.IO 4, handshake: every session has an id of its own").check(|server| {
        let mut sids = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let sid = Polling::open(server)?.handshake.sid;
            ensure!(sids.insert(sid.clone()), "{sid} was issued twice");
            let is_plain = sid
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            ensure!(is_plain, "{sid:?} cannot stand in a query");
        }
        Ok(())
    });
    case("Engine.IO 4, handshake: further query parameters are ignored").check(|server| {
        let target = server.target(&format!("key=value&{POLLING}&t=abc123&b64=1"));
        let response = http::get(server, &target)?.response()?;
        Handshake::parse(response.ok()?).map(drop)
    });
    case("Engine.IO 4, handshake: a WebSocket client that names no polling session gets one of its own")
        .check(|server| {
            let first = Engine::open(server)?.handshake.sid;
            let second = Engine::open(server)?.handshake.sid;
            ensure!(first != second, "two connections have the id {first}");
            Ok(())
        });
}

fn has_limits(handshake: &Handshake) -> anyhow::Result<()> {
    ensure!(!handshake.ping_interval.is_zero(), "pingInterval is 0");
    ensure!(!handshake.ping_timeout.is_zero(), "pingTimeout is 0");
    ensure!(handshake.max_payload > 0, "maxPayload is 0");
    Ok(())
}

/// Invalid queries of a handshake, each with a description. `{}` stands for the transport.
const WRONG_QUERIES: [(&str, &str); 7] = [
    ("without EIO", "transport={}"),
    ("with EIO=3", "EIO=3&transport={}"),
    ("with EIO=5", "EIO=5&transport={}"),
    ("with EIO=abc", "EIO=abc&transport={}"),
    ("without transport", "EIO=4"),
    ("with an unknown transport", "EIO=4&transport=abc"),
    (
        "with an unknown sid",
        "EIO=4&transport={}&sid=zzzzzzzzzzzzzzzzzzzz",
    ),
];

fn refused_requests(case: Begin<'_>) {
    for (what, query) in WRONG_QUERIES {
        case(&format!("Engine.IO 4, handshake: a GET {what} is 400")).check_robust(move |server| {
            let target = server.target(&query.replace("{}", "polling"));
            http::get(server, &target)?.response()?.has_status(&[400])
        });
    }
    for method in ["POST", "PUT", "DELETE"] {
        case(&format!(
            "Engine.IO 4, handshake: a {method} without sid is 400"
        ))
        .check_robust(move |server| {
            let target = server.target(POLLING);
            let response = http::request(server, method, &target, b"4a")?.response()?;
            response.has_status(if method == "POST" {
                &[400]
            } else {
                &[400, 405]
            })
        });
    }
    case("Engine.IO 4, handshake: a POST with an unknown sid is 400").check_robust(|server| {
        let target = server.target(&format!("{POLLING}&sid=zzzzzzzzzzzzzzzzzzzz"));
        let response = http::request(server, "POST", &target, b"4a")?.response()?;
        response.has_status(&[400])
    });
    case("Engine.IO 4, handshake: a GET of transport websocket that is no WebSocket is 400")
        .check_robust(|server| {
            let target = server.target(WEBSOCKET);
            http::get(server, &target)?
                .response()?
                .has_status(&[400, 426])
        });
}

fn refused_websockets(case: Begin<'_>) {
    for (what, query) in WRONG_QUERIES {
        case(&format!(
            "Engine.IO 4, handshake: a WebSocket {what} is refused"
        ))
        .check_robust(move |server| {
            let target = server.target(&query.replace("{}", "websocket"));
            is_refused(server, &target)
        });
    }
    case("Engine.IO 4, handshake: a WebSocket with transport polling is refused").check_robust(
        |server| match WebSocket::try_open(server, &server.target(POLLING))? {
            // python-engineio ignores the Upgrade header and answers 200, as to a request of polling.
            websocket::Opened::Refused(Some(200 | 400)) => Ok(()),
            websocket::Opened::Refused(status) => bail!("status {status:?}, expected 400"),
            // npm's engine.io accepts the WebSocket, and then closes it.
            websocket::Opened::Accepted(socket) => is_closed_at_once(*socket),
        },
    );
}

/// The headers of a client that offers HTTP/2 to every server (RFC 7540, 3.2).
const OFFER: [(&str, &str); 3] = [
    ("Connection", "Upgrade, HTTP2-Settings"),
    ("Upgrade", "h2c"),
    ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
];

/// A server may ignore the header `Upgrade` or refuse the request (RFC 9110, 7.8), but it must not change to a protocol
/// that it does not speak.
fn offers(case: Begin<'_>) {
    case("Engine.IO 4, handshake: a polling request that offers h2c is served or refused")
        .check_robust(|server| {
            let target = server.target(POLLING);
            let response = http::request_with(server, "GET", &target, &OFFER, b"")?.response()?;
            response.has_status(&[200, 400])?;
            match response.status {
                200 => Handshake::parse(response.ok()?).map(drop),
                _ => Ok(()),
            }
        });
    case("Engine.IO 4, polling: a session goes on after requests that ask for another protocol")
        .check_robust(|server| {
            let polling = Polling::open(server)?;
            polling.send_all(&["40"])?;
            for headers in [
                &OFFER[..],
                &[("Connection", "Upgrade"), ("Upgrade", "websocket")],
            ] {
                let target = polling.target();
                let response = http::request_with(server, "POST", &target, headers, b"3")?;
                response.response()?.has_status(&[200, 400, 405])?;
            }
            let answer = polling.poll()?.response()?;
            ensure!(
                answer.ok()?.starts_with("40{"),
                "the poll is answered with {answer:?}"
            );
            Ok(())
        });
}

/// Asserts that a WebSocket is refused, or closed before anything else.
pub(super) fn is_refused(server: &Server, target: &str) -> anyhow::Result<()> {
    match WebSocket::try_open(server, target)? {
        websocket::Opened::Refused(status) => {
            ensure!(
                status.is_none_or(|status| (400..500).contains(&status)),
                "status {status:?}, expected 4xx"
            );
            Ok(())
        }
        websocket::Opened::Accepted(socket) => is_closed_at_once(*socket),
    }
}

/// Asserts that the server closes a WebSocket before anything else.
fn is_closed_at_once(mut socket: WebSocket) -> anyhow::Result<()> {
    match socket.receive() {
        Ok(Received::Closed(_)) => Ok(()),
        Ok(first) => bail!("the server sent {first:?}"),
        // npm's engine.io accepts the WebSocket, and then sends an HTTP response with status 400 on it.
        Err(error) if websocket::is_violation(&error) => Ok(()),
        Err(error) => Err(error),
    }
}
