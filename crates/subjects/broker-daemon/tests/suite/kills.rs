//! Repeated kills under load at any instant: no confirmed message is lost, and none is duplicated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lapin::message::{Delivery, DeliveryResult};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, ExchangeKind};
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use test_kit::{scaled, seed};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use crate::process::Process;
use crate::support::run;

/// Kills under load of a full run. Further ones hit a broker that is just recovering.
const KILLS: u64 = 220;
const PUBLISHERS: u32 = 3;
/// Each message goes to both, so it is stored once and settled twice.
const QUEUES: [&str; 2] = ["left", "right"];
const EXCHANGE: &str = "amq.fanout";
/// Messages of a publisher that are under way at once.
const WINDOW: usize = 32;
/// Deliveries that a consumer may have without acknowledging one.
const PREFETCH: u16 = 200;
/// Acknowledgements of a queue of which at least half are stored: many times `PREFETCH`, so most are of earlier lives.
const ENOUGH: usize = 2000;
/// Backlog above which publishers wait for consumers: all of it is read again after each restart.
const BEHIND: usize = 1000;
/// A kill waits for fewer confirmed messages of its life than this.
const CONFIRMED: usize = 100;
/// Longest pause between the last of them and the kill, in microseconds: the kill hits any state.
const LONGEST: u64 = 80_000;

/// The events over all lives of the broker.
#[derive(Default)]
struct Seen {
    next: AtomicU32,
    /// Messages that the broker confirmed.
    confirmed: Mutex<BTreeSet<u32>>,
    /// Delivered messages by queue, with the life of the last delivery.
    delivered: [Mutex<BTreeMap<u32, u32>>; 2],
    /// Messages by queue whose acknowledgement was sent, whether or not the broker stored it.
    acked: [Mutex<BTreeSet<u32>>; 2],
    /// Notified after each confirm and each acknowledgement.
    progress: Notify,
}

impl Seen {
    fn confirmed_count(&self) -> usize {
        self.confirmed.lock().unwrap().len()
    }

    /// Returns the acknowledgements of the queue that has fewer of them.
    fn acked_count(&self) -> usize {
        let acked = self.acked.iter().map(|acked| acked.lock().unwrap().len());
        acked.min().unwrap_or_default()
    }

    fn is_behind(&self) -> bool {
        self.confirmed_count() > self.acked_count() + BEHIND
    }

    /// Waits until a condition holds that confirms and acknowledgements change.
    async fn wait_until(&self, holds: impl Fn(&Self) -> bool) {
        loop {
            // Created before the look, so that no notification after it is missed.
            let progress = self.progress.notified();
            if holds(self) {
                return;
            }
            progress.await;
        }
    }
}

/// Returns a body of varying length that begins with its number.
fn body(number: u32) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(4 + number as usize % 1500, number.to_be_bytes()[3]);
    body
}

fn number(data: &[u8]) -> u32 {
    let number = u32::from_be_bytes(data[..4].try_into().unwrap());
    assert!(data == body(number), "the body of {number} is another");
    number
}

async fn declare(channel: &Channel) {
    for queue in QUEUES {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let none = FieldTable::default;
        channel
            .queue_declare(queue.into(), options, none())
            .await
            .unwrap();
        let options = QueueBindOptions::default();
        channel
            .queue_bind(queue.into(), EXCHANGE.into(), "".into(), options, none())
            .await
            .unwrap();
    }
}

/// Publishes until the broker is gone.
async fn publish(channel: Channel, seen: Arc<Seen>) -> Option<()> {
    let options = ConfirmSelectOptions::default();
    channel.confirm_select(options).await.ok()?;
    loop {
        seen.wait_until(|seen| !seen.is_behind()).await;
        let mut window = Vec::with_capacity(WINDOW);
        for _ in 0..WINDOW {
            let number = seen.next.fetch_add(1, Ordering::Relaxed);
            let properties = BasicProperties::default().with_delivery_mode(2);
            let options = BasicPublishOptions::default();
            let (to, body) = (EXCHANGE.into(), body(number));
            let published = channel.basic_publish(to, "".into(), options, &body, properties);
            window.push((number, published.await.ok()?));
        }
        for (number, confirm) in window {
            if !confirm.await.ok()?.is_ack() {
                return None;
            }
            seen.confirmed.lock().unwrap().insert(number);
            seen.progress.notify_waiters();
        }
    }
}

/// Consumes; `None` follows the last delivery.
async fn consume(channel: &Channel, queue: usize) -> UnboundedReceiver<Option<Delivery>> {
    let options = BasicQosOptions::default();
    channel.basic_qos(PREFETCH, options).await.unwrap();
    let (sender, receiver) = unbounded_channel();
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let consumer = channel.basic_consume(QUEUES[queue].into(), "".into(), options, none);
    let consumer = consumer.await.unwrap();
    consumer.set_delegate(move |delivery: DeliveryResult| {
        // The receiver may be gone.
        let _ = sender.send(delivery.ok().flatten());
        async {}
    });
    receiver
}

/// Acknowledges most deliveries, until the broker is gone.
async fn acknowledge(
    mut receiver: UnboundedReceiver<Option<Delivery>>,
    queue: usize,
    life: u32,
    seen: Arc<Seen>,
) -> Option<()> {
    loop {
        let delivery: Delivery = receiver.recv().await??;
        let number = number(&delivery.data);
        let before = seen.delivered[queue].lock().unwrap().insert(number, life);
        assert!(before != Some(life), "{number} came twice in life {life}");
        assert!(
            before.is_none() || delivery.redelivered,
            "{number} came again in life {life}, and as if for the first time"
        );
        // One of eight is left for the next life.
        if before.is_some() || !number.is_multiple_of(8) {
            seen.acked[queue].lock().unwrap().insert(number);
            delivery.ack(BasicAckOptions::default()).await.ok()?;
            seen.progress.notify_waiters();
        }
    }
}

/// Takes all remaining messages, and compares them with the expected ones. Returns how many acknowledgements were sent,
/// and how many of them were not stored.
async fn check(channel: &Channel, queue: usize, seen: &Seen) -> (usize, usize) {
    let mut found = BTreeSet::new();
    let options = BasicGetOptions { no_ack: true };
    while let Some(message) = channel
        .basic_get(QUEUES[queue].into(), options)
        .await
        .unwrap()
    {
        let number = number(&message.data);
        assert!(message.redelivered);
        assert!(found.insert(number), "{number} is there twice");
    }
    let acked = seen.acked[queue].lock().unwrap();
    let confirmed = seen.confirmed.lock().unwrap();
    let kept: BTreeSet<u32> = found.union(&acked).copied().collect();
    let lost: Vec<&u32> = confirmed.difference(&kept).collect();
    assert!(
        lost.is_empty(),
        "{} of {} confirmed messages are lost: {lost:?}",
        lost.len(),
        confirmed.len()
    );
    let all = seen.next.load(Ordering::Relaxed);
    assert!(found.last().is_none_or(|last| *last < all));
    (acked.len(), acked.intersection(&found).count())
}

/// Puts a broker under load until `ending` returns, then sends it a signal.
async fn load(
    broker: &Process,
    life: u32,
    seen: &Arc<Seen>,
    signal: Signal,
    ending: impl Future<Output = ()>,
) {
    // Connecting is most of the cost of a life, so all publishers share one connection, and all consumers another.
    let (publishers, channel) = broker.channel().await;
    declare(&channel).await;
    let mut clients = JoinSet::new();
    for _ in 0..PUBLISHERS {
        let channel = publishers.create_channel().await.unwrap();
        clients.spawn(publish(channel, Arc::clone(seen)));
    }
    let (consumers, _channel) = broker.channel().await;
    for queue in 0..QUEUES.len() {
        let channel = consumers.create_channel().await.unwrap();
        let receiver = consume(&channel, queue).await;
        clients.spawn(acknowledge(receiver, queue, life, Arc::clone(seen)));
    }
    ending.await;
    broker.signal(signal);
    // Not every call of lapin ends with the connection. Everything they observed is already recorded.
    clients.abort_all();
    while let Some(ended) = clients.join_next().await {
        assert!(ended.is_ok() || ended.is_err_and(|error| error.is_cancelled()));
    }
}

/// Starts the broker once more, and checks its content.
fn check_all(folder: &Path, seen: &Seen) {
    let broker = Process::with_data(folder);
    run(async {
        let (_connection, channel) = broker.channel().await;
        for queue in 0..QUEUES.len() {
            let (acked, back) = check(&channel, queue, seen).await;
            // Messages of the last instants may be lost, which are all of few.
            assert!(
                acked < ENOUGH || back < acked / 2,
                "{back} of {acked} acknowledgements were not stored"
            );
        }
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}

#[test]
fn every_confirmed_message_survives_every_kill() {
    let mut random = StdRng::seed_from_u64(seed());
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Seen::default());
    let mut expected = 0;
    for life in 0..scaled(KILLS) as u32 {
        if random.random_range(0..5) == 0 {
            let after = Duration::from_micros(random.random_range(0..15_000));
            Process::kill_early(folder.path(), after);
        }
        let broker = Process::with_data(folder.path());
        let wanted = if random.random_ratio(1, 4) {
            0
        } else {
            random.random_range(1..CONFIRMED)
        };
        expected += wanted;
        let pause = Duration::from_micros(random.random_range(0..LONGEST));
        run(load(&broker, life, &seen, Signal::SIGKILL, async {
            let confirmed = seen.confirmed_count() + wanted;
            seen.wait_until(|seen| seen.confirmed_count() >= confirmed)
                .await;
            // The instant of the kill is what the test varies: no condition marks it.
            tokio::time::sleep(pause).await;
        }));
    }
    check_all(folder.path(), &seen);
    let confirmed = seen.confirmed_count();
    assert!(confirmed >= expected, "{confirmed} of {expected}");
}

#[test]
fn a_sigterm_under_load_loses_nothing_and_exits_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Seen::default());
    for life in 0..5 {
        let broker = Process::with_data(folder.path());
        // In all five lives more acknowledgements than those that can be under way in the last.
        let acked = (life as usize + 1) * ENOUGH / 5;
        run(load(&broker, life, &seen, Signal::SIGTERM, async {
            seen.wait_until(|seen| seen.acked_count() >= acked).await;
        }));
        assert_eq!(broker.ended(), Some(0));
    }
    check_all(folder.path(), &seen);
}

/// Creates durable definitions, deletes some of them, and has the broker killed as soon as the last is answered.
async fn define(broker: &Process, life: u32) {
    let (_connection, channel) = broker.channel().await;
    let none = FieldTable::default;
    let (queue, exchange) = (format!("q{life}"), format!("x{life}"));
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    for name in [&queue, "brief"] {
        let declared = channel.queue_declare(name.into(), durable, none());
        declared.await.unwrap();
    }
    let options = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let kind = ExchangeKind::Fanout;
    let declared = channel.exchange_declare(exchange.as_str().into(), kind, options, none());
    declared.await.unwrap();
    let deleted = channel.queue_delete("brief".into(), QueueDeleteOptions::default());
    deleted.await.unwrap();
    let (to, from) = (queue.as_str().into(), exchange.as_str().into());
    let bound = channel.queue_bind(to, from, "".into(), QueueBindOptions::default(), none());
    bound.await.unwrap();
    broker.signal(Signal::SIGKILL);
}

/// Checks that the definitions of earlier lives exist, and that deleted ones do not.
async fn check_definitions(broker: &Process, lives: u32) {
    let (connection, channel) = broker.channel().await;
    let (options, none) = (BasicPublishOptions::default(), FieldTable::default);
    let passive = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    for life in 0..lives {
        let (queue, exchange) = (format!("q{life}"), format!("x{life}"));
        let properties = BasicProperties::default();
        let published =
            channel.basic_publish(exchange.into(), "".into(), options, b"m", properties);
        published.await.unwrap();
        let declared = channel.queue_declare(queue.into(), passive, none());
        assert_eq!(declared.await.unwrap().message_count(), 1, "life {life}");
    }
    let apart = connection.create_channel().await.unwrap();
    let declared = apart.queue_declare("brief".into(), passive, none()).await;
    assert!(declared.is_err(), "a queue that was deleted is back");
}

#[test]
fn declarations_bindings_and_deletions_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    // The first finds an empty folder, where answers used to be furthest ahead of the disk.
    for life in 0..6 {
        let broker = Process::with_data(folder.path());
        run(async {
            check_definitions(&broker, life).await;
            define(&broker, life).await;
        });
        assert_eq!(broker.ended(), None);
    }
    let broker = Process::with_data(folder.path());
    run(check_definitions(&broker, 6));
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}
