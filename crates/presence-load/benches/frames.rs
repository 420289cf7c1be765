//! Cost of a heartbeat in the driver besides system calls and records: writing it, and reading what it causes. CPU time
//! is measured, so that other work on the machine counts little.

#[path = "support/cpu_time.rs"]
mod cpu_time;

use std::hint::black_box;

use cpu_time::{CpuTime, criterion};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use presence_load::protocol::packet::EnginePacket;
use presence_load::protocol::presence::{Incoming, PresenceEvent, Stamp, write_heartbeat};
use presence_load::protocol::transport::{
    Endpoint, Event, Kind, Side, Transport, TransportContext,
};
use presence_load::protocol::websocket::{
    Masks, Message, Opcode, Reader, append_frame, apply_mask,
};

const ACK: &str = r#"43127[{"ok":true,"changed":true,"epoch":1732331425123}]"#;
const EVENT: &str = r#"{"type":"update","roomId":"room-001","userId":"user-1-1","connId":"Zb1Xh0Qe4eTtRkqYAAAB","state":{"n":127,"t":38512345678901},"ts":1732331425123,"epoch":1732331425123,"seq":1234567}"#;

/// Returns a frame of the server.
fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81];
    match text.len() {
        length @ ..126 => frame.push(length as u8),
        length => {
            frame.push(126);
            frame.extend((length as u16).to_be_bytes());
        }
    }
    frame.extend(text.as_bytes());
    frame
}

fn event_packet() -> String {
    format!(r#"42["presence:event",{EVENT}]"#)
}

fn snapshot() -> String {
    let member = |index| {
        format!(
            r#"{{"connId":"Zb1Xh0Qe4eTtRkqYAAA{index}","userId":"user-1-{index}","state":{{"n":12,"t":38512345678901}},"lastSeenMs":1732331425123,"epoch":1732331425123}}"#
        )
    };
    let members: Vec<_> = (0..10).map(member).collect();
    format!(
        r#"3127[{{"ok":true,"snapshot":[{}],"self":{{"connId":"Zb1Xh0Qe4eTtRkqYAAA1","epoch":1732331425123}},"seq":1234}}]"#,
        members.join(",")
    )
}

/// Returns a transport whose session is open.
fn open_transport() -> (Transport, TransportContext) {
    let endpoint = Endpoint {
        host: "127.0.0.1:3000".to_owned(),
        path: "/socket.io/".to_owned(),
        query: String::new(),
        max_message: 1 << 20,
    };
    let mut cx = TransportContext::new(endpoint, 1);
    let mut transport = Transport::new(Kind::WebSocket);
    transport.connected(Side::Main, &mut cx);
    let request = String::from_utf8_lossy(&cx.actions.output[0]).into_owned();
    let key = request
        .lines()
        .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = tungstenite::handshake::derive_accept_key(key.expect("it has a key").as_bytes());
    let mut input = format!("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes();
    input.extend(frame(r#"0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}"#));
    let opened = transport.next(Side::Main, &input, &mut 0, &mut cx);
    assert!(matches!(opened, Ok(Some(Event::Opened(_)))), "{opened:?}");
    cx.actions.clear();
    (transport, cx)
}

fn writing(criterion: &mut Criterion<CpuTime>) {
    let (mut transport, mut cx) = open_transport();
    let stamp = Stamp {
        n: 127,
        t: 38_512_345_678_901,
    };
    criterion.bench_function("write a heartbeat", |bencher| {
        bencher.iter(|| {
            cx.actions.clear();
            let epoch = Some(1_732_331_425_123);
            transport.send(&mut cx, |out| {
                write_heartbeat(out, black_box(127), Some(black_box(stamp)), epoch, 0);
            });
            black_box(cx.actions.output[0].len())
        });
    });
    let mut group = criterion.benchmark_group("mask");
    for size in [100, 1 << 16] {
        group.throughput(Throughput::Bytes(size));
        let mut payload = vec![b'x'; size as usize];
        group.bench_function(size.to_string(), |bencher| {
            bencher.iter(|| apply_mask(black_box(&mut payload), [1, 2, 3, 4]));
        });
    }
    group.finish();
    let (mut out, mut masks) = (Vec::new(), Masks::new(1));
    criterion.bench_function("frame of 100 bytes", |bencher| {
        bencher.iter(|| {
            out.clear();
            append_frame(&mut out, Opcode::Text, black_box(&[b'x'; 100]), &mut masks);
        });
    });
}

fn reading(criterion: &mut Criterion<CpuTime>) {
    let (mut transport, mut cx) = open_transport();
    let input = [frame(ACK), frame(&event_packet()), frame(&event_packet())].concat();
    criterion.bench_function("read an ack and two events", |bencher| {
        bencher.iter(|| {
            let (mut taken, mut messages) = (0, 0);
            let input = black_box(&input[..]);
            while let Ok(Some(event)) = transport.next(Side::Main, input, &mut taken, &mut cx) {
                if let Event::Message(text) = event {
                    let incoming = Incoming::parse(&text);
                    messages += u32::from(black_box(incoming).is_ok());
                }
            }
            assert_eq!(messages, 3);
        });
    });
    let event = frame(&event_packet());
    criterion.bench_function("frame of an event", |bencher| {
        let mut reader = Reader::default();
        bencher.iter(|| {
            let read = reader.next(black_box(&event), 1 << 20);
            assert!(matches!(read, Ok((_, Some(Message::Text(_))))));
        });
    });
}

fn parsing(criterion: &mut Criterion<CpuTime>) {
    criterion.bench_function("parse an event", |bencher| {
        bencher.iter(|| PresenceEvent::parse(black_box(EVENT)).is_ok());
    });
    criterion.bench_function("parse an ack", |bencher| {
        bencher.iter(|| match EnginePacket::parse(black_box(ACK)) {
            Ok(EnginePacket::Message(text)) => Incoming::parse(text).is_ok(),
            _ => false,
        });
    });
    let snapshot = snapshot();
    criterion.bench_function("parse a join with a snapshot of 10", |bencher| {
        bencher.iter(|| match Incoming::parse(black_box(&snapshot)) {
            Ok(Incoming::Ack(_, ack)) => ack.members().filter(Result::is_ok).count(),
            _ => 0,
        });
    });
}

criterion_group! {
    name = benches;
    config = criterion();
    targets = writing, reading, parsing
}
criterion_main!(benches);
