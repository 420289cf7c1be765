//! The broker without sockets: a test bench whose clients send and receive bytes by direct calls.

mod any_bytes;
mod definitions;
mod delivering;
mod disk;
mod fairness;
mod limits;
mod memory;
mod negotiating;
mod replies;
mod simulated_peers;

use std::rc::Rc;

use amq_protocol::frame::{AMQPFrame, gen_frame, parse_frame};
use amq_protocol::protocol::basic::{AMQPMethod as Basic, AMQPProperties};
use amq_protocol::protocol::channel::AMQPMethod as ChannelMethod;
use amq_protocol::protocol::connection::AMQPMethod as ConnectionMethod;
use amq_protocol::protocol::queue::AMQPMethod as QueueMethod;
use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection, exchange, queue, tx};
use amq_protocol::types::{AMQPValue, FieldTable};

use super::*;

/// A broker and its clients.
pub(super) struct Stand {
    pub(super) broker: Broker,
}

impl Stand {
    pub(super) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(super) fn with(config: Config) -> Self {
        Self {
            broker: Broker::new(Rc::new(config)),
        }
    }

    /// A client that has sent the protocol header.
    pub(super) fn stranger(&mut self) -> ConnectionId {
        let (id, _) = self.broker.connect(None);
        self.broker.receive(id, b"AMQP\x00\x00\x09\x01");
        id
    }

    /// A client with channel 1.
    pub(super) fn client(&mut self) -> ConnectionId {
        let id = self.stranger();
        self.log_in(id, "guest", "/");
        self.method(
            id,
            1,
            AMQPClass::Channel(ChannelMethod::Open(channel::Open {})),
        );
        let received = self.received(id);
        assert_eq!(
            received.last().map(String::as_str),
            Some("channel.open-ok"),
            "{received:?}"
        );
        id
    }

    pub(super) fn log_in(&mut self, id: ConnectionId, password: &str, vhost: &str) {
        let mut capabilities = FieldTable::default();
        for name in [
            "authentication_failure_close",
            "consumer_cancel_notify",
            "connection.blocked",
        ] {
            capabilities.insert(name.into(), AMQPValue::Boolean(true));
        }
        let mut client_properties = FieldTable::default();
        client_properties.insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
        let start = connection::StartOk {
            client_properties,
            mechanism: "PLAIN".into(),
            response: format!("\0guest\0{password}").into(),
            locale: "en_US".into(),
        };
        self.method(
            id,
            0,
            AMQPClass::Connection(ConnectionMethod::StartOk(start)),
        );
        let tune = connection::TuneOk {
            channel_max: 10,
            frame_max: 16_384,
            heartbeat: 0,
        };
        self.method(id, 0, AMQPClass::Connection(ConnectionMethod::TuneOk(tune)));
        let open = connection::Open {
            virtual_host: vhost.into(),
        };
        self.method(id, 0, AMQPClass::Connection(ConnectionMethod::Open(open)));
    }

    pub(super) fn method(&mut self, id: ConnectionId, channel: u16, method: AMQPClass) {
        self.frame(id, &AMQPFrame::Method(channel, method));
    }

    /// Sends a method on channel 1. Returns what the client receives.
    pub(super) fn run(&mut self, id: ConnectionId, method: AMQPClass) -> Vec<String> {
        self.method(id, 1, method);
        self.received(id)
    }

    pub(super) fn frame(&mut self, id: ConnectionId, frame: &AMQPFrame) {
        self.read(id, &encode(frame));
    }

    /// Processes a read of a client, after what it has read before.
    pub(super) fn read(&mut self, id: ConnectionId, bytes: &[u8]) {
        let backlog = self.connection(id).backlog().to_vec();
        self.broker.receive(id, &[&backlog, bytes].concat());
    }

    pub(super) fn connection(&mut self, id: ConnectionId) -> &mut Connection {
        self.broker.connections.get_mut(id).unwrap()
    }

    pub(super) fn publish_as(
        &mut self,
        id: ConnectionId,
        to: (&str, &str),
        properties: AMQPProperties,
        body: &[u8],
    ) {
        for frame in publish_frames(to, properties, body) {
            self.frame(id, &frame);
        }
    }

    pub(super) fn publish(&mut self, id: ConnectionId, queue: &str, body: &str) {
        self.publish_as(id, ("", queue), AMQPProperties::default(), body.as_bytes());
    }

    pub(super) fn declare(
        &mut self,
        id: ConnectionId,
        queue: &str,
        arguments: &[(&str, AMQPValue)],
    ) {
        let received = self.run(id, declare_queue(queue, arguments, |_| ()));
        assert_eq!(received, ["queue.declare-ok 0 0"]);
    }

    pub(super) fn basic(&mut self, id: ConnectionId, method: Basic) {
        self.method(id, 1, AMQPClass::Basic(method));
    }

    pub(super) fn consume(&mut self, id: ConnectionId, queue: &str, tag: &str, no_ack: bool) {
        let consume = basic::Consume {
            queue: queue.into(),
            consumer_tag: tag.into(),
            no_ack,
            ..basic::Consume::default()
        };
        self.basic(id, Basic::Consume(consume));
    }

    pub(super) fn get(&mut self, id: ConnectionId, queue: &str, no_ack: bool) {
        let queue = queue.into();
        self.basic(id, Basic::Get(basic::Get { queue, no_ack }));
    }

    pub(super) fn cancel(&mut self, id: ConnectionId, tag: &str) {
        let cancel = basic::Cancel {
            consumer_tag: tag.into(),
            nowait: true,
        };
        self.basic(id, Basic::Cancel(cancel));
    }

    pub(super) fn select_confirms(&mut self, id: ConnectionId) {
        let select = confirm::AMQPMethod::Select(confirm::Select { nowait: true });
        self.method(id, 1, AMQPClass::Confirm(select));
    }

    /// Returns the number of ready messages in a queue.
    pub(super) fn ready(&mut self, id: ConnectionId, queue: &str) -> String {
        let passive = declare_queue(queue, &[], |declare| declare.passive = true);
        self.run(id, passive).pop().unwrap()
    }

    /// Advances the clock by this many milliseconds.
    pub(super) fn pass(&mut self, milliseconds: u64) {
        self.broker.now += milliseconds;
        self.broker.expire();
    }

    pub(super) fn bytes(&mut self, id: ConnectionId) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.broker.connections.get(id).is_some() {
            self.broker.write_output(id, |slices| {
                let before = bytes.len();
                slices
                    .iter()
                    .for_each(|slice| bytes.extend_from_slice(slice));
                Ok(bytes.len() - before)
            });
        }
        bytes
    }

    /// Writes output to a socket that accepts this many bytes.
    pub(super) fn write(&mut self, id: ConnectionId, mut room: usize) {
        self.broker
            .write_output(id, |_| match std::mem::take(&mut room) {
                0 => Err(std::io::ErrorKind::WouldBlock.into()),
                room => Ok(room),
            });
    }

    pub(super) fn frames(&mut self, id: ConnectionId) -> Vec<AMQPFrame> {
        let bytes = self.bytes(id);
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let (left, frame) = parse_frame(rest).unwrap();
            frames.push(frame);
            rest = left;
        }
        frames
    }

    /// Returns a short form of the methods that a client received since the last call.
    pub(super) fn received(&mut self, id: ConnectionId) -> Vec<String> {
        let mut received: Vec<String> = Vec::new();
        for frame in self.frames(id) {
            match frame {
                AMQPFrame::Body(_, body) => {
                    let text = String::from_utf8_lossy(&body).into_owned();
                    received.last_mut().unwrap().push_str(&text);
                }
                AMQPFrame::Header(..) => received.last_mut().unwrap().push(' '),
                AMQPFrame::Method(_, method) => received.push(show(&method)),
                other => received.push(format!("{other}")),
            }
        }
        received
    }
}

pub(super) fn encode(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(Vec::new().into()).unwrap().into_inner().0
}

pub(super) fn publish_frames(
    (exchange, key): (&str, &str),
    properties: AMQPProperties,
    body: &[u8],
) -> Vec<AMQPFrame> {
    let publish = basic::Publish {
        exchange: exchange.into(),
        routing_key: key.into(),
        mandatory: true,
        immediate: false,
    };
    let header = amq_protocol::frame::AMQPContentHeader {
        class_id: 60,
        body_size: body.len() as u64,
        properties,
    };
    let mut frames = vec![
        AMQPFrame::Method(1, AMQPClass::Basic(Basic::Publish(publish))),
        AMQPFrame::Header(1, header),
    ];
    frames.extend(
        body.chunks(10_000)
            .map(|chunk| AMQPFrame::Body(1, chunk.to_vec())),
    );
    frames
}

/// Returns a message as a client sends it.
pub(super) fn message(to: (&str, &str)) -> Vec<u8> {
    let frames = publish_frames(to, AMQPProperties::default(), b"m");
    frames.iter().flat_map(encode).collect()
}

/// Returns the settlement of all deliveries as refused.
pub(super) fn nack_all(requeue: bool) -> Basic {
    Basic::Nack(basic::Nack {
        delivery_tag: 0,
        multiple: true,
        requeue,
    })
}

/// Returns arguments that send dead letters to a queue.
pub(super) fn dead_to(queue: &str) -> [(&str, AMQPValue); 2] {
    [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(queue)),
    ]
}

pub(super) fn declare_queue(
    queue: &str,
    arguments: &[(&str, AMQPValue)],
    change: impl FnOnce(&mut queue::Declare),
) -> AMQPClass {
    let mut declare = queue::Declare {
        queue: queue.into(),
        arguments: table(arguments),
        ..queue::Declare::default()
    };
    change(&mut declare);
    AMQPClass::Queue(QueueMethod::Declare(declare))
}

pub(super) fn select_tx() -> AMQPClass {
    AMQPClass::Tx(tx::AMQPMethod::Select(tx::Select {}))
}

pub(super) fn commit() -> AMQPClass {
    AMQPClass::Tx(tx::AMQPMethod::Commit(tx::Commit {}))
}

pub(super) fn roll_back() -> AMQPClass {
    AMQPClass::Tx(tx::AMQPMethod::Rollback(tx::Rollback {}))
}

pub(super) fn delete(queue: &str) -> AMQPClass {
    let delete = queue::Delete {
        queue: queue.into(),
        ..queue::Delete::default()
    };
    AMQPClass::Queue(QueueMethod::Delete(delete))
}

pub(super) fn bind(queue: &str, exchange: &str, key: &str) -> AMQPClass {
    let bind = queue::Bind {
        queue: queue.into(),
        exchange: exchange.into(),
        routing_key: key.into(),
        ..queue::Bind::default()
    };
    AMQPClass::Queue(QueueMethod::Bind(bind))
}

pub(super) fn declare_exchange(
    exchange: &str,
    kind: &str,
    change: impl FnOnce(&mut exchange::Declare),
) -> AMQPClass {
    let mut declare = exchange::Declare {
        exchange: exchange.into(),
        kind: kind.into(),
        ..exchange::Declare::default()
    };
    change(&mut declare);
    AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare))
}

pub(super) fn bind_exchange(destination: &str, source: &str, key: &str) -> AMQPClass {
    let bind = exchange::Bind {
        destination: destination.into(),
        source: source.into(),
        routing_key: key.into(),
        ..exchange::Bind::default()
    };
    AMQPClass::Exchange(exchange::AMQPMethod::Bind(bind))
}

pub(super) fn table(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert((*name).into(), value.clone());
    }
    table
}

pub(super) fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn show(method: &AMQPClass) -> String {
    match method {
        AMQPClass::Connection(ConnectionMethod::Start(_)) => "connection.start".to_owned(),
        AMQPClass::Connection(ConnectionMethod::Tune(_)) => "connection.tune".to_owned(),
        AMQPClass::Connection(ConnectionMethod::OpenOk(_)) => "connection.open-ok".to_owned(),
        AMQPClass::Connection(ConnectionMethod::Close(close)) => {
            format!("connection.close {}", close.reply_code)
        }
        AMQPClass::Connection(ConnectionMethod::CloseOk(_)) => "connection.close-ok".to_owned(),
        AMQPClass::Connection(ConnectionMethod::Blocked(_)) => "connection.blocked".to_owned(),
        AMQPClass::Connection(ConnectionMethod::Unblocked(_)) => "connection.unblocked".to_owned(),
        AMQPClass::Channel(ChannelMethod::OpenOk(_)) => "channel.open-ok".to_owned(),
        AMQPClass::Channel(ChannelMethod::Close(close)) => {
            format!("channel.close {}", close.reply_code)
        }
        AMQPClass::Queue(QueueMethod::DeclareOk(ok)) => {
            format!(
                "queue.declare-ok {} {}",
                ok.message_count, ok.consumer_count
            )
        }
        AMQPClass::Queue(QueueMethod::DeleteOk(ok)) => {
            format!("queue.delete-ok {}", ok.message_count)
        }
        AMQPClass::Queue(QueueMethod::PurgeOk(ok)) => {
            format!("queue.purge-ok {}", ok.message_count)
        }
        AMQPClass::Exchange(exchange::AMQPMethod::DeclareOk(_)) => "exchange.declare-ok".to_owned(),
        AMQPClass::Basic(Basic::Deliver(deliver)) => {
            let again = if deliver.redelivered { " again" } else { "" };
            format!("{} {}{again}", deliver.consumer_tag, deliver.delivery_tag)
        }
        AMQPClass::Basic(Basic::GetOk(ok)) => {
            let again = if ok.redelivered { " again" } else { "" };
            format!("get {} {}{again}", ok.delivery_tag, ok.message_count)
        }
        AMQPClass::Basic(Basic::GetEmpty(_)) => "get-empty".to_owned(),
        AMQPClass::Basic(Basic::ConsumeOk(ok)) => format!("consume-ok {}", ok.consumer_tag),
        AMQPClass::Basic(Basic::Cancel(cancel)) => format!("cancel {}", cancel.consumer_tag),
        AMQPClass::Basic(Basic::Return(returned)) => format!("return {}", returned.reply_code),
        AMQPClass::Basic(Basic::Ack(ack)) => format!("ack {} {}", ack.delivery_tag, ack.multiple),
        AMQPClass::Basic(Basic::Nack(nack)) => {
            format!("nack {} {}", nack.delivery_tag, nack.multiple)
        }
        other => format!(
            "{}.{}",
            other.get_amqp_class_id(),
            other.get_amqp_method_id()
        ),
    }
}
