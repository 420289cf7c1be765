//! A fuzz target: the broker survives its clients, and keeps none of them.

use std::rc::Rc;
use std::sync::LazyLock;

use amq_protocol::frame::{AMQPFrame, gen_frame};
use amq_protocol::protocol::AMQPClass;
use amq_protocol::protocol::channel::{AMQPMethod as ChannelMethod, Open as OpenChannel};
use amq_protocol::protocol::connection::{AMQPMethod as Method, Open, StartOk, TuneOk};

use super::Broker;
use crate::frame;
use crate::options::Config;
use crate::queue::ConnectionId;

/// The clients.
const CLIENTS: usize = 2;

/// The settings, which take longer to make than a client to serve.
static CONFIG: LazyLock<Config> = LazyLock::new(Config::default);

/// Returns the octets of a client that logs in and opens channel 1.
fn login() -> Vec<u8> {
    let start = StartOk {
        mechanism: "PLAIN".into(),
        response: "\0guest\0guest".into(),
        locale: "en_US".into(),
        ..StartOk::default()
    };
    let tune = TuneOk {
        channel_max: 10,
        frame_max: 4096,
        heartbeat: 0,
    };
    let open = Open {
        virtual_host: "/".into(),
    };
    let frames = [
        Method::StartOk(start),
        Method::TuneOk(tune),
        Method::Open(open),
    ];
    let frames = frames.map(|method| AMQPFrame::Method(0, AMQPClass::Connection(method)));
    let channel = AMQPClass::Channel(ChannelMethod::Open(OpenChannel {}));
    let mut octets = b"AMQP\x00\x00\x09\x01".to_vec();
    for frame in frames.iter().chain([&AMQPFrame::Method(1, channel)]) {
        let written = gen_frame(frame)(Vec::new().into());
        octets.extend(written.expect("memory takes any frame").into_inner().0);
    }
    octets
}

/// Processes what a client sends, after what it has sent before.
fn receive(broker: &mut Broker, id: ConnectionId, octets: &[u8]) {
    if let Some(connection) = broker.connections.get_mut(id) {
        let input = [connection.backlog(), octets].concat();
        broker.receive(id, &input);
    }
}

/// Reads what the broker sends to a client: frames only.
fn read(broker: &mut Broker, id: ConnectionId) {
    if broker.connections.get(id).is_none() {
        return;
    }
    let mut octets = Vec::new();
    broker.write_output(id, |slices| {
        let before = octets.len();
        slices
            .iter()
            .for_each(|slice| octets.extend_from_slice(slice));
        Ok(octets.len() - before)
    });
    // The version that is spoken, for one that is not.
    let mut rest = octets
        .strip_prefix(b"AMQP\x00\x00\x09\x01")
        .unwrap_or(&octets);
    while !rest.is_empty() {
        // Their payload may be what another client sent, unchanged.
        let frame = frame::split(rest, usize::MAX).expect("the broker sends frames");
        rest = &rest[frame.expect("a frame is whole").1..];
    }
}

/// Two clients do whatever they like. Each step has a byte for the client and what it does, one for the length of what
/// it sends, and that.
pub(crate) fn clients(input: &[u8]) {
    let Some((&first, mut steps)) = input.split_first() else {
        return;
    };
    let mut broker = Broker::new(Rc::new(CONFIG.clone()));
    let ids: [ConnectionId; CLIENTS] = std::array::from_fn(|_| broker.connect(None).0);
    for (index, id) in ids.into_iter().enumerate() {
        if first >> index & 1 == 0 {
            receive(&mut broker, id, &login());
        }
    }
    while let [step, length, rest @ ..] = steps {
        let (sent, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        steps = rest;
        let id = ids[usize::from(step & 1)];
        let channel = u16::from(step >> 1 & 3);
        match step >> 3 {
            0 => receive(&mut broker, id, sent),
            1 => read(&mut broker, id),
            2 => {
                broker.now += u64::from(*length) * 100;
                broker.expire();
            }
            3 => broker.finish_turn(),
            // Frames that are whole, so that not all of them end the connection.
            kind => {
                let kind = [frame::METHOD, frame::HEADER, frame::BODY, kind][usize::from(kind & 3)];
                let mut octets = Vec::new();
                frame::begin(&mut octets, kind, channel, sent.len());
                octets.extend_from_slice(sent);
                frame::end(&mut octets);
                receive(&mut broker, id, &octets);
            }
        }
    }
    for id in ids {
        read(&mut broker, id);
        broker.disconnect(id);
    }
    assert_eq!(broker.connections.len(), 0);
    assert_eq!(broker.topology.consumer_count(), 0);
}
