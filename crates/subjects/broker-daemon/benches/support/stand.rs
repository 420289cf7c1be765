//! A broker without sockets, with 20 producers and 20 consumers of one queue.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
use amq_protocol::protocol::basic::{AMQPMethod as Basic, AMQPProperties};
use amq_protocol::protocol::queue::AMQPMethod as QueueMethod;
use amq_protocol::protocol::{AMQPClass, basic, confirm, queue};
use broker_daemon::{Client, Config, Direct};
use frames::{encode, greeting};
use tempfile::TempDir;

#[path = "../../tests/suite/frames.rs"]
#[expect(dead_code, reason = "the tests send more kinds of frames")]
mod frames;

/// Number of producers, and of consumers.
pub(crate) const CLIENTS: usize = 20;
const BODY: usize = 1024;
const QUEUE: &str = "perftest";
/// Bytes of a basic.ack.
const ACK: usize = 21;

/// A broker whose clients have completed their setup.
pub(crate) struct Stand {
    pub(crate) direct: Direct,
    producers: Vec<Client>,
    consumers: Vec<Client>,
    /// The content of a producer's read.
    publishes: Vec<u8>,
    /// Messages per read of a producer, and messages that a consumer may have unacknowledged.
    batch: u16,
    last_tag: u64,
    output: Vec<u8>,
    /// The folder of the log, if there is one.
    _dir: Option<TempDir>,
}

impl Stand {
    pub(crate) fn new(is_persistent: bool, batch: u16) -> Self {
        let dir = is_persistent.then(|| tempfile::tempdir().expect("a folder"));
        let config = Config {
            data_dir: dir.as_ref().map(|dir| dir.path().to_owned()),
            ..Config::default()
        };
        let mut direct = Direct::new(config).expect("an empty folder opens");
        let producers = (0..CLIENTS).map(|_| client(&mut direct)).collect();
        let consumers = (0..CLIENTS).map(|_| client(&mut direct)).collect();
        let mut stand = Self {
            direct,
            producers,
            consumers,
            publishes: publish(is_persistent).repeat(batch.into()),
            batch,
            last_tag: 0,
            output: Vec::new(),
            _dir: dir,
        };
        stand.begin(is_persistent);
        stand
    }

    fn begin(&mut self, is_persistent: bool) {
        for producer in self.producers.clone() {
            let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
            let declare = queue::Declare {
                queue: QUEUE.into(),
                durable: is_persistent,
                ..queue::Declare::default()
            };
            let mut frames = method(AMQPClass::Queue(QueueMethod::Declare(declare)));
            frames.extend(method(AMQPClass::Confirm(select)));
            self.direct.receive(producer, &frames);
            self.direct.take_output(producer, &mut self.output);
        }
        for consumer in self.consumers.clone() {
            let qos = basic::Qos {
                prefetch_count: self.batch,
                global: false,
            };
            let consume = basic::Consume {
                queue: QUEUE.into(),
                consumer_tag: "c".into(),
                ..basic::Consume::default()
            };
            let mut frames = method(AMQPClass::Basic(Basic::Qos(qos)));
            frames.extend(method(AMQPClass::Basic(Basic::Consume(consume))));
            self.direct.receive(consumer, &frames);
            self.direct.take_output(consumer, &mut self.output);
        }
    }

    /// Performs one read and one write of every client. Each consumer receives as much as its prefetch allows, and
    /// acknowledges it.
    pub(crate) fn round(&mut self) {
        for producer in &self.producers {
            self.direct.receive(*producer, &self.publishes);
        }
        self.direct.flush_log();
        let acks = acks(self.last_tag, self.batch);
        self.last_tag += u64::from(self.batch);
        for consumer in &self.consumers {
            self.output.clear();
            self.direct.take_output(*consumer, &mut self.output);
            let delivered = self.output.len() / BODY;
            assert!(delivered >= self.batch.into(), "{delivered} were delivered");
            self.direct.receive(*consumer, &acks);
        }
        for producer in &self.producers {
            self.output.clear();
            self.direct.take_output(*producer, &mut self.output);
        }
        self.direct.flush_log();
    }
}

fn method(method: AMQPClass) -> Vec<u8> {
    encode(&[AMQPFrame::Method(1, method)])
}

/// A client that has logged in and opened channel 1.
fn client(direct: &mut Direct) -> Client {
    let client = direct.connect();
    direct.receive(client, &greeting("guest", "/"));
    client
}

/// Returns the three frames of a message.
fn publish(is_persistent: bool) -> Vec<u8> {
    let to_queue = basic::Publish {
        exchange: "".into(),
        routing_key: QUEUE.into(),
        mandatory: false,
        immediate: false,
    };
    let properties = AMQPProperties::default().with_delivery_mode(1 + u8::from(is_persistent));
    let header = AMQPContentHeader {
        class_id: 60,
        body_size: BODY as u64,
        properties,
    };
    encode(&[
        AMQPFrame::Method(1, AMQPClass::Basic(Basic::Publish(to_queue))),
        AMQPFrame::Header(1, header),
        AMQPFrame::Body(1, vec![7; BODY]),
    ])
}

/// Returns an acknowledgement for each of `count` deliveries after this one.
fn acks(last: u64, count: u16) -> Vec<u8> {
    let mut acks = Vec::with_capacity(ACK * usize::from(count));
    for tag in last + 1..=last + u64::from(count) {
        acks.extend_from_slice(&[1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80]);
        acks.extend_from_slice(&tag.to_be_bytes());
        acks.extend_from_slice(&[0, 0xCE]);
    }
    acks
}
