//! Cost of one stream in the driver: reading it, and handing its client over.

#[path = "support/streams.rs"]
mod streams;

use std::hint::black_box;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fdpass_client::handoff::{
    ClientKind, Clients, DEFAULT_DATA, HandoffEndpoint, SocketType, pass,
};
use fdpass_client::sse::Reader;
use fdpass_gen::expect::{Expect, Expected};
use fdpass_gen::settings::Settings;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, accept_with, recvmsg,
};

/// Measures reading a stream of 18 records as it arrives from a daemon that paces it: the head, then a record at a
/// time.
fn sse_scan(criterion: &mut Criterion) {
    let pieces = streams::pieces();
    let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
    let mut group = criterion.benchmark_group("sse");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("stream of 18 records, a record a read", |bencher| {
        bencher.iter(|| {
            let (mut reader, mut rest) = (Reader::default(), None);
            for piece in &pieces {
                reader
                    .read(black_box(piece.as_bytes()), &mut rest, |_| Ok(()))
                    .expect("the stream is right");
            }
            assert!(reader.done());
        });
    });
    let settings = Settings {
        expect: Expect::First,
        ..Settings::default()
    };
    let mut expected = Expected::new(&settings);
    group.bench_function(
        "stream of 18 records, a record a read, compared",
        |bencher| {
            bencher.iter(|| {
                let (mut reader, mut rest) = (Reader::default(), None);
                let mut body = 0;
                for piece in &pieces {
                    reader
                        .read(black_box(piece.as_bytes()), &mut rest, |records| {
                            expected.take(body, records)?;
                            body += records.len();
                            Ok(())
                        })
                        .expect("the stream is right and says the same");
                }
                assert!(reader.done());
            });
        },
    );
    let whole = pieces.concat();
    group.bench_function("stream of 18 records in one read", |bencher| {
        bencher.iter(|| {
            Reader::default()
                .read(black_box(whole.as_bytes()), &mut None, |_| Ok(()))
                .expect("the stream is right")
        });
    });
    group.finish();
}

/// Measures the whole handoff on one thread, both sides: client created, connected, sent, accepted, received,
/// everything closed.
fn handoff(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder for the socket");
    for (name, kind, wanted) in [
        ("seqpacket", SockType::SeqPacket, SocketType::Seqpacket),
        ("stream", SockType::Stream, SocketType::Stream),
    ] {
        let path = folder.path().join(name);
        let listener =
            socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
        bind(
            listener.as_raw_fd(),
            &UnixAddr::new(&path).expect("a short path"),
        )
        .expect("a fresh path");
        listen(&listener, Backlog::MAXCONN).expect("a listener");
        let endpoint = HandoffEndpoint::new(&path, wanted).expect("a short path");
        for (client, clients) in [("unix", ClientKind::Unix), ("tcp", ClientKind::Tcp)] {
            let mut clients = Clients::new(clients).expect("clients");
            criterion.bench_function(
                &format!("handoff pair, {name}, {client} client"),
                |bencher| {
                    bencher.iter(|| {
                        let connection = endpoint.connect().expect("the queue is empty");
                        let (ours, theirs) = clients.open().expect("descriptors are free");
                        pass(&connection, DEFAULT_DATA.as_bytes(), theirs.as_raw_fd())
                            .expect("the message fits");
                        drop(theirs);
                        (ours, receive(&listener))
                    });
                },
            );
        }
    }
}

fn receive(listener: &OwnedFd) -> OwnedFd {
    let connection = accept_with(listener, SocketFlags::CLOEXEC).expect("a connection waits");
    let mut payload = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let pieces = &mut [IoSliceMut::new(&mut payload)];
    recvmsg(&connection, pieces, &mut control, RecvFlags::CMSG_CLOEXEC).expect("a message waits");
    match control.drain().next() {
        Some(RecvAncillaryMessage::ScmRights(mut clients)) => clients.next().expect("a client"),
        _ => panic!("no descriptor came"),
    }
}

criterion_group!(benches, sse_scan, handoff);
criterion_main!(benches);
