//! The cost of frames: encoding an event, sharing it, and decoding what a client sent.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use socketio_server::engine::frame::Frame;
use socketio_server::engine::websocket::{Decoder, Message};

/// Encodes a masked frame of text, as a client does.
fn masked(payload: &[u8]) -> Vec<u8> {
    let key = [0x12, 0x34, 0x56, 0x78];
    let mut frame = vec![0x81, 0xff];
    frame.extend((payload.len() as u64).to_be_bytes());
    frame.extend(key);
    let bytes = payload.iter().zip(key.iter().cycle());
    frame.extend(bytes.map(|(byte, key)| byte ^ key));
    frame
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frames");
    let frame_of = |event: &Value| {
        Frame::with_event("/", |out| {
            out.extend_from_slice(b"\"presence:event\",");
            serde_json::to_writer(out, event).expect("an event is JSON");
        })
    };
    let event = json!({
        "type": "update", "roomId": "room-001", "userId": "user-1-1", "connId": "Dyn-rTlxz4v1CksCRkfN",
        "state": {"cursor": {"x": 12, "y": 34}}, "ts": 1_700_000_000_000_u64, "epoch": 1_700_000_000_000_u64, "seq": 5,
    });
    group.bench_function("encode an event", |bencher| {
        bencher.iter(|| frame_of(black_box(&event)));
    });
    let frame = frame_of(&event);
    group.throughput(Throughput::Elements(1000));
    group.bench_function("share an event with 1,000 members", |bencher| {
        bencher.iter_batched_ref(
            || Vec::with_capacity(1000),
            |members| members.extend((0..1000).map(|_| frame.clone())),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frames");
    for length in [100, 60_000] {
        let frame = masked(&vec![b'4'; length]);
        group.throughput(Throughput::Bytes(length as u64));
        group.bench_function(format!("decode {length} bytes"), |bencher| {
            let mut decoder = Decoder::new(1_000_000);
            bencher.iter_batched_ref(
                || frame.clone(),
                |frame| {
                    let decoded = decoder.feed(frame, |message| {
                        assert!(matches!(message, Message::Text(_)));
                        Ok(())
                    });
                    decoded.expect("the frame is correct");
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
