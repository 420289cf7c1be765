//! A broker under test, in a thread of this process, on ports that the system chose.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use broker_daemon::{Config, Server};
use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use test_kit::metrics;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Generous: on a busy machine everything takes longer, and a hang must still end.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A broker that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) address: String,
    pub(crate) metrics: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a broker with settings changed by `change`.
pub(crate) fn start(change: impl FnOnce(&mut Config)) -> Broker {
    let mut config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        metrics_addr: Some("127.0.0.1:0".parse().unwrap()),
        shutdown_grace: Duration::from_secs(2),
        ..Config::default()
    };
    change(&mut config);
    let (sender, receiver) = std::sync::mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    let thread = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let server = Server::bind(config).unwrap();
            let address = server.address().unwrap().to_string();
            let metrics = server.metrics_address().unwrap().to_string();
            sender.send((address, metrics)).unwrap();
            server.run(async { drop(stopped.await) }).await.unwrap();
        });
    });
    let (address, metrics) = receiver.recv().unwrap();
    Broker {
        address,
        metrics,
        stop: Some(stop),
        thread: Some(thread),
    }
}

impl Broker {
    /// Returns the value of a metric, named as on the page.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        metrics::read(&self.metrics, name)
    }

    /// Opens a lapin connection.
    pub(crate) async fn connect(&self) -> Connection {
        let uri = format!("amqp://guest:guest@{}/%2f", self.address);
        Connection::connect(&uri, ConnectionProperties::default())
            .await
            .unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking(), "the broker panicked");
        }
    }
}

/// Declares a queue, and returns how many messages are ready in it.
pub(crate) async fn declare(channel: &Channel, queue: &str, durable: bool) -> u32 {
    let options = QueueDeclareOptions {
        durable,
        ..QueueDeclareOptions::default()
    };
    let declared = channel.queue_declare(queue.into(), options, FieldTable::default());
    declared.await.unwrap().message_count()
}

pub(crate) async fn select_confirms(channel: &Channel) {
    let options = ConfirmSelectOptions::default();
    channel.confirm_select(options).await.unwrap();
}

/// Publishes a message with a delivery mode, and returns true if it was confirmed with an ack.
pub(crate) async fn publish(channel: &Channel, queue: &str, mode: u8, body: &[u8]) -> bool {
    let properties = BasicProperties::default().with_delivery_mode(mode);
    let options = BasicPublishOptions::default();
    let published = channel.basic_publish("".into(), queue.into(), options, body, properties);
    published.await.unwrap().await.unwrap().is_ack()
}

/// Fetches a message that is acknowledged later.
pub(crate) async fn get(channel: &Channel, queue: &str) -> Option<BasicGetMessage> {
    let options = BasicGetOptions::default();
    channel.basic_get(queue.into(), options).await.unwrap()
}

/// Runs a test's future with a time limit.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async { tokio::time::timeout(TIMEOUT, test).await.unwrap() })
}
