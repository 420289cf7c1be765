//! A full disk, by means of a small file system.

use std::path::Path;

use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel};
use nix::sys::signal::Signal;

use crate::process::Process;
use crate::small_disk::SmallDisk;
use crate::support::run;

/// Size of a message.
const BODY: usize = 1 << 20;

async fn declare(channel: &Channel, queue: &str, durable: bool) -> u32 {
    let options = QueueDeclareOptions {
        durable,
        ..QueueDeclareOptions::default()
    };
    let declared = channel.queue_declare(queue.into(), options, FieldTable::default());
    declared.await.unwrap().message_count()
}

/// Publishes a message, and returns true if it was confirmed.
async fn publish(channel: &Channel, queue: &str, mode: u8, number: u32) -> bool {
    let mut body = vec![0; BODY];
    body[..4].copy_from_slice(&number.to_be_bytes());
    let properties = BasicProperties::default().with_delivery_mode(mode);
    let options = BasicPublishOptions::default();
    let published = channel.basic_publish("".into(), queue.into(), options, &body, properties);
    published.await.unwrap().await.unwrap().is_ack()
}

/// Publishes until the disk is full. Returns how many messages were confirmed.
fn fill(folder: &Path) -> u32 {
    let broker = Process::with_data(folder);
    let confirmed = run(async {
        let (_connection, channel) = broker.channel().await;
        let options = ConfirmSelectOptions::default();
        channel.confirm_select(options).await.unwrap();
        assert_eq!(declare(&channel, "kept", true).await, 0);
        assert_eq!(declare(&channel, "passing", false).await, 0);
        let mut confirmed = 0;
        while publish(&channel, "kept", 2, confirmed).await {
            confirmed += 1;
            assert!(confirmed < 200, "more than there is space for");
        }
        // Transient messages still pass.
        assert!(publish(&channel, "passing", 2, 0).await);
        assert!(publish(&channel, "kept", 1, 0).await);
        confirmed
    });
    assert_eq!(broker.end(Signal::SIGKILL), None);
    confirmed
}

#[test]
fn a_full_disk_refuses_loses_nothing_and_takes_again_what_fits() {
    // It is full in the third segment.
    let Some(small) = SmallDisk::mount("200m") else {
        return;
    };
    let confirmed = fill(small.0.path());
    assert!(confirmed > 100, "{confirmed}");

    let broker = Process::with_data(small.0.path());
    run(async {
        let (_connection, channel) = broker.channel().await;
        assert_eq!(declare(&channel, "kept", true).await, confirmed);
        for number in 0..confirmed {
            let options = BasicGetOptions::default();
            let message = channel.basic_get("kept".into(), options).await.unwrap();
            let message = message.unwrap();
            assert_eq!(message.data[..4], number.to_be_bytes());
            message.ack(BasicAckOptions::default()).await.unwrap();
        }
        let options = ConfirmSelectOptions::default();
        channel.confirm_select(options).await.unwrap();
        // There is space once the acknowledgements are on disk.
        while !publish(&channel, "kept", 2, 7).await {}
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}
