//! The broker with a real client library, lapin.

use lapin::Channel;
use lapin::message::{Delivery, DeliveryResult};
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::support::{declare, get, publish, run, select_confirms, start};

/// Consumes, and returns the deliveries.
async fn consume(channel: &Channel, queue: &str) -> UnboundedReceiver<Delivery> {
    let options = BasicConsumeOptions::default();
    let consumer = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
    let (sender, receiver) = unbounded_channel();
    consumer
        .await
        .unwrap()
        .set_delegate(move |delivery: DeliveryResult| {
            if let Ok(Some(delivery)) = delivery {
                // A finished test is no error.
                let _ = sender.send(delivery);
            }
            async {}
        });
    receiver
}

#[test]
fn a_message_is_published_confirmed_consumed_and_acknowledged() {
    let broker = start(|_| {});
    run(async {
        let connection = broker.connect().await;
        let channel = connection.create_channel().await.unwrap();
        declare(&channel, "q", false).await;
        select_confirms(&channel).await;
        channel
            .basic_qos(10, BasicQosOptions::default())
            .await
            .unwrap();
        let mut deliveries = consume(&channel, "q").await;
        for size in [0, 1, 1000, 9_000, 300_000] {
            let body = vec![7; size];
            assert!(publish(&channel, "q", 1, &body).await);
            let delivery = deliveries.recv().await.unwrap();
            assert_eq!(delivery.data, body);
            assert!(!delivery.redelivered);
            delivery.ack(BasicAckOptions::default()).await.unwrap();
        }
        assert!(get(&channel, "q").await.is_none());
        connection.close(200, "".into()).await.unwrap();
        assert_eq!(broker.metric("broker_messages_published_total"), 5);
        assert_eq!(broker.metric("broker_messages_confirmed_total"), 5);
        assert_eq!(broker.metric("broker_messages_acked_total"), 5);
        assert_eq!(broker.metric("broker_memory_bytes"), 0);
    });
}
