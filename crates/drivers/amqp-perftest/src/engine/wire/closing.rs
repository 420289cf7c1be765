//! The end of a worker: consumers are cancelled, arrived deliveries are acknowledged, connections are closed.

use amq_protocol::frame::AMQPFrame;
use load::clock;
use load::slots::Id;

use super::{Cx, WireWorker};
use crate::roles::publisher;
use crate::roles::worker::Stage;
use amqp_client::frame::encode;
use amqp_client::session;

/// Time that brokers may take to cancel consumers and to close connections.
const CLOSING_NS: u64 = 2_000_000_000;
/// Part of that time for cancelling consumers.
const CANCELLING_NS: u64 = 1_500_000_000;

impl<'a> WireWorker<'a> {
    /// Ends the worker. Consumers are cancelled first; deliveries until then still count. Once no consumer receives
    /// anything, all arrived deliveries are acknowledged and connections are closed (AMQP 0-9-1, 4.2.2): a requeued
    /// delivery would reach another consumer, or be taken for a message that never arrived. Then open operations are
    /// given up.
    pub(super) fn close(&mut self, cx: &mut Cx<'a>) -> anyhow::Result<()> {
        let now = clock::now();
        publisher::end_publishing(
            &mut self.state,
            &mut cx.state,
            &mut self.producers,
            u64::MAX,
        );
        self.state.stage = Stage::Cancelling;
        for index in 0..self.consumers.len() {
            self.act(index, cx, |role, _, frames| role.cancel(frames));
        }
        cx.serve_while(self, now + CANCELLING_NS, |this, _| {
            let mut consumers = this.consumers.iter();
            consumers.any(|consumer| consumer.role.is_subscribed())
        })?;
        self.acknowledge_all(cx);
        self.state.stage = Stage::Closing;
        self.close_connections(now, cx);
        cx.serve_while(self, now + CLOSING_NS, |_, cx| !cx.connections.is_empty())?;
        if !cx.connections.is_empty() {
            let mut left = cx.connections.iter();
            let unsent = left.any(|(_, connection)| connection.has_pending_writes());
            self.state.run.close_timed_out(unsent);
        }
        self.state.hand_in();
        (0..self.producers.len()).for_each(|index| self.give_up_messages(index, None));
        self.state.lost.end(now)
    }

    fn close_connections(&mut self, now: u64, cx: &mut Cx<'a>) {
        let close = encode(&AMQPFrame::Method(0, session::close_method()));
        let ids: Vec<Id> = cx.connections.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.unblock(id, now, cx);
            if self.write(id, &close, cx).is_err() {
                cx.connections.remove(id);
            }
        }
    }
}
