//! Engine.IO 4: sessions and payloads.

use std::collections::BTreeSet;

use super::*;

pub(super) fn every_session_has_an_id(server: &Server) -> anyhow::Result<()> {
    let mut sids = BTreeSet::new();
    for _ in 0..20 {
        let sid = Polling::open(server)?.sid().to_owned();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        ensure!(sid.bytes().all(is_plain), "{sid:?} cannot stand in a query");
        ensure!(sids.insert(sid.clone()), "{sid} was issued twice");
    }
    Ok(())
}

pub(super) fn a_second_get_is_refused(server: &Server) -> anyhow::Result<()> {
    let polling = Polling::open(server)?;
    // A server with several threads may take either of them first.
    let polls = [polling.poll()?, polling.poll()?];
    let mut refused = 0;
    for poll in polls {
        let response = poll.response()?;
        match response.status {
            // npm's engine.io answers with 400; its public test suite allows 500.
            400 | 500 => refused += 1,
            _ => {
                let packet = response.ok()?;
                ensure!(matches!(packet, "1" | "6"), "a GET ended with {packet:?}");
            }
        }
    }
    ensure!(refused >= 1, "both GETs were answered");
    polling.poll()?.response()?.has_status(&[400])
}

pub(super) fn a_long_post_is_refused(server: &Server) -> anyhow::Result<()> {
    let payload = "x".repeat(20_001);
    let request = Polling::open(server)?.request("POST", payload.as_bytes())?;
    // A server that closes the connection while the body arrives may lose its answer.
    match request.response() {
        Ok(response) => response.has_status(&[400, 413]),
        Err(_) => Ok(()),
    }
}

pub(super) fn all_bytes_come_back(server: &Server) -> anyhow::Result<()> {
    let server = server.with_path("/engine.io/");
    let bytes: Vec<u8> = (0..=255).collect();
    let mut socket = WebSocket::session(&server)?;
    let mut polling = Polling::open(&server)?;
    let transports: [&mut dyn Transport; 2] = [&mut socket, &mut polling];
    for transport in transports {
        transport.send_binary(&bytes)?;
        let answer = transport.packet()?;
        expect_eq("the answer", answer, Received::Binary(bytes.clone()))?;
    }
    Ok(())
}
