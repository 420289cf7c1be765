//! Cost of a heartbeat in the driver besides system calls and records: writing it, and reading what it causes. CPU time
//! is measured, so that other work on the machine counts little.

#[path = "support/cpu_time.rs"]
mod cpu_time;
#[path = "support/server.rs"]
mod server;

use std::hint::black_box;

use cpu_time::{CpuTime, criterion};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use presence_load::protocol::packet::EnginePacket;
use presence_load::protocol::presence::{Incoming, PresenceEvent, Stamp, write_heartbeat};
use presence_load::protocol::transport::{Event, Side};
use presence_load::protocol::websocket::{
    Masks, Message, Opcode, Reader, append_frame, apply_mask,
};
use server::{event_packet, frame, open_transport};

const ACK: &str = r#"43127[{"ok":true,"changed":true,"epoch":1732331425123}]"#;
const EVENT: &str = r#"{"type":"update","roomId":"room-001","userId":"user-1-1","connId":"Zb1Xh0Qe4eTtRkqYAAAB","state":{"n":127,"t":38512345678901},"ts":1732331425123,"epoch":1732331425123,"seq":1234567}"#;

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
    let input = [
        frame(ACK),
        frame(&event_packet(EVENT)),
        frame(&event_packet(EVENT)),
    ]
    .concat();
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
    let event = frame(&event_packet(EVENT));
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
            Ok(Incoming::Ack(_, ack)) => ack.members().map_or(0, |members| members.len()),
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
