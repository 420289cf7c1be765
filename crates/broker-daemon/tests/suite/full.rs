//! A full disk, by means of a small file system.

use std::io::Write as _;
use std::path::Path;

use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;

use crate::process::Process;
use crate::support::run;

/// Size of a message.
const BODY: usize = 1 << 20;

/// A file system of 200 MiB, which is full in the third segment; `None` if mounting is not allowed.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (kind, none) = (Some("tmpfs"), MsFlags::empty());
        let Err(error) = mount(kind, folder.path(), kind, none, Some("size=200m")) else {
            return Some(Self(folder));
        };
        let required = std::env::var_os("DROVER_REQUIRE_ALL").is_some_and(|value| value == "1");
        assert!(!required, "mounting a small file system: {error}");
        // The test runner shows this, as it does not show what the print macros write.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: needs the right to mount a file system: {error}"
        );
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        umount2(self.0.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

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
    let Some(small) = Small::new() else { return };
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
