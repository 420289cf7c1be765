//! Killed under load, again and again: nothing that was confirmed is lost.

use std::collections::BTreeSet;

use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel};
use nix::sys::signal::Signal;

use crate::process::Process;
use crate::support::run;

const ROUNDS: u32 = 8;
/// Messages that are under way at once.
const WINDOW: u32 = 64;

async fn declare(channel: &Channel) {
    let options = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare("load".into(), options, FieldTable::default())
        .await
        .unwrap();
}

/// Publishes from `next` on until the broker is gone, which it is after so many confirms. Returns what was confirmed.
async fn publish_until_killed(
    broker: &Process,
    channel: &Channel,
    next: &mut u32,
    kill_after: usize,
) -> Vec<u32> {
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .unwrap();
    let mut confirmed = Vec::new();
    loop {
        let mut window = Vec::new();
        for number in *next..*next + WINDOW {
            let properties = BasicProperties::default().with_delivery_mode(2);
            let body = number.to_be_bytes();
            let options = BasicPublishOptions::default();
            let Ok(confirm) = channel
                .basic_publish("".into(), "load".into(), options, &body, properties)
                .await
            else {
                return confirmed;
            };
            window.push((number, confirm));
        }
        *next += WINDOW;
        for (number, confirm) in window {
            match confirm.await {
                Ok(confirm) if confirm.is_ack() => confirmed.push(number),
                _ => return confirmed,
            }
            if confirmed.len() == kill_after {
                broker.signal(Signal::SIGKILL);
            }
        }
    }
}

async fn take_all(channel: &Channel) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let options = BasicGetOptions { no_ack: true };
    while let Some(message) = channel.basic_get("load".into(), options).await.unwrap() {
        let number = u32::from_be_bytes(message.data.as_slice().try_into().unwrap());
        assert!(found.insert(number), "{number} is there twice");
    }
    found
}

#[test]
fn every_confirmed_message_survives_every_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (mut next, mut expected) = (0, BTreeSet::new());
    for round in 0..ROUNDS {
        let broker = Process::with_data(folder.path());
        run(async {
            let (_connection, channel) = broker.channel().await;
            declare(&channel).await;
            // Deliveries that nobody acknowledges go back when the broker dies.
            let options = BasicConsumeOptions::default();
            let consumer =
                channel.basic_consume("load".into(), "".into(), options, FieldTable::default());
            let _consumer = consumer.await.unwrap();
            let kill_after = 50 + 37 * round as usize;
            let confirmed = publish_until_killed(&broker, &channel, &mut next, kill_after).await;
            assert!(confirmed.len() >= kill_after);
            expected.extend(confirmed);
        });
    }
    let broker = Process::with_data(folder.path());
    run(async {
        let (_connection, channel) = broker.channel().await;
        let found = take_all(&channel).await;
        let lost: Vec<&u32> = expected.difference(&found).collect();
        assert!(lost.is_empty(), "{lost:?} of {} are lost", expected.len());
    });
    assert_eq!(broker.end(Signal::SIGTERM), Some(0));
}
