//! `connection.tune` and the negotiated values: frame_max, channel_max, heartbeat.

use amq_protocol::frame::AMQPFrame;
use amqp_client::frame::encode;

use super::*;
use crate::wire::{Frame, HEARTBEAT};

type Change = fn(&mut connection::Tune);

/// Returns `connection.start-ok` with a payload of `size` bytes.
fn long_start_ok(connection: &Connection<'_>, size: usize) -> anyhow::Result<Vec<u8>> {
    let filled = |length: usize| {
        let mut start_ok = connection.login();
        let filling = AMQPValue::LongString("x".repeat(length).into());
        start_ok.client_properties.insert("filling".into(), filling);
        encode(&AMQPFrame::Method(0, start_ok.wrap()))
    };
    let room = (size + 8).checked_sub(filled(0).len());
    Ok(filled(room.context("it is too long without padding")?))
}

pub(super) fn cases(case: Begin<'_>) {
    case("connection.tune: limits that leave room for the cases").on_broker(|scope| {
        let tune = Connection::log_in(scope)?.tune.into_inner();
        let has_room = tune.channel_max > 1 && tune.frame_max >= 8192;
        ensure!(has_room, "it suggests {tune:?}");
        Ok(())
    });
    case("connection.start-ok: a frame of 4096 bytes is taken before tune").on_broker(|scope| {
        let connection = Connection::greet(scope)?;
        let frame = long_start_ok(&connection, 4096)?;
        connection.wire.write(&frame)?;
        connection.receive::<connection::Tune>()
    });
    case("connection.start-ok: a longer frame before tune ends the connection").on_broker(
        |scope| {
            let connection = Connection::greet(scope)?;
            let frame = long_start_ok(&connection, 4097)?;
            connection.wire.write(&frame)?;
            connection.is_given_up()
        },
    );
    case("connection.tune-ok: bodies are cut to the agreed frame_max").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.frame_max = 4096)?;
        // The client checks the size of every frame.
        let channel = connection.channel()?;
        channel.run("queue Q; send Q x*10000; take Q x*10000; leave")
    });
    case("frame: exactly frame_max is taken").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.frame_max = 4096)?;
        let channel = connection.channel()?;
        channel.run("queue Q; send Q x*4088; take Q x*4088; leave")
    });
    case("frame: a payload larger than frame_max is 501").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.frame_max = 4096)?;
        // RabbitMQ tolerates the 8 bytes around a payload.
        let channel = connection.channel()?;
        channel.run("bytes 01 0001 00001001 00000000 -> 501")
    });
    case("connection.tune-ok: more channels than the agreed channel_max are 530").on_broker(
        |scope| {
            let connection = Connection::open_with(scope, |tune| tune.channel_max = 2)?;
            connection.channel()?;
            connection.channel()?;
            connection.unopened(3).run("> channel.open")?;
            connection.breaks(530)
        },
    );
    case("connection.tune-ok: a channel that is closed leaves its place").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.channel_max = 1)?;
        connection
            .channel()?
            .run("reopen; reopen; channel.close; leave")
    });
    heartbeats(case);
    limits(case);
}

fn heartbeats(case: Begin<'_>) {
    case("heartbeat: with 1 s agreed the broker sends one").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.heartbeat = 1)?;
        let frame = connection.wire.frame()?;
        expect_eq("the frame", frame, Frame::new(HEARTBEAT, 0, b""))?;
        connection.close()
    });
    case("heartbeat: a client that is silent is given up").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.heartbeat = 1)?;
        // Two intervals of silence are tolerated; after this many, a broker that never closes the connection fails.
        let sent = (0..16).map_while(|_| connection.wire.frame().ok());
        let others = sent.filter(|frame| frame.kind != HEARTBEAT);
        expect_eq("frames", others.count(), 0)?;
        connection.wire.ends()
    });
    case("heartbeat: a client that sends them stays").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.heartbeat = 1)?;
        let channel = connection.channel()?;
        // Longer than the tolerated silence: every heartbeat of the broker is answered.
        for _ in 0..6 {
            let frame = connection.wire.frame()?;
            connection.wire.write(&frame.bytes())?;
        }
        channel.run("basic.qos; leave")
    });
}

/// Answers to the limits that the broker suggests.
fn limits(case: Begin<'_>) {
    let lower: [(&str, Change); 6] = [
        ("the least frame_max", |tune| tune.frame_max = 4096),
        ("a lower frame_max", |tune| tune.frame_max = 8192),
        ("one channel", |tune| tune.channel_max = 1),
        ("fewer channels", |tune| tune.channel_max /= 2),
        ("no heartbeat", |tune| tune.heartbeat = 0),
        ("another heartbeat", |tune| tune.heartbeat = 17),
    ];
    for (what, change) in lower {
        case(&format!("connection.tune-ok: {what} is taken")).on_broker(move |scope| {
            let connection = Connection::open_with(scope, change)?;
            connection.channel()?.close()?;
            connection.close()
        });
    }
    let wrong: [(&str, Change); 6] = [
        ("a higher frame_max", |tune| tune.frame_max += 1),
        ("an unlimited frame_max", |tune| tune.frame_max = 0),
        ("a frame_max below the least", |tune| tune.frame_max = 4095),
        ("a frame_max of 1", |tune| tune.frame_max = 1),
        ("a higher channel_max", |tune| tune.channel_max += 1),
        ("an unlimited channel_max", |tune| tune.channel_max = 0),
    ];
    for (what, change) in wrong {
        case(&format!("connection.tune-ok: {what} ends the connection")).on_broker(move |scope| {
            let connection = Connection::log_in(scope)?;
            change(&mut connection.tune.borrow_mut());
            connection.send(0, connection.tune_ok())?;
            connection.is_given_up()
        });
    }
}
