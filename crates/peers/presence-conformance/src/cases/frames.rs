//! RFC 6455: frames.

use super::*;
use crate::websocket::{CLOSE, CONTINUATION, FIN, PING, PONG, TEXT, frame, head, unmasked_frame};

/// The reserved bits of the first byte, which only extensions use.
const RSV1: u8 = 0x40;
const RSV2: u8 = 0x20;
const RSV3: u8 = 0x10;
/// Close codes: protocol error, wrong data, message too big.
const PROTOCOL_ERROR: u16 = 1002;
const WRONG_DATA: u16 = 1007;
const TOO_BIG: u16 = 1009;

pub(super) fn cases(case: Begin<'_>) {
    forbidden_frames(case);
    forbidden_sequences(case);
    forbidden_text(case);
    allowed(case);
    pings_and_lengths(case);
    closing(case);
    limits(case);
}

/// Adds a case: these bytes after the handshake end the connection, with one of these close codes if with any.
fn fails(case: Begin<'_>, name: &str, bytes: Vec<u8>, codes: &'static [u16]) {
    case(&format!("RFC 6455, {name} ends the connection")).check_robust(move |server| {
        let mut engine = Engine::open(server)?;
        engine.socket.send_raw(&bytes)?;
        engine.socket.ends_with(codes)
    });
}

fn forbidden_frames(case: Begin<'_>) {
    let codes = &[PROTOCOL_ERROR];
    fails(
        case,
        "5.1: an unmasked frame",
        unmasked_frame(FIN | TEXT, b"40"),
        codes,
    );
    for (name, bit) in [("RSV1", RSV1), ("RSV2", RSV2), ("RSV3", RSV3)] {
        let name = format!("5.2: a frame with {name} and no extension");
        fails(case, &name, frame(FIN | bit | TEXT, b"40"), codes);
    }
    for opcode in [3, 7, 11, 15] {
        let name = format!("5.2: the reserved opcode {opcode}");
        fails(case, &name, frame(FIN | opcode, b"40"), codes);
    }
    let with_sign = [&[FIN | TEXT, 0xff, 0xff][..], &[0xff; 7], &[0; 4]].concat();
    fails(
        case,
        "5.2: a length with its highest bit set",
        with_sign,
        &[PROTOCOL_ERROR, TOO_BIG],
    );
    for (name, opcode) in [("ping", PING), ("pong", PONG), ("close", CLOSE)] {
        let long = frame(FIN | opcode, &[0x31; 126]);
        fails(case, &format!("5.5: a {name} of 126 bytes"), long, codes);
        fails(
            case,
            &format!("5.5: a fragmented {name}"),
            frame(opcode, b""),
            codes,
        );
    }
}

fn forbidden_sequences(case: Begin<'_>) {
    let codes = &[PROTOCOL_ERROR];
    let alone = frame(FIN | CONTINUATION, b"40");
    fails(
        case,
        "5.4: a continuation without a beginning",
        alone,
        codes,
    );
    let twice = [frame(TEXT, b"4"), frame(FIN | TEXT, b"0")].concat();
    fails(case, "5.4: a new message between fragments", twice, codes);
}

fn forbidden_text(case: Begin<'_>) {
    let codes = &[WRONG_DATA];
    let invalid = |bytes: &[u8]| frame(FIN | TEXT, &[b"42[\"", bytes, b"\"]"].concat());
    fails(case, "8.1: text that is not UTF-8", invalid(b"\xff"), codes);
    fails(
        case,
        "8.1: text with a surrogate",
        invalid(b"\xed\xa0\x80"),
        codes,
    );
    fails(
        case,
        "8.1: text with an overlong slash",
        invalid(b"\xc0\xaf"),
        codes,
    );
    fails(
        case,
        "8.1: text that ends inside a character",
        frame(FIN | TEXT, b"42[\"\xe2\x82"),
        codes,
    );
}

fn allowed(case: Begin<'_>) {
    case("RFC 6455, 5.4: a text in three fragments is one message").check(|server| {
        let mut engine = Engine::open(server)?;
        for (first, payload) in [(TEXT, "4"), (CONTINUATION, ""), (FIN | CONTINUATION, "0")] {
            engine.socket.send_raw(&frame(first, payload.as_bytes()))?;
        }
        is_connected(&mut engine)
    });
    case("RFC 6455, 5.4: a ping between fragments is answered at once").check(|server| {
        let mut engine = Engine::open(server)?;
        engine.socket.send_raw(&frame(TEXT, b"4"))?;
        engine.socket.send_raw(&frame(FIN | PING, b"between"))?;
        expect_eq(
            "the answer",
            engine.socket.receive()?,
            Received::Pong(b"between".to_vec()),
        )?;
        engine.socket.send_raw(&frame(FIN | CONTINUATION, b"0"))?;
        is_connected(&mut engine)
    });
    case("RFC 6455, 5.4: a character may be split between fragments").check(|server| {
        let mut member = Member::open(server)?;
        let room = server.name("räume-€");
        let text = format!(
            "420{}",
            json!(["presence:join", {"roomId": room, "userId": "ü"}])
        );
        // In one byte each, so that every character is split.
        let bytes = text.as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            let first = if at == 0 { TEXT } else { CONTINUATION };
            let last = if at + 1 == bytes.len() { FIN } else { 0 };
            member
                .socket
                .transport
                .send_raw(&frame(first | last, &[*byte]))?;
        }
        let answer = member.socket.acknowledged(0)?;
        expect_at(&answer[0], "/snapshot/0/userId", &"ü".into())
    });
}

fn pings_and_lengths(case: Begin<'_>) {
    case("RFC 6455, 5.5.2: a ping is answered with its payload").check(|server| {
        let mut engine = Engine::open(server)?;
        for payload in [&b""[..], b"x", &[0xff; 125]] {
            engine.socket.send_raw(&frame(FIN | PING, payload))?;
            expect_eq(
                "the answer",
                engine.socket.receive()?,
                Received::Pong(payload.to_vec()),
            )?;
        }
        Ok(())
    });
    case("RFC 6455, 5.5.3: a pong without a ping is ignored").check(|server| {
        let mut engine = Engine::open(server)?;
        engine.socket.send_raw(&frame(FIN | PONG, b"unasked"))?;
        engine.socket.send_raw(&frame(FIN | TEXT, b"40"))?;
        is_connected(&mut engine)
    });
    case("RFC 6455, 5.2: a frame may arrive byte by byte, and two frames at once").check(
        |server| {
            let mut engine = Engine::open(server)?;
            for byte in frame(FIN | TEXT, b"40") {
                engine.socket.send_raw(&[byte])?;
            }
            is_connected(&mut engine)?;
            let two = [frame(FIN | PING, b"a"), frame(FIN | PING, b"b")].concat();
            engine.socket.send_raw(&two)?;
            expect_eq(
                "the first answer",
                engine.socket.receive()?,
                Received::Pong(b"a".to_vec()),
            )?;
            expect_eq(
                "the second",
                engine.socket.receive()?,
                Received::Pong(b"b".to_vec()),
            )
        },
    );
    case("RFC 6455, 5.2: a length need not be in the shortest form to be refused or read")
        .check_robust(|server| {
            let mut engine = Engine::open(server)?;
            let long_form = [&[FIN | TEXT, 0x80 | 126, 0, 2][..], &[0; 4], b"40"].concat();
            engine.socket.send_raw(&long_form)?;
            // The RFC demands the shortest form of senders; receivers differ.
            match engine.socket.receive()? {
                Received::Text(text) => expect_eq("the answer", &text[..2], "40"),
                Received::Closed(_) => Ok(()),
                other => bail!("the server sent {other:?}"),
            }
        });
}

/// Asserts that the server accepts the CONNECT that the case has sent.
fn is_connected(engine: &mut Engine) -> anyhow::Result<()> {
    let answer = engine.transport().text()?;
    ensure!(
        answer.starts_with("40{"),
        "the answer to CONNECT is {answer:?}"
    );
    Ok(())
}

fn closing(case: Begin<'_>) {
    for code in [1000, 1001, 3000, 4999] {
        case(&format!("RFC 6455, 5.5.1: close code {code} is echoed")).check(move |server| {
            let mut engine = Engine::open(server)?;
            engine.socket.send_close(code)?;
            expect_eq(
                "the answer",
                engine.socket.receive()?,
                Received::Closed(Some(code)),
            )
        });
    }
    case("RFC 6455, 5.5.1: a close frame without a code is answered with a close frame").check(
        |server| {
            let mut engine = Engine::open(server)?;
            engine.socket.send_raw(&frame(FIN | CLOSE, b""))?;
            engine.socket.ends_with(&[1000, 1005])
        },
    );
    case("RFC 6455, 5.5.1: data after a close frame is ignored").check_robust(|server| {
        let mut engine = Engine::open(server)?;
        let close = frame(FIN | CLOSE, &1000_u16.to_be_bytes());
        let after = frame(FIN | TEXT, b"40");
        engine.socket.send_raw(&[close, after].concat())?;
        let first = engine.socket.receive()?;
        ensure!(
            matches!(first, Received::Closed(_)),
            "the server sent {first:?}"
        );
        Ok(())
    });
    fails(
        case,
        "5.5.1: a close frame of 1 byte",
        frame(FIN | CLOSE, b"x"),
        &[PROTOCOL_ERROR],
    );
    for code in [0_u16, 999, 1004, 1005, 1006, 2999] {
        let close = frame(FIN | CLOSE, &code.to_be_bytes());
        let name = format!("7.4: a close frame with the code {code}");
        fails(case, &name, close, &[PROTOCOL_ERROR]);
    }
}

fn limits(case: Begin<'_>) {
    case("RFC 6455, 10.4: a message above maxPayload ends the connection")
        .on(Setup::SmallPayload)
        .check_robust(|server| {
            let mut engine = Engine::open(server)?;
            let length = usize::try_from(engine.handshake.max_payload)? + 1;
            engine
                .socket
                .send_raw(&frame(FIN | TEXT, &vec![b'4'; length]))?;
            engine.socket.ends_with(&[TOO_BIG])
        });
    case("RFC 6455, 10.4: fragments that add up to more than maxPayload end the connection")
        .on(Setup::SmallPayload)
        .check_robust(|server| {
            let mut engine = Engine::open(server)?;
            let count = engine.handshake.max_payload / 1_000 + 1;
            engine.socket.send_raw(&frame(TEXT, b"42"))?;
            for _ in 0..count {
                engine
                    .socket
                    .send_raw(&frame(CONTINUATION, &[b'x'; 1_000]))?;
            }
            engine.socket.ends_with(&[TOO_BIG])
        });
    case("RFC 6455, 10.4: a frame that announces 1 TiB ends the connection at its head")
        .check_robust(|server| {
            let mut engine = Engine::open(server)?;
            let mut huge = head(FIN | TEXT, 1 << 40, 0x80);
            huge.extend([0; 4]);
            engine.socket.send_raw(&huge)?;
            engine.socket.ends_with(&[TOO_BIG])
        });
    case("RFC 6455, 10.4: a connection that ends inside a frame harms nobody").check_robust(
        |server| {
            for end in [1, 2, 5, 7] {
                let mut engine = Engine::open(server)?;
                engine.socket.send_raw(&frame(FIN | TEXT, b"40")[..end])?;
                engine.socket.disconnect()?;
            }
            Ok(())
        },
    );
}
