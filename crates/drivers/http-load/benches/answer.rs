//! Cost of parsing a response.

#[path = "support/responses.rs"]
mod responses;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use load::net::http1::{Reader, RequestInfo};

fn whole(criterion: &mut Criterion) {
    let answer = responses::whole();
    criterion.bench_function("whole", |bencher| {
        let mut reader = Reader::new();
        bencher.iter(|| read(&mut reader, &[black_box(&answer)]));
    });
    let (first, second) = answer.split_at(100);
    criterion.bench_function("cut in its head", |bencher| {
        let mut reader = Reader::new();
        bencher.iter(|| read(&mut reader, &[black_box(first), black_box(second)]));
    });
    let (first, second) = answer.split_at(answer.len() - 1000);
    criterion.bench_function("cut in its body", |bencher| {
        let mut reader = Reader::new();
        bencher.iter(|| read(&mut reader, &[black_box(first), black_box(second)]));
    });
}

fn chunked(criterion: &mut Criterion) {
    let mut answer = responses::head("Transfer-Encoding: chunked");
    for _ in 0..4 {
        answer.extend(b"100\r\n");
        answer.extend([0; 256]);
        answer.extend(b"\r\n");
    }
    answer.extend(b"0\r\n\r\n");
    criterion.bench_function("4 chunks", |bencher| {
        let mut reader = Reader::new();
        bencher.iter(|| read(&mut reader, &[black_box(&answer)]));
    });
}

fn read(reader: &mut Reader, pieces: &[&[u8]]) {
    let mut done = None;
    for piece in pieces {
        let asked = RequestInfo { head: false };
        let progress = reader.take(asked, piece, &mut ()).expect("well-formed");
        done = progress.done;
    }
    assert_eq!(done.expect("complete").body, 1024);
}

criterion_group!(benches, whole, chunked);
criterion_main!(benches);
