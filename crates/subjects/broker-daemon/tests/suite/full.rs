//! A full disk, by means of a small file system.

use std::path::Path;

use lapin::Channel;
use lapin::options::BasicAckOptions;
use nix::sys::signal::Signal;

use crate::process::Process;
use crate::small_disk::SmallDisk;
use crate::support::{self, declare, get, run, select_confirms};

/// Size of a message.
const BODY: usize = 1 << 20;

/// Publishes a large message, and returns true if it was confirmed.
async fn publish(channel: &Channel, queue: &str, mode: u8, number: u32) -> bool {
    let mut body = vec![0; BODY];
    body[..4].copy_from_slice(&number.to_be_bytes());
    support::publish(channel, queue, mode, &body).await
}

/// Publishes until the disk is full. Returns how many messages were confirmed.
fn fill(folder: &Path) -> u32 {
    let broker = Process::with_data(folder);
    let confirmed = run(async {
        let (_connection, channel) = broker.channel().await;
        select_confirms(&channel).await;
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
            let message = get(&channel, "kept").await.unwrap();
            assert_eq!(message.data[..4], number.to_be_bytes());
            message.ack(BasicAckOptions::default()).await.unwrap();
        }
        select_confirms(&channel).await;
        // There is space once the acknowledgements are on disk.
        while !publish(&channel, "kept", 2, 7).await {}
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}
